"""Where partitions begin in layout order when nobody stored it: where values enter another stretch of the file."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.extents import Extents
from lmdbio.layout.pieces import pieces

PARTITION_SIZE: Final = 16 << 20
"""Bytes of the file that one partition covers unless asked otherwise."""


def cut_partitions(
    extents: Extents, layout_order: NDArray[np.int64] | None, *, partition_size: int
) -> NDArray[np.int64]:
    """Return the bounds of partitions in layout order, int64, shape (n_partitions + 1,).

    The file is cut into stretches of ``partition_size`` bytes, and a value belongs to the one that holds the byte
    before its own first: that byte is always on the value's page, also where an empty value stands at a page's end.

    >>> extents = Extents.pack(np.array([16, 4112, 8208, 12304], np.uint64), np.array([5, 5, 5, 5]))
    >>> cut_partitions(extents, None, partition_size=8192).tolist()
    [0, 2, 4]
    """
    if partition_size < 1:
        raise ValueError(f"partition_size: expected 1 byte or more, found {partition_size}")
    n = len(extents)
    bounds = [np.zeros(1, np.int64)]
    before = None
    for piece in pieces(n):
        places = np.arange(piece.start, piece.stop)
        offsets = extents.offsets_at(places if layout_order is None else layout_order[places])
        stretches = (offsets - np.uint64(1)) // np.uint64(partition_size)
        # The first value of all begins a partition, which the leading bound says already.
        previous = stretches[:1] if before is None else before
        bounds.append(places[np.diff(stretches, prepend=previous) != 0])
        before = stretches[-1:]
    return np.concatenate([*bounds, np.full(1 if n else 0, n, np.int64)])
