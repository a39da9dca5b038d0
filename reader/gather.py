"""Copying many byte ranges of one buffer to places in another. Pure but for the copy."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

_ROW_SIZE: Final = 8192
"""Ranges of equal size up to this many bytes are copied by one numpy call: above, a call for each costs less than the
second copy that numpy makes."""


def copy_ranges(
    source: NDArray[np.uint8],
    starts: NDArray[np.int64],
    target: NDArray[np.uint8],
    places: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> None:
    """Copy ``source[starts[i]:][:lengths[i]]`` to ``target[places[i]:][:lengths[i]]`` for every i.

    Parameters
    ----------
    source, target
        Bytes, uint8, one-dimensional, contiguous.
    starts, places, lengths
        The ranges, int64, shape (n_ranges,).
    """
    if not len(lengths):
        return
    size = int(lengths[0])
    if 0 < size <= _ROW_SIZE and len(lengths) > 1 and bool((lengths == size).all()):
        # windows: (every start possible, size), each row one byte after the row above
        rows = np.lib.stride_tricks.sliding_window_view(source, size)[starts]
        np.lib.stride_tricks.sliding_window_view(target, size, writeable=True)[places] = rows
        return
    read, write = source.data, target.data
    for start, place, length in zip(starts.tolist(), places.tolist(), lengths.tolist(), strict=True):
        write[place : place + length] = read[start : start + length]
