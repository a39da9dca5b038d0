"""What a reader says before it is slow, or its batches poor: once each in a process, through ``logging``."""

import logging
import os
from pathlib import Path
from threading import Lock
from typing import Final

import numpy as np

from lmdbio.reader.file_state import network_file_system
from lmdbio.reader.joined_index import RecordIndex

_WINDOWS: Final = 64
_WINDOW: Final = 1024
_SORTED: Final = 0.25
"""Share of the changes of class that chance would have, below which records count as sorted."""
_ROOT: Final = Path("/")
_log = logging.getLogger("lmdbio.reader")
_said: set[str] = set()
_lock = Lock()


def warn_once(message: str, *, about: str | None = None) -> None:
    """Log a warning, unless this process has said the same before, or something else ``about`` the same."""
    with _lock:
        if (about or message) in _said:
            return
        _said.add(about or message)
    _log.warning(message)


def warn_of_affinity(n_threads: int) -> None:
    """Warn if this process may use fewer CPUs than it is to have threads, though the machine has more."""
    n_cpus, n_all = len(os.sched_getaffinity(0)), os.cpu_count() or 1
    if n_cpus < min(n_threads, n_all):
        warn_once(
            f"{n_threads} threads are to read or decode, but the process may use {n_cpus} of {n_all} CPUs: let the "
            "launcher give it more (srun --cpus-per-task, mpiexec --bind-to none)"
        )


def warn_of_sorted_classes(index: RecordIndex, *, shuffle_window: int) -> None:
    """Warn if the records lie sorted by class, so that ``block`` order has few classes in a batch."""
    if is_class_sorted(index):
        warn_once(
            f"{index.path}: records lie sorted by class, and block order shuffles {shuffle_window} partitions of a "
            "stream at a time: batches will hold few classes; read in global order, or convert the data set with "
            "`lmdbio-convert --order shuffle`"
        )


def is_class_sorted(index: RecordIndex) -> bool:
    """Return whether the class changes from record to record far more seldom than chance would have it.

    Looked at are up to 64 runs of 1,024 records in layout order. By chance two records are of different classes with
    probability 1 - sum of p_c^2, where p_c is the share of class c.
    """
    labels, n = index.labels, len(index)
    if labels is None or n < 2:
        return False
    order = index.layout_order
    starts = np.unique(np.linspace(0, max(0, n - _WINDOW), _WINDOWS).astype(np.int64))
    windows = [np.arange(start, min(start + _WINDOW, n)) for start in starts.tolist()]
    runs = [labels[window if order is None else order[window]] for window in windows]
    _, counts = np.unique(np.concatenate(runs), return_counts=True)
    shares = counts / counts.sum()
    by_chance = 1 - float((shares**2).sum())
    changes = sum(int(np.count_nonzero(np.diff(run))) for run in runs)
    return by_chance > 0 and changes < _SORTED * by_chance * sum(len(run) - 1 for run in runs)


def warn_of_readahead(fd: int, path: str, *, root: Path = _ROOT) -> None:
    """Warn if the kernel reads a page at a time ahead on a file system of a network."""
    if network_file_system(fd) is None:
        return
    device = os.fstat(fd).st_dev
    setting = root / f"sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb"
    try:
        size = int(setting.read_text())
    except (OSError, ValueError):
        return  # not told here
    if size <= 4:  # one page
        warn_once(
            f"{path}: the kernel reads {size} KiB ahead on this network file system: what goes through the page cache "
            f"is slow; write 4096 to {setting}, or read with ReadOptions(direct=True)"
        )


def warn_of_held(held: int, limit: int) -> None:
    """Warn that the caller holds more bytes of batches than reading ahead may hold."""
    warn_once(
        f"{held >> 20} MiB of batches are held, more than twice prefetch_bytes ({limit >> 20} MiB): the memory of each "
        "is used again once nothing refers to it or its views; keep copy() of what you keep, and release() the rest",
        about="held batches",
    )
