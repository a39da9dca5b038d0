"""Ranges of different sizes laid end to end, of bytes and of numbers. Pure: no I/O."""

from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

_WINDOW_SIZE: Final = 8192
"""Ranges of equal size up to this many bytes are copied by one numpy call, which copies twice; larger ones one by one.
"""


def gather(buffer: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the bytes of many ranges end to end, uint8, shape (sum of sizes,).

    The work is one numpy call for each different size, not one for each range.

    Parameters
    ----------
    buffer
        What the ranges lie in, contiguous, uint8.
    starts, sizes
        First byte and bytes of each range, int64, shape (n_ranges,); all inside the buffer, which is not checked.
    """
    ends = np.cumsum(sizes)
    blob = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    if len(blob) and sizes.min() == sizes.max():
        return np.ascontiguousarray(_windows(buffer, int(sizes[0]))[starts]).view(np.uint8)
    copy_ranges(blob, ends - sizes, buffer, starts, sizes)
    return blob


def copy_ranges(
    target: NDArray[np.uint8],
    target_starts: NDArray[np.int64],
    source: NDArray[np.uint8],
    source_starts: NDArray[np.int64],
    sizes: NDArray[np.int64],
) -> None:
    """Copy many byte ranges from one array to another; small ones by one numpy call for each size that occurs.

    Parameters
    ----------
    target, source
        Contiguous, uint8, one axis.
    target_starts, source_starts, sizes
        One range each, int64, shape (n_ranges,); ranges of the target do not overlap.
    """
    large = np.flatnonzero(sizes > _WINDOW_SIZE)
    read, write = source.data, target.data
    for begin, place, size in zip(
        source_starts[large].tolist(), target_starts[large].tolist(), sizes[large].tolist(), strict=True
    ):
        write[place : place + size] = read[begin : begin + size]
    small = np.flatnonzero(sizes <= _WINDOW_SIZE) if len(large) else np.arange(len(sizes))
    order = small[np.argsort(sizes[small], kind="stable")]
    cuts = np.flatnonzero(np.diff(sizes[order], prepend=-1, append=-1)).tolist()
    for first, last in pairwise(cuts):
        group = order[first:last]
        size = int(sizes[group[0]])
        if size:
            _windows(target, size)[target_starts[group]] = _windows(source, size)[source_starts[group]]


def _windows(buffer: NDArray[np.uint8], size: int) -> NDArray[np.void]:
    """Return a view whose element i is the ``size`` bytes from byte i on, void, shape (len(buffer) - size + 1,)."""
    return np.ndarray((len(buffer) - size + 1,), f"V{size}", buffer.data, strides=(1,))


def ranges(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers of half-open ranges [start, start + count) one after another, int64.

    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    numbers: NDArray[np.int64] = np.arange(total) + np.repeat(starts - (ends - counts), counts)
    return numbers
