"""How a new database is cut into regions, and where each begins. Pure: no I/O.

A region is a contiguous run of pages: the overflow extents of some records, then some leaves.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.page import N_METAS
from lmdbio.layout.partition import (
    Bounds,
    align_up,
    cut_by_count,
    cut_by_size,
    cut_leaves,
    leaf_fills,
    running_sum,
)

DEFAULT_ALIGN: Final = 1 << 20
DEFAULT_PARTITION_SIZE: Final = 16 << 20
MAX_WASTE: Final = 0.03
"""Part of the file that the default alignment may cost; beyond it partitions begin on any page."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What partitions shall be like, checked."""

    page_size: int
    align: int
    """Bytes; partitions begin at multiples."""
    align_is_default: bool
    """Whether the alignment may be given up for the page size."""
    partition_size: int
    """Bytes; a multiple of the page size."""
    n_partitions: int | None
    """Cut by equal bytes into so many instead."""

    @classmethod
    def make(cls, *, page_size: int, align: int | None, partition_size: int | None, n_partitions: int | None) -> "Goal":
        """Return the goal with defaults filled in.

        Raises
        ------
        ValueError
            If an argument is out of range or they contradict each other.
        """
        if partition_size is not None and n_partitions is not None:
            raise ValueError("expected a partition size or a number of partitions, found both")
        if n_partitions is not None and n_partitions < 1:
            raise ValueError(f"expected 1 or more partitions, found {n_partitions}")
        unit = page_size if align is None else align
        if align is not None and (align < 1 or align % page_size):
            raise ValueError(f"expected an alignment that is a multiple of the page size {page_size}, found {align}")
        if partition_size is not None and (partition_size < 1 or partition_size % unit):
            raise ValueError(f"expected a partition size that is a multiple of {unit}, found {partition_size}")
        size = align_up(DEFAULT_PARTITION_SIZE, unit) if partition_size is None else partition_size
        return cls(page_size, DEFAULT_ALIGN if align is None else align, align is None, size, n_partitions)


@dataclass(frozen=True, slots=True, eq=False)
class Regions:
    """Regions in file order, not placed yet."""

    extents: Bounds
    """Records in plan order whose overflow extents lie in each region, shape (n_regions + 1,)."""
    leaves: Bounds
    """Leaves, in key order, of each region, shape (n_regions + 1,)."""
    leaf_bounds: Bounds
    """Records in key order of each leaf, shape (n_leaves + 1,)."""
    sizes: NDArray[np.int64]
    """Pages, shape (n_regions,)."""


def cut_together(node_sizes: NDArray[Any], pages: NDArray[Any], goal: Goal, bounds: Bounds | None = None) -> Regions:
    """Return regions that hold the extents and the leaves of their records, for keys that ascend in plan order.

    Parameters
    ----------
    node_sizes
        Bytes that each record takes of a leaf, any integers, shape (n_records,).
    pages
        Overflow pages of each record, 0 for an inline value, any integers, shape (n_records,).
    goal
        What partitions shall be like.
    bounds
        The partitions, where they are settled already.
    """
    fills = leaf_fills(node_sizes, page_size=goal.page_size)
    if bounds is not None:
        bounds = np.asarray(bounds, np.int64)
    elif goal.n_partitions is None:
        bounds = cut_by_size(pages, fills, partition_pages=goal.partition_size // goal.page_size)
    else:
        bounds = cut_by_count(np.multiply(pages, goal.page_size, dtype=np.int64) + node_sizes, goal.n_partitions)
    leaf_bounds = cut_leaves(fills, bounds)
    leaves = np.searchsorted(leaf_bounds, bounds).astype(np.int64)
    return Regions(bounds, leaves, leaf_bounds, np.diff(running_sum(pages)[bounds]) + np.diff(leaves))


def cut_apart(
    node_sizes: NDArray[Any],
    pages: NDArray[Any],
    key_order: NDArray[np.int64],
    goal: Goal,
    bounds: Bounds | None = None,
) -> Regions:
    """Return regions of extents in plan order, then regions of leaves in key order.

    Parameters
    ----------
    node_sizes, pages
        As for :func:`cut_together`, in plan order.
    key_order
        Plan-order number of each record in key order, int64, shape (n_records,).
    goal
        What partitions shall be like. A count is shared between both kinds by their bytes; leaves without an inline
        value count as no partition.
    bounds
        The partitions of extents, where they are settled already.
    """
    n_records = len(pages)
    leaf_bounds = cut_leaves(
        leaf_fills(node_sizes[key_order], page_size=goal.page_size), np.array([0, n_records], np.int64)
    )
    n_leaves = len(leaf_bounds) - 1
    big = np.flatnonzero(pages)
    if goal.n_partitions is None:
        size = goal.partition_size // goal.page_size
        cuts = cut_by_size(pages[big], None, partition_pages=size)
    else:
        n_big, n_leaf_regions = _share(goal.n_partitions, int(pages.sum()), n_leaves, all_big=len(big) == n_records)
        cuts = cut_by_count(pages[big], n_big)
        size = align_up(-(-n_leaves // n_leaf_regions), max(1, goal.align // goal.page_size))
    # A region's records end where the next one's first extent belongs; inline records between them do not matter.
    starts = big[cuts[:-1]] if bounds is None else bounds[:-1][np.diff(running_sum(pages)[bounds]) > 0]
    extents = np.concatenate([starts, np.array([n_records], np.int64)])
    extents[0] = 0
    leaves = np.minimum(np.arange(-(-n_leaves // size) + 1, dtype=np.int64) * size, n_leaves)
    return Regions(
        np.concatenate([extents, np.full(len(leaves) - 1, n_records, np.int64)]),
        np.concatenate([np.zeros(len(extents) - 1, np.int64), leaves]),
        leaf_bounds,
        np.concatenate([np.diff(running_sum(pages)[extents]), np.diff(leaves)]),
    )


def _share(n_partitions: int, n_pages: int, n_leaves: int, *, all_big: bool) -> tuple[int, int]:
    """Return how many partitions of extents and how many regions of leaves are wanted."""
    if all_big:
        return n_partitions, 1
    if n_pages == 0:
        return 1, n_partitions
    n_big = min(max(1, round(n_partitions * n_pages / (n_pages + n_leaves))), max(1, n_partitions - 1))
    return n_big, max(1, n_partitions - n_big)


def place(sizes: NDArray[np.int64], *, align: int, page_size: int) -> tuple[NDArray[np.int64], int]:
    """Return the first page of each region, int64, shape (n_regions,), and the first page after them all."""
    unit = align // page_size
    taken = -(-sizes // unit) * unit
    first = align_up(N_METAS, unit) + running_sum(taken)[:-1]
    return first, int(first[-1] + sizes[-1]) if len(sizes) else N_METAS
