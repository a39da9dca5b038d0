"""The stratified order: every partition holds each class in its share, shuffled within. Pure: no I/O.

Records are interleaved class by class, cut into partitions, and shuffled within each. A shuffle changes how full the
leaves get, and so what fits: partitions are cut and shuffled one after the other, each checked as it will be written.
"""

import hashlib
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.page import HEADER_SIZE
from lmdbio.layout.partition import cut_leaves, leaf_fills
from lmdbio.layout.permutation import Permutation

_CLASS_PURPOSE: Final = "layout-class"
_PARTITION_PURPOSE: Final = "layout-partition"


def interleaved(labels: NDArray[np.integer[Any]], *, seed: int) -> NDArray[np.int64]:
    """Return an order in which every stretch holds each class in its share, int64, shape (n_records,).

    The j-th record (shuffled within its class) of the n_c of class c sorts at ``(j + u_c) / n_c``, where u_c is seeded
    in [0, 1).

    Parameters
    ----------
    labels
        Class of each record, any integers, shape (n_records,).
    seed
        What the order follows from.
    """
    order = np.argsort(labels, kind="stable")
    labels = labels[order]
    starts = np.flatnonzero(labels[1:] != labels[:-1]) + 1
    bounds = [0, *starts.tolist(), len(labels)] if len(labels) else [0]
    places = np.empty(len(labels), np.float64)
    for start, stop in pairwise(bounds):
        label = int(labels[start])
        within = np.arange(stop - start, dtype=np.int64)
        permutation = Permutation(stop - start, seed=seed, purpose=_CLASS_PURPOSE, numbers=(label,))
        order[start:stop] = order[start:stop][permutation(within)]
        places[start:stop] = (within + _fraction(seed, label)) / (stop - start)
    del labels
    by_place = np.argsort(places, kind="stable")
    del places
    return order[by_place]


def shuffled_within(order: NDArray[np.int64], bounds: NDArray[np.int64], *, seed: int) -> NDArray[np.int64]:
    """Return the order with each partition's records shuffled among themselves, int64, shape (n_records,).

    Parameters
    ----------
    order
        Numbers in any order, int64, shape (n_records,).
    bounds
        The partitions, int64, shape (n_partitions + 1,).
    seed
        What the shuffles follow from.
    """
    result = np.empty_like(order)
    for partition, (start, stop) in enumerate(pairwise(bounds.tolist())):
        result[start:stop] = _shuffled(order[start:stop], partition, seed=seed)
    return result


@dataclass(frozen=True, slots=True)
class PageNeeds:
    """What each record takes of a file, by its place in an order."""

    pages: NDArray[Any]
    """Overflow pages, any integers, shape (n_records,)."""
    node_sizes: NDArray[Any]
    """Bytes of a leaf, any integers, shape (n_records,)."""
    page_size: int
    """Bytes of a page."""

    def count(self, records: NDArray[np.int64]) -> int:
        """Return the pages that records take as one partition, in the order given."""
        fills = leaf_fills(self.node_sizes[records], page_size=self.page_size)
        leaves = cut_leaves(fills, np.array([0, len(records)], np.int64))
        return int(self.pages[records].sum()) + len(leaves) - 1


def cut_and_shuffle(
    needs: PageNeeds, *, partition_pages: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return an order in which each partition's records are shuffled, and the partitions, which fit their size.

    Parameters
    ----------
    needs
        What each record takes, in the order before the shuffles.
    partition_pages
        The most pages of a partition, unless it is one record.
    seed
        What the shuffles follow from.

    Returns
    -------
    order
        Places in the order before, int64, shape (n_records,).
    bounds
        The partitions, int64, shape (n_partitions + 1,).
    """
    n_records = len(needs.pages)
    # In whole pages' bytes: no order of the leaves takes less.
    least = np.zeros(n_records + 1, np.int64)
    least[1:] = needs.pages
    least *= needs.page_size - HEADER_SIZE
    least[1:] += needs.node_sizes
    np.cumsum(least, out=least)
    reach = least.data
    order = np.arange(n_records, dtype=np.int64)
    bounds = [0]
    while bounds[-1] < n_records:
        start = bounds[-1]
        room = partition_pages
        while True:
            stop = bisect_right(reach, reach[start] + room * (needs.page_size - HEADER_SIZE), start) - 1
            stop = max(stop, start + 1)
            records = _shuffled(np.arange(start, stop, dtype=np.int64), len(bounds) - 1, seed=seed)
            excess = needs.count(records) - partition_pages
            if excess <= 0 or stop == start + 1:
                break
            room -= excess
        order[start:stop] = records
        bounds.append(stop)
    return order, np.array(bounds, np.int64)


def _shuffled(records: NDArray[np.int64], partition: int, *, seed: int) -> NDArray[np.int64]:
    permutation = Permutation(len(records), seed=seed, purpose=_PARTITION_PURPOSE, numbers=(partition,))
    return records[permutation(np.arange(len(records), dtype=np.int64))]


def _fraction(seed: int, label: int) -> float:
    """Return a number in [0, 1) that the seed and the class decide, a multiple of 2^-53."""
    digest = hashlib.blake2b(f"lmdbio stratified\n{seed}\n{label}\n".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) / (1 << 53)
