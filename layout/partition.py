"""Where runs of records are cut: into leaves, into branches, into partitions. Pure: no I/O.

A list of cuts is an int64 array of bounds, shape (n_runs + 1,), from 0 to the number of records. Greedy cuts are found
for every possible start at once (one sorted search), then followed from run to run: no step costs time per record
outside numpy.
"""

from array import array
from bisect import bisect_right
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.page import HEADER_SIZE, NODE_HEADER_SIZE, POINTER_SIZE
from lmdbio.layout.pieces import pieces

Bounds = NDArray[np.int64]


def running_sum(sizes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the sum of the sizes before each place, and the total at the end, int64, shape (len(sizes) + 1,).

    Sizes are any integers, or bools.
    """
    sums = np.zeros(len(sizes) + 1, np.int64)
    sums[1:] = sizes  # numpy would make a copy of smaller numbers to sum them up
    np.cumsum(sums, out=sums)
    return sums


def align_up(number: int, unit: int) -> int:
    """Return the smallest multiple of the unit that is not below the number.

    >>> align_up(5, 4), align_up(8, 4)
    (8, 8)
    """
    return -(-number // unit) * unit


def leaf_fills(node_sizes: NDArray[Any], *, page_size: int) -> NDArray[np.uint16]:
    """Return how many records a leaf that begins at each one takes if filled as far as it goes, uint16, (n_records,).

    This is the fill of ``mdb_put`` with ``MDB_APPEND``: a node that does not fit begins the next leaf.

    Parameters
    ----------
    node_sizes
        Bytes that each record takes of a leaf, any integers, shape (n_records,).
    page_size
        Bytes of a page.
    """
    room = page_size - HEADER_SIZE
    most = room // int(node_sizes.min(initial=room))
    fills = np.empty(len(node_sizes), np.uint16)
    for piece in pieces(len(fills)):
        sums = running_sum(node_sizes[piece.start : piece.stop + most])
        starts = np.arange(piece.stop - piece.start)
        fills[piece] = np.searchsorted(sums, sums[starts] + room, "right") - 1 - starts
    return fills


def cut_leaves(fills: NDArray[np.uint16], bounds: Bounds) -> Bounds:
    """Return the bounds of the leaves of all partitions; no leaf spans two of them.

    Parameters
    ----------
    fills
        How many records a leaf that begins at each record takes, of :func:`leaf_fills`.
    bounds
        The partitions.
    """
    leaves = array("q", [0])
    follow = fills.data
    at = 0
    for bound in bounds[1:].tolist():
        while at < bound:
            at = min(at + follow[at], bound)
            leaves.append(at)
    return np.frombuffer(leaves, np.int64)


def cut_branches(key_sizes: NDArray[np.int64], *, page_size: int) -> Bounds:
    """Return the bounds of the branch pages over their children, whose first keys have the sizes given.

    The first node of a branch page stands without its key. A branch page with a single child would crash LMDB, so the
    last page takes one from its left neighbour, which has three or more: that is what the limit on keys is for.
    """
    costs = ((NODE_HEADER_SIZE + key_sizes + 1) & ~1) + POINTER_SIZE
    sums = running_sum(costs)
    room = page_size - HEADER_SIZE - NODE_HEADER_SIZE - POINTER_SIZE
    fills = np.searchsorted(sums, sums[1:] + room, "right") - 1 - np.arange(len(key_sizes))
    bounds = cut_leaves(fills.astype(np.uint16), np.array([0, len(key_sizes)], np.int64))
    if len(bounds) > 2 and bounds[-1] - bounds[-2] == 1:
        bounds[-2] -= 1
    return bounds


def cut_by_size(pages: NDArray[Any], fills: NDArray[np.uint16] | None, *, partition_pages: int) -> Bounds:
    """Return partitions filled as far as they go: overflow and leaf pages fit, unless it is one record.

    Parameters
    ----------
    pages
        Overflow pages of each record, any integers, shape (n_records,).
    fills
        How many records a leaf that begins at each record takes; None where leaves lie elsewhere.
    partition_pages
        The most pages of a partition.
    """
    sums = running_sum(pages).data
    follow = None if fills is None else fills.data
    bounds = [0]
    while bounds[-1] < len(pages):
        start = bounds[-1]
        limit = sums[start] + partition_pages
        end = _last_fit(sums, start, limit) if follow is None else _last_fit_with_leaves(sums, follow, start, limit)
        bounds.append(max(end, start + 1))
    return np.array(bounds, np.int64)


def _last_fit(sums: "memoryview[int]", start: int, limit: int) -> int:
    return bisect_right(sums, limit, start) - 1


def _last_fit_with_leaves(sums: "memoryview[int]", fills: "memoryview[int]", start: int, limit: int) -> int:
    """Return the end of the longest run from start on whose overflow pages and leaves stay within the limit."""
    at, n_records = start, len(fills)
    while at < n_records:
        limit -= 1  # one more leaf
        end = at + fills[at]
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
