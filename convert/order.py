"""The order in which inputs become records. Pure: no I/O.

Everything seeded here comes from :class:`lmdbio.layout.permutation.Permutation` and from one hash, never from numpy's
random streams, which may change from release to release.
"""

import hashlib
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.permutation import Permutation

PURPOSE: Final = "layout"
_CLASS_PURPOSE: Final = "layout-class"
_PARTITION_PURPOSE: Final = "layout-partition"


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
    return Permutation(n_records, seed=seed, purpose=PURPOSE)(np.arange(n_records, dtype=np.int64))


def interleaved(labels: NDArray[np.int64], *, seed: int) -> NDArray[np.int64]:
    """Return an order in which every stretch holds each class in its share, int64, shape (n_records,).

    The j-th record (shuffled within its class) of the n_c of class c sorts at ``(j + u_c) / n_c``, where u_c is seeded
    in [0, 1).
    """
    by_class = np.argsort(labels, kind="stable")
    classes, starts = np.unique(labels[by_class], return_index=True)
    bounds = np.append(starts, len(labels))
    order = np.empty(len(labels), np.int64)
    places = np.empty(len(labels), np.float64)
    for label, start, stop in zip(classes.tolist(), bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        count = stop - start
        within = np.arange(count, dtype=np.int64)
        permutation = Permutation(count, seed=seed, purpose=_CLASS_PURPOSE, numbers=(label,))
        order[start:stop] = by_class[start:stop][permutation(within)]
        places[start:stop] = (within + _fraction(seed, label)) / count
    return order[np.argsort(places, kind="stable")]


def shuffled_within(order: NDArray[np.int64], bounds: NDArray[np.int64], *, seed: int) -> NDArray[np.int64]:
    """Return the order with each partition's records shuffled among themselves, int64, shape (n_records,).

    Parameters
    ----------
    order
        Numbers in any order, int64, shape (n_records,).
    bounds
        The partitions, int64, shape (n_partitions + 1,).
    """
    result = np.empty_like(order)
    for partition, (start, stop) in enumerate(pairwise(bounds.tolist())):
        permutation = Permutation(stop - start, seed=seed, purpose=_PARTITION_PURPOSE, numbers=(partition,))
        result[start:stop] = order[start:stop][permutation(np.arange(stop - start, dtype=np.int64))]
    return result


def _fraction(seed: int, label: int) -> float:
    """Return a number in [0, 1) that the seed and the class decide, a multiple of 2^-53."""
    digest = hashlib.blake2b(f"lmdbio stratified\n{seed}\n{label}\n".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) / (1 << 53)
