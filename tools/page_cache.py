"""The page cache of one file: dropped, filled, and how much of the file it holds. Linux only."""

import os

import numpy as np

from lmdbio.reader.page_cache import COLD_SHARE, empty, page_states


def drop(path: str | os.PathLike[str]) -> bool:
    """Ask the system to forget the file's pages, those not yet on the device being written first; return if it did.

    Pages that some process has mapped stay, and a file system that is memory keeps all.
    """
    empty(path)
    return cached_share(path) <= COLD_SHARE


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
    with open(path, "rb") as file:
        return float(np.mean(page_states(file.fileno(), 0, size) & 1))
