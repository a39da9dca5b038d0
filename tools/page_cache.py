"""The page cache of one file: dropped, filled, and how much of the file it holds. Linux only."""

import ctypes
import mmap
import os
from typing import Final

import numpy as np

_COLD_SHARE: Final = 0.02


def drop(path: str | os.PathLike[str]) -> bool:
    """Ask the system to forget the file's pages, those not yet on the device being written first; return if it did.

    Pages that some process has mapped stay, and a file system that is memory keeps all.
    """
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return cached_share(path) <= _COLD_SHARE


def fill(path: str | os.PathLike[str]) -> None:
    """Read the file once, so that its pages are in memory."""
    with open(path, "rb", buffering=0) as file:
        buffer = bytearray(1 << 22)
        while file.readinto(buffer):
            pass


def cached_share(path: str | os.PathLike[str]) -> float:
    """Return what part of the file's pages is in memory, 0 to 1; an empty file is all there.

    Asked with mincore(2): reads that may not wait would tell as well, but they start reading ahead.

    Raises
    ------
    OSError
        If the system does not say.
    """
    size = os.path.getsize(path)
    if size == 0:
        return 1.0
    states = np.zeros(-(-size // mmap.PAGESIZE), np.uint8)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) as mapped:
        first = ctypes.c_char.from_buffer(mapped)
        libc = ctypes.CDLL(None, use_errno=True)
        status = libc.mincore(
            ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(size), ctypes.c_void_p(states.ctypes.data)
        )
        del first  # a map that is referred to cannot be closed
    if status:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), os.fspath(path))
    return float(np.mean(states & 1))
