"""Going through many records a bounded number at a time, so that what is computed on the way takes little memory."""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

PIECE: Final = 1 << 16
"""Records at a time: a few arrays of them stay in a core's own cache."""


def pieces(n_records: int, *, size: int = PIECE) -> Iterator[slice]:
    """Yield the slices that cut ``0 .. n_records-1`` into runs of ``size`` records, the last one shorter.

    >>> list(pieces(5, size=2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return (slice(start, min(start + size, n_records)) for start in range(0, n_records, size))


def counts_up(numbers: NDArray[np.int64], n: int) -> bool:
    """Return whether the numbers are 0, 1, 2 up to n-1.

    >>> counts_up(np.array([0, 1]), 2), counts_up(np.array([1, 0]), 2)
    (True, False)
    """
    return len(numbers) == n and all(
        np.array_equal(numbers[piece], np.arange(piece.start, piece.stop)) for piece in pieces(n)
    )
