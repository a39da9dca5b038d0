"""Which inputs are taken, and the shuffled order. Pure: no I/O.

What is seeded comes from :class:`lmdbio.layout.permutation.Permutation`, never from numpy's random streams, which may
change from release to release.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.permutation import Permutation
from lmdbio.layout.pieces import pieces

PURPOSE: Final = "layout"


def spread(n_inputs: int, limit: int | None) -> NDArray[np.int64]:
    """Return the numbers of the inputs to take: all, or ``limit`` of them evenly spread, int64, ascending.

    The k-th of L out of n is input ``k * n // L``, so that each class keeps its share.

    >>> spread(10, 4).tolist(), spread(3, 10).tolist()
    ([0, 2, 5, 7], [0, 1, 2])
    """
    if limit is None or limit >= n_inputs:
        return np.arange(n_inputs, dtype=np.int64)
    # Python's integers: k * n may pass 2^63.
    return np.fromiter((k * n_inputs // limit for k in range(limit)), np.int64, limit)


def shuffled(n_records: int, *, seed: int) -> NDArray[np.int64]:
    """Return one seeded shuffle of ``0 .. n_records-1``, int64, shape (n_records,)."""
    permutation = Permutation(n_records, seed=seed, purpose=PURPOSE)
    order = np.arange(n_records, dtype=np.int64)
    for piece in pieces(n_records):
        order[piece] = permutation(order[piece])
    return order
