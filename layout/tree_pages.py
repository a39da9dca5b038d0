"""What closes a new database once its regions are written: leaves without skipped records, branches, the free list."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.branches import Branches, build_branches
from lmdbio.layout.free_list import build_free_list
from lmdbio.layout.keys import take_keys
from lmdbio.layout.leaves import data_offsets
from lmdbio.layout.meta import EMPTY_TREE, Tree
from lmdbio.layout.page import HEADER_SIZE, N_METAS, PAGE_NUMBER_SIZE, overflow_pages
from lmdbio.layout.partition import Bounds, running_sum
from lmdbio.layout.pieces import pieces
from lmdbio.layout.plan import LEAVES_AT_A_TIME, DatabasePlan
from lmdbio.layout.ragged import copy_ranges, ranges
from lmdbio.layout.region_writer import pack_leaf_batch
from lmdbio.layout.target import TargetFile


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """Both trees of a database and the pages that follow its regions."""

    main: Tree
    free: Tree
    pages: NDArray[np.uint8]
    """Branch pages, then the pages of the free list, from the plan's ``end_page`` on, shape (n_pages, page_size)."""


def kept_leaf_bounds(plan: DatabasePlan, written: NDArray[np.bool_]) -> Bounds:
    """Return the written records of each leaf, in key order, shape (n_leaves + 1,)."""
    in_key_order = written if plan.key_order is None else written[plan.key_order]
    return running_sum(in_key_order)[plan.leaf_bounds]


def written_records(plan: DatabasePlan, written: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the plan-order numbers of the written records in key order, int64, shape (n_written,)."""
    if plan.key_order is None:
        return np.flatnonzero(written)
    return plan.key_order if written.all() else plan.key_order[written[plan.key_order]]


def value_offsets(plan: DatabasePlan, written: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Return the first byte in the file of each written value, in key order, uint64, shape (n_written,)."""
    records = written_records(plan, written)
    bounds = kept_leaf_bounds(plan, written)
    offsets = np.empty(len(records), np.uint64)
    for leaves in pieces(plan.n_leaves, size=LEAVES_AT_A_TIME):
        held = bounds[leaves.start : leaves.stop + 1]
        some = records[held[0] : held[-1]]
        inline = plan.inline[some]
        data_sizes = np.where(inline, plan.lengths[some], PAGE_NUMBER_SIZE)
        in_leaf = data_offsets(plan.keys.sizes_at(some), data_sizes, held - held[0], page_size=plan.page_size)
        in_page = np.where(inline, in_leaf, HEADER_SIZE)
        offsets[held[0] : held[-1]] = plan.value_pages[some] * plan.page_size + in_page
    return offsets


def build_trees(plan: DatabasePlan, written: NDArray[np.bool_]) -> Trees:
    """Return the trees over the leaves that hold a written record, and the list of all pages that hold nothing."""
    held = np.diff(kept_leaf_bounds(plan, written)) > 0
    branches = _build_branches(plan, written, held)
    main = EMPTY_TREE
    if branches is not None:
        main = Tree(
            flags=0,
            depth=1 + branches.n_levels,
            branch_pages=len(branches.pages),
            leaf_pages=int(np.count_nonzero(held)),
            overflow_pages=_count_overflow_pages(plan, written),
            entries=int(np.count_nonzero(written)),
            root=branches.root,
        )
    skipped = np.flatnonzero(~written & ~plan.inline)
    freed = ranges(plan.value_pages[skipped], overflow_pages(plan.lengths[skipped], plan.page_size))
    holes = [_holes(plan), freed, plan.leaf_pages[~held]]
    pages = np.zeros((0, plan.page_size), np.uint8) if branches is None else branches.pages
    free, list_pages = build_free_list(
        np.concatenate(holes), first_page=plan.end_page + len(pages), page_size=plan.page_size
    )
    return Trees(main, free, np.concatenate([pages, list_pages]))


def _build_branches(plan: DatabasePlan, written: NDArray[np.bool_], held: NDArray[np.bool_]) -> Branches | None:
    """Return the branches, or None where no leaf holds a record."""
    leaves = np.flatnonzero(held)
    if not len(leaves):
        return None
    records = written_records(plan, written)
    first = records[kept_leaf_bounds(plan, written)[leaves]]
    keys = take_keys(plan.keys, first)
    return build_branches(plan.leaf_pages[leaves], keys, first_page=plan.end_page, page_size=plan.page_size)


def _count_overflow_pages(plan: DatabasePlan, written: NDArray[np.bool_]) -> int:
    """Return the overflow pages of all written records."""
    count = 0
    for piece in pieces(plan.n_records):
        big = written[piece] & ~plan.inline[piece]
        count += int(overflow_pages(plan.lengths[piece][big], plan.page_size).sum())
    return count


def _holes(plan: DatabasePlan) -> NDArray[np.int64]:
    """Return the pages before and between regions."""
    begins = np.concatenate([np.array([N_METAS], np.int64), plan.region_pages + plan.region_sizes])
    ends = np.append(plan.region_pages, plan.end_page)
    return ranges(begins, ends - begins)


def drop_skipped(plan: DatabasePlan, written: NDArray[np.bool_], file: TargetFile) -> None:
    """Take the keys of skipped extents out of leaves that were written without knowing of them.

    That is so only where leaves lie apart from the extents; skipping is rare, so it is done leaf by leaf.
    """
    if plan.key_order is None:
        return
    skipped = (~written & ~plan.inline)[plan.key_order]
    leaves = np.unique(np.searchsorted(plan.leaf_bounds, np.flatnonzero(skipped), "right") - 1)
    for leaf in leaves.tolist():
        offset = int(plan.leaf_pages[leaf]) * plan.page_size
        page = np.frombuffer(file.read(offset, plan.page_size), np.uint8)
        file.write(offset, [_repacked(plan, written, leaf, page).data])


def _repacked(plan: DatabasePlan, written: NDArray[np.bool_], leaf: int, old: NDArray[np.uint8]) -> NDArray[np.uint8]:
    records = plan.leaf_records(leaf, leaf + 1)
    pages, places = pack_leaf_batch(plan, leaf, leaf + 1, written[records])
    on_page = records[written[records] | ~plan.inline[records]]  # what the page holds now
    inline = plan.inline[on_page]
    old_places = data_offsets(
        plan.keys.sizes_at(on_page),
        np.where(inline, plan.lengths[on_page], PAGE_NUMBER_SIZE),
        np.array([0, len(on_page)], np.int64),
        page_size=plan.page_size,
    )
    page: NDArray[np.uint8] = pages[0]
    kept_inline = plan.inline[records[written[records]]]
    copy_ranges(page, places[kept_inline], old, old_places[inline], plan.lengths[on_page[inline]])
    return page
