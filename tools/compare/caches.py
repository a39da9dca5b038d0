"""What of a data set the page cache holds when the clock starts: nothing, or all; and memory used once before."""

import functools
import itertools
import mmap
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from lmdbio.cli.sizes import format_size
from tools import page_cache
from tools.compare.questions import Cache

_DROP: Final = Path("/proc/sys/vm/drop_caches")
_N_LOOKED_AT: Final = 50
_COLD_SHARE: Final = 0.02
_PIECE_SIZE: Final = 256 << 20


class NotCold(RuntimeError):  # noqa: N818  # a finding about the machine
    """The page cache would not forget the files."""


def files_below(folders: Iterable[Path]) -> list[Path]:
    """Return all files in these folders, sorted, as they were when it was first asked for."""
    return [path for folder in folders for path in _files_below(folder)]


@functools.cache
def _files_below(folder: Path) -> tuple[Path, ...]:
    """Return the files of one folder; on a network to list thousands takes long, and nobody adds any."""
    return tuple(sorted(Path(path, name) for path, _, names in os.walk(folder) for name in names))


def can_drop_all() -> bool:
    """Return whether this process may empty the page cache, inodes and names included."""
    return os.geteuid() == 0 and os.access(_DROP, os.W_OK)


def prepare(cache: Cache, folders: Sequence[Path]) -> None:
    """Bring the page cache into the state that a question asks for.

    Parameters
    ----------
    cache
        The state.
    folders
        What will be read, seen from each node.

    Raises
    ------
    NotCold
        If the system does not forget the files.
    """
    distinct = list(dict.fromkeys(folders))
    os.sync()  # what was written or removed before must not be at the cost of this run
    if cache == "cold":
        make_cold(distinct)
    else:
        make_warm(distinct)


def make_cold(folders: Sequence[Path]) -> None:
    """Make the system forget the files in these folders.

    Where this is not root's process, inodes and names stay in memory.

    Raises
    ------
    NotCold
        If it does not.
    """
    files = files_below(folders)
    forget(files)
    for path in files[:: max(1, len(files) // _N_LOOKED_AT)]:
        with suppress(FileNotFoundError):
            _check_cold(path)


def _check_cold(path: Path) -> None:
    share = page_cache.cached_share(path)
    if share > _COLD_SHARE and path.stat().st_size:
        raise NotCold(f"{path}: expected the system to forget the file, found {share:.0%} of it in memory")


def forget(files: Iterable[Path]) -> None:
    """Ask the system to forget these files, or all; what is mapped stays."""
    if can_drop_all():
        _DROP.write_text("3")
        return
    for path in files:
        with suppress(FileNotFoundError):  # contestants make and remove files as they read
            page_cache.drop(path)


def make_warm(folders: Sequence[Path]) -> None:
    """Read all files in these folders once."""
    for path in files_below(folders):
        with suppress(FileNotFoundError):
            page_cache.fill(path)


def check_memory(n_bytes: int | None) -> None:
    """Refuse to use more memory than there is.

    Raises
    ------
    ValueError
        If there is less.
    """
    free = free_memory()
    if n_bytes is not None and n_bytes > free:
        raise ValueError(
            f"--warm-up: expected {format_size(free)} or less, which is free, found {format_size(n_bytes)}"
        )


def use_memory(n_bytes: int) -> None:
    """Fill this much memory once and give it back: a virtual machine's first use of a page costs its host time."""
    if not n_bytes:
        return
    # In a process of its own, so that all of it goes back to the system.
    subprocess.run([sys.executable, "-c", f"from tools.compare.caches import fill; fill({n_bytes})"], check=True)


def fill(n_bytes: int) -> None:
    """Write to every page of this much memory."""
    held = []
    for begin in range(0, n_bytes, _PIECE_SIZE):
        piece = mmap.mmap(-1, min(_PIECE_SIZE, n_bytes - begin))
        for place in range(0, len(piece), mmap.PAGESIZE):
            piece[place] = 1
        held.append(piece)


def free_memory() -> int:
    """Return the bytes of memory that a process could have."""
    lines = itertools.takewhile(bool, Path("/proc/meminfo").read_text().splitlines())
    facts = dict(line.split(":", 1) for line in lines)
    return int(facts["MemAvailable"].split()[0]) << 10
