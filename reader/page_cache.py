"""The page cache of one file on this machine: emptied, and how much of the file it holds. Linux only."""

import contextlib
import ctypes
import mmap
import os
import resource
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.file import read_nowait
from lmdbio.layout.path import PathLike

COLD_SHARE: Final = 0.02
"""Part of a file's pages that may be in memory when it counts as emptied."""
_HEAD: Final = 1 << 30
"""Bytes from the beginning on that are looked at whole: what is read of a large file is there more often than not."""
_WINDOW: Final = 1 << 20
_N_WINDOWS: Final = 256
_AT_ONCE: Final = 64 << 20
_N_PROBES: Final = 64


def empty(path: PathLike) -> None:
    """Ask the system to forget the file's pages, after writing those that are not on the device; mapped ones stay."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _write_back(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def _write_back(fd: int) -> None:
    with contextlib.suppress(OSError):  # a file system that is never written to may refuse
        os.fsync(fd)


def can_empty(path: PathLike) -> bool:
    """Return whether the system forgets a file's pages when asked: tried with the first MiB, which is read."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = min(os.fstat(fd).st_size, _WINDOW)
        os.pread(fd, size, 0)
        _write_back(fd)
        # Pages may lie together in one piece of memory, which is given up as a whole or not at all.
        os.posix_fadvise(fd, 0, _AT_ONCE, os.POSIX_FADV_DONTNEED)
        cached = _cached_pages(fd, path, [(0, size)])
    finally:
        os.close(fd)
    return cached is not None and cached <= COLD_SHARE


def cached_share(path: PathLike) -> float | None:
    """Return what part of the file's pages is in memory, 0 to 1; None where the system does not say.

    Of a large file the first GiB is looked at whole, and the rest in places; the larger part of the two counts.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        head = _cached_pages(fd, path, [(0, min(size, _HEAD))])
        if head is None or size <= _HEAD:
            return head
        starts = np.linspace(_HEAD, size - _WINDOW, _N_WINDOWS).astype(np.int64) // mmap.PAGESIZE * mmap.PAGESIZE
        rest = _cached_pages(fd, path, [(max(0, start), _WINDOW) for start in starts.tolist()])
        return head if rest is None else max(head, rest)
    finally:
        os.close(fd)


def _cached_pages(fd: int, path: PathLike, ranges: list[tuple[int, int]]) -> float | None:
    """Return what part of the pages of the ranges is in memory."""
    if not _is_told(fd, path):
        return _cached_by_reading(fd, ranges)
    states = [page_states(fd, offset, length) for offset, length in ranges if length]
    return float(np.mean(np.concatenate(states) & 1)) if states else 0.0


def _is_told(fd: int, path: PathLike) -> bool:
    """Return whether mincore(2) tells the truth: of a file of others, newer kernels say that all is there."""
    return os.fstat(fd).st_uid == os.geteuid() or os.access(path, os.W_OK) or os.geteuid() == 0


def page_states(fd: int, offset: int, length: int) -> NDArray[np.uint8]:
    """Return the state of each page of a range, uint8, shape (n_pages,); its lowest bit: in memory.

    Raises
    ------
    OSError
        If the system does not say.
    """
    states = np.zeros(-(-length // mmap.PAGESIZE), np.uint8)
    with mmap.mmap(fd, length, access=mmap.ACCESS_COPY, offset=offset) as mapped:
        first = ctypes.c_char.from_buffer(mapped)
        status = ctypes.CDLL(None, use_errno=True).mincore(
            ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(length), ctypes.c_void_p(states.ctypes.data)
        )
        del first  # a map that is referred to cannot be closed
    if status:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return states


def _cached_by_reading(fd: int, ranges: list[tuple[int, int]]) -> float | None:
    """Return the part of some single pages that can be read without waiting; None where reads always may wait.

    Pages that are not there come in, but no others: the descriptor is set to random access. A page for which the thread
    has asked the device was not there, though a fast device may give it before the read has ended.
    """
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    begin, end = ranges[0][0], ranges[-1][0] + ranges[-1][1]
    places = np.unique(np.linspace(begin, max(begin, end - 1), _N_PROBES).astype(np.int64) // mmap.PAGESIZE)
    page = bytearray(mmap.PAGESIZE)
    found = 0
    for place in places.tolist():
        asked = _n_blocks_asked()
        count = read_nowait(fd, [page], place * mmap.PAGESIZE)
        if count is None:
            return None
        found += count > 0 and _n_blocks_asked() == asked
    return found / len(places)


def _n_blocks_asked() -> int:
    """Return how many blocks this thread has asked devices for."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_inblock
