"""The page plan: for every record of a new database, the page of its value and of its leaf. Pure: no I/O.

Everything follows from the sizes alone: page numbers are running sums, so many writers may fill one file.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.branches import branch_levels
from lmdbio.layout.free_list import free_list_pages
from lmdbio.layout.key_order import key_order
from lmdbio.layout.keys import AnyKeys
from lmdbio.layout.needs import page_needs
from lmdbio.layout.page import (
    MAX_KEY_SIZE,
    MAX_PAGE_SIZE,
    MAX_VALUE_SIZE,
    N_METAS,
    NODE_HEADER_SIZE,
    PAGE_NUMBER_SIZE,
    node_max,
)
from lmdbio.layout.partition import Bounds, align_up, running_sum
from lmdbio.layout.pieces import pieces
from lmdbio.layout.region_plan import MAX_WASTE, Goal, Regions, cut_apart, cut_together, place

SMALLEST_PAGE_SIZE: Final = 1024
LEAVES_AT_A_TIME: Final = 1 << 11
"""Leaves whose records are looked at together, so that memory stays bounded."""


@dataclass(frozen=True, slots=True, eq=False)
class DatabasePlan:
    """Where everything goes in a new database. Records are numbered in plan order, leaves in key order.

    A region is what one call of ``DatabaseWriter.write_region`` writes: the overflow pages of its records, then its
    leaves. Where keys ascend in plan order a region is a partition. Otherwise partitions of overflow pages come first,
    then regions of leaves, which are partitions as far as they hold inline values.
    """

    keys: AnyKeys
    """Keys in plan order, held or made on demand."""
    lengths: NDArray[np.int64]
    """Bytes of each value, in plan order, int64, shape (n_records,)."""
    page_size: int
    align: int
    """Bytes; every region begins at a multiple."""
    align_fell_back: bool
    """Whether the default alignment was given up for the page size."""
    partition_size: int
    """Bytes that no partition exceeds unless it is one record; where partitions were counted, the largest one's."""
    key_order: NDArray[np.int64] | None
    """Plan-order number of each record in key order, int64, shape (n_records,); None where both orders agree."""
    inline: NDArray[np.bool_]
    """Whether the value lies in its leaf, in plan order, shape (n_records,)."""
    value_pages: NDArray[np.int64]
    """Page of each value, its extent's first or its leaf, in plan order, int64, shape (n_records,)."""
    leaf_bounds: Bounds
    """Records of each leaf, in key order, shape (n_leaves + 1,)."""
    leaf_pages: NDArray[np.int64]
    """Page number of each leaf, int64, shape (n_leaves,)."""
    region_pages: NDArray[np.int64]
    """First page of each region, int64, shape (n_regions,)."""
    region_sizes: NDArray[np.int64]
    """Pages of each region, int64, shape (n_regions,)."""
    region_records_bounds: Bounds
    """Records in plan order whose overflow extents lie in each region, shape (n_regions + 1,)."""
    region_leaves_bounds: Bounds
    """Leaves of each region, shape (n_regions + 1,)."""
    n_partitions: int
    """Regions that hold values."""

    @property
    def n_records(self) -> int:
        """Number of records."""
        return len(self.lengths)

    @property
    def n_regions(self) -> int:
        """Number of regions, each to be written once."""
        return len(self.region_pages)

    @property
    def n_leaves(self) -> int:
        """Number of leaf pages."""
        return len(self.leaf_pages)

    @property
    def n_inline(self) -> int:
        """Number of values that lie in leaves."""
        return int(np.count_nonzero(self.inline))

    @property
    def end_page(self) -> int:
        """First page after all regions, where branch pages begin."""
        return int(self.region_pages[-1] + self.region_sizes[-1]) if self.n_regions else N_METAS

    @property
    def hole_bytes(self) -> int:
        """Bytes that alignment leaves unused."""
        return (self.end_page - N_METAS - int(self.region_sizes.sum())) * self.page_size

    @property
    def file_size(self) -> int:
        """Bytes of the file if no record is skipped."""
        first = self.in_key_order(self.leaf_bounds[:-1])
        sizes = self.keys.sizes_at(first)
        n_branches = sum(len(bounds) - 1 for bounds in branch_levels(sizes, page_size=self.page_size))
        n_free_list = free_list_pages(self.hole_bytes // self.page_size, page_size=self.page_size)
        return (self.end_page + n_branches + n_free_list) * self.page_size

    def in_key_order(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the plan-order numbers of the records at places of the key order, int64, shape of ``places``."""
        return places if self.key_order is None else self.key_order[places]

    def extent_records(self, region: int) -> NDArray[np.int64]:
        """Return the plan-order numbers of the records whose overflow extents lie in the region, in file order."""
        begin, end = self.region_records_bounds[region : region + 2].tolist()
        records: NDArray[np.int64] = begin + np.flatnonzero(~self.inline[begin:end])
        return records

    def leaf_records(self, first_leaf: int, last_leaf: int) -> NDArray[np.int64]:
        """Return the plan-order numbers of all records of the leaves [first_leaf, last_leaf), in key order."""
        begin, end = int(self.leaf_bounds[first_leaf]), int(self.leaf_bounds[last_leaf])
        return self.in_key_order(np.arange(begin, end, dtype=np.int64))

    def inline_records(self, region: int) -> NDArray[np.int64]:
        """Return the plan-order numbers of the records whose values lie in the region's leaves, in file order."""
        held = self.leaf_records(*self.region_leaves_bounds[region : region + 2].tolist())
        return held[self.inline[held]]

    def region_records(self, region: int) -> NDArray[np.int64]:
        """Return the plan-order numbers of the values that a region wants, in the order in which it wants them.

        That is their order in the file: overflow extents, then inline values leaf by leaf.
        """
        return np.concatenate([self.extent_records(region), self.inline_records(region)])

    def region_bytes(self, region: int) -> int:
        """Return the bytes of the file that a region takes, holes after it left out."""
        return int(self.region_sizes[region]) * self.page_size


def plan_database(
    keys: AnyKeys,
    lengths: NDArray[np.int64],
    *,
    page_size: int = 4096,
    align: int | None = None,
    partition_size: int | None = None,
    n_partitions: int | None = None,
    bounds: Bounds | None = None,
) -> DatabasePlan:
    """Return the plan of a database that holds the records in the order given, as far as LMDB's format lets it.

    Parameters
    ----------
    keys
        Keys in the order in which values shall lie in the file.
    lengths
        Bytes of each value, int64, shape (n_records,).
    page_size
        Bytes of a page: a power of two, 1024 to 32768.
    align
        Bytes; partitions begin at multiples. By default 1 MiB, or the page size where that would leave more than
        ``MAX_WASTE`` of the file unused or does not divide the partition size.
    partition_size
        Bytes that the overflow and leaf pages of a partition may take unless it is one record; a multiple of the
        alignment. By default 16 MiB.
    n_partitions
        Instead of ``partition_size``: number of partitions, of about equal bytes; fewer where there are fewer records.
    bounds
        The partitions in plan order where they are settled already, int64, shape (n_partitions + 1,), ascending from 0
        to the number of records; whether they are of the size asked for is the caller's affair. Where leaves lie apart
        these are the partitions of overflow pages.

    Raises
    ------
    ValueError
        If a key occurs twice, or a key or value has a size that LMDB cannot hold, or an argument is out of range.
    """
    if page_size & (page_size - 1) or not SMALLEST_PAGE_SIZE <= page_size <= MAX_PAGE_SIZE:
        raise ValueError(
            f"expected a page size of {SMALLEST_PAGE_SIZE} to {MAX_PAGE_SIZE}, a power of two, found {page_size}"
        )
    goal = Goal.make(page_size=page_size, align=align, partition_size=partition_size, n_partitions=n_partitions)
    lengths = np.asarray(lengths, np.int64)
    _check_records(keys, lengths, page_size=page_size)
    order = key_order(keys)
    pages, node_sizes = page_needs(keys, lengths, page_size=page_size)
    if bounds is not None:
        _check_bounds(bounds, len(lengths))
    if order is None:
        regions = cut_together(node_sizes, pages, goal, bounds)
    else:
        regions = cut_apart(node_sizes, pages, order, goal, bounds)
    del node_sizes
    alignment, first_pages = _align(regions, goal)
    leaf_pages = _leaf_pages(regions, first_pages)
    return DatabasePlan(
        keys=keys,
        lengths=lengths,
        page_size=page_size,
        align=alignment,
        align_fell_back=alignment != goal.align,
        partition_size=_partition_size(regions, goal, alignment),
        key_order=order,
        inline=pages == 0,
        value_pages=_value_pages(regions, first_pages, leaf_pages, pages, order),
        leaf_bounds=regions.leaf_bounds,
        leaf_pages=leaf_pages,
        region_pages=first_pages,
        region_sizes=regions.sizes,
        region_records_bounds=regions.extents,
        region_leaves_bounds=regions.leaves,
        n_partitions=_count_partitions(regions, pages, order),
    )


def _check_records(keys: AnyKeys, lengths: NDArray[np.int64], *, page_size: int) -> None:
    if len(keys) != len(lengths):
        raise ValueError(f"expected as many keys as values, found {len(keys)} and {len(lengths)}")
    # LMDB wants two nodes on a page; with keys up to 511 bytes that binds pages of 1 KiB alone.
    longest = min(MAX_KEY_SIZE, node_max(page_size) - NODE_HEADER_SIZE - PAGE_NUMBER_SIZE)
    for piece in pieces(len(keys)):
        sizes = keys.sizes_at(np.arange(piece.start, piece.stop))
        bad = np.flatnonzero((sizes < 1) | (sizes > longest))
        if len(bad):
            raise ValueError(
                f"key {keys[piece.start + int(bad[0])]!r}: expected 1 to {longest} bytes in pages of {page_size}, "
                f"found {int(sizes[bad[0]])}"
            )
    bad = np.flatnonzero((lengths < 0) | (lengths > MAX_VALUE_SIZE))
    if len(bad):
        raise ValueError(
            f"key {keys[int(bad[0])]!r}: expected a value of 0 to {MAX_VALUE_SIZE} bytes, found {int(lengths[bad[0]])}"
        )


def _check_bounds(bounds: Bounds, n_records: int) -> None:
    if len(bounds) < 1 or bounds[0] != 0 or bounds[-1] != n_records or np.any(np.diff(bounds) <= 0):
        raise ValueError(f"bounds: expected ascending numbers from 0 to {n_records}, found others")


def _align(regions: Regions, goal: Goal) -> tuple[int, NDArray[np.int64]]:
    """Return the alignment in bytes and the first page of each region."""
    first, end = place(regions.sizes, align=goal.align, page_size=goal.page_size)
    waste = end - N_METAS - int(regions.sizes.sum())
    if not goal.align_is_default or (waste <= MAX_WASTE * end and goal.partition_size % goal.align == 0):
        return goal.align, first
    return goal.page_size, place(regions.sizes, align=goal.page_size, page_size=goal.page_size)[0]


def _partition_size(regions: Regions, goal: Goal, align: int) -> int:
    if goal.n_partitions is None:
        return goal.partition_size
    return align_up(int(regions.sizes.max(initial=0)) * goal.page_size, align)


def _leaf_pages(regions: Regions, first_pages: NDArray[np.int64]) -> NDArray[np.int64]:
    counts = np.diff(regions.leaves)
    # The leaves of a region are its last pages.
    first = first_pages + regions.sizes - counts - regions.leaves[:-1]
    return np.arange(len(regions.leaf_bounds) - 1, dtype=np.int64) + np.repeat(first, counts)


def _value_pages(
    regions: Regions,
    first_pages: NDArray[np.int64],
    leaf_pages: NDArray[np.int64],
    pages: NDArray[np.int32],
    order: NDArray[np.int64] | None,
) -> NDArray[np.int64]:
    value_pages = running_sum(pages)[:-1]
    bounds = regions.extents.tolist()
    for region, (begin, end) in enumerate(pairwise(bounds)):
        if begin < end:  # a region of leaves alone begins where the records end
            value_pages[begin:end] += first_pages[region] - value_pages[begin]
    for leaves in pieces(len(leaf_pages), size=LEAVES_AT_A_TIME):
        held = regions.leaf_bounds[leaves.start : leaves.stop + 1]
        records = np.arange(held[0], held[-1]) if order is None else order[held[0] : held[-1]]
        inline = pages[records] == 0
        value_pages[records[inline]] = np.repeat(leaf_pages[leaves], np.diff(held))[inline]
    return value_pages


def _count_partitions(regions: Regions, pages: NDArray[np.int32], order: NDArray[np.int64] | None) -> int:
    values = np.diff(running_sum(pages > 0)[regions.extents])
    in_key_order = pages if order is None else pages[order]
    inlined = np.diff(running_sum(in_key_order == 0)[regions.leaf_bounds[regions.leaves]])
    return int(np.count_nonzero(values + inlined))
