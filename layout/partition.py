"""Where runs of records are cut: into leaves, into branches, into partitions. Pure: no I/O.

A list of cuts is an int64 array of bounds, shape (n_runs + 1,), from 0 to the number of records. Greedy cuts are found
for every possible start at once (one sorted search), then followed from run to run: no step costs time per record
outside numpy.
"""

from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.page import HEADER_SIZE, NODE_HEADER_SIZE, POINTER_SIZE

Bounds = NDArray[np.int64]


def running_sum(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sum of the sizes before each place, and the total at the end, int64, shape (len(sizes) + 1,)."""
    sums = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=sums[1:])
    return sums


def align_up(number: int, unit: int) -> int:
    """Return the smallest multiple of the unit that is not below the number.

    >>> align_up(5, 4), align_up(8, 4)
    (8, 8)
    """
    return -(-number // unit) * unit


def leaf_ends(node_sizes: NDArray[np.int64], *, page_size: int) -> NDArray[np.int64]:
    """Return where a leaf that begins at each record ends if it is filled as far as it goes, int64, shape (n_records,).

    This is the fill of ``mdb_put`` with ``MDB_APPEND``: a node that does not fit begins the next leaf.
    """
    sums = running_sum(node_sizes)
    ends: NDArray[np.int64] = np.searchsorted(sums, sums[:-1] + (page_size - HEADER_SIZE), "right") - 1
    return ends


def cut_leaves(ends: NDArray[np.int64], bounds: Bounds) -> Bounds:
    """Return the bounds of the leaves of all partitions; no leaf spans two of them.

    Parameters
    ----------
    ends
        Where the leaf that begins at each record would end, of :func:`leaf_ends`.
    bounds
        The partitions.
    """
    leaves = [0]
    follow = ends.data
    at = 0
    for bound in bounds[1:].tolist():
        while at < bound:
            at = min(follow[at], bound)
            leaves.append(at)
    return np.array(leaves, np.int64)


def cut_branches(key_sizes: NDArray[np.int64], *, page_size: int) -> Bounds:
    """Return the bounds of the branch pages over their children, whose first keys have the sizes given.

    The first node of a branch page stands without its key. A branch page with a single child would crash LMDB, so the
    last page takes one from its left neighbour, which has three or more: that is what the limit on keys is for.
    """
    costs = ((NODE_HEADER_SIZE + key_sizes + 1) & ~1) + POINTER_SIZE
    sums = running_sum(costs)
    room = page_size - HEADER_SIZE - NODE_HEADER_SIZE - POINTER_SIZE
    ends = np.searchsorted(sums, sums[1:] + room, "right") - 1
    bounds = cut_leaves(ends, np.array([0, len(key_sizes)], np.int64))
    if len(bounds) > 2 and bounds[-1] - bounds[-2] == 1:
        bounds[-2] -= 1
    return bounds


def cut_by_size(pages: NDArray[np.int64], ends: NDArray[np.int64] | None, *, partition_pages: int) -> Bounds:
    """Return partitions filled as far as they go: overflow and leaf pages fit, unless it is one record.

    Parameters
    ----------
    pages
        Overflow pages of each record, int64, shape (n_records,).
    ends
        Where a leaf that begins at each record would end; None where leaves lie elsewhere.
    partition_pages
        The most pages of a partition.
    """
    sums = running_sum(pages).data
    follow = None if ends is None else ends.data
    bounds = [0]
    while bounds[-1] < len(pages):
        start = bounds[-1]
        limit = sums[start] + partition_pages
        end = _last_fit(sums, start, limit) if follow is None else _last_fit_with_leaves(sums, follow, start, limit)
        bounds.append(max(end, start + 1))
    return np.array(bounds, np.int64)


def _last_fit(sums: "memoryview[int]", start: int, limit: int) -> int:
    return bisect_right(sums, limit, start) - 1


def _last_fit_with_leaves(sums: "memoryview[int]", ends: "memoryview[int]", start: int, limit: int) -> int:
    """Return the end of the longest run from start on whose overflow pages and leaves stay within the limit."""
    at, n_records = start, len(ends)
    while at < n_records:
        limit -= 1  # one more leaf
        end = ends[at]
        if sums[end] > limit:
            return max(at, bisect_right(sums, limit, at, end) - 1)
        at = end
    return at


def cut_by_count(sizes: NDArray[np.int64], n_partitions: int) -> Bounds:
    """Return ``min(n_partitions, n_records)`` partitions of nearly equal size, none empty.

    >>> cut_by_count(np.array([5, 1, 1, 1, 1, 1]), 2).tolist()
    [0, 1, 6]
    """
    n_records = len(sizes)
    n_runs = min(n_partitions, n_records)
    sums = running_sum(sizes)
    numbers = np.arange(n_runs + 1, dtype=np.int64)
    goals = int(sums[-1]) * (numbers / max(1, n_runs))
    after = np.minimum(np.searchsorted(sums, goals), n_records)
    before = np.maximum(after - 1, 0)
    bounds = np.where(goals - sums[before] < sums[after] - goals, before, after).astype(np.int64)
    # Each partition takes at least one record, and leaves one for each that follows.
    bounds = np.maximum.accumulate(np.maximum(bounds - numbers, 0)) + numbers
    bounds = np.minimum(bounds, n_records - n_runs + numbers)
    bounds[0], bounds[-1] = 0, n_records
    return bounds
