"""A tree walked to one extent per record: branch and leaf pages only, by positioned reads, level by level.

Nothing in the file is trusted: what a damaged or hostile file can cause is a named error, never a crash, an endless
walk or more memory than the file's own pages account for.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmdbio.errors import CorruptDatabaseError, FormatError
from lmdbio.layout.file import DataFile
from lmdbio.layout.keys import Keys
from lmdbio.layout.leaf_records import LeafRecords
from lmdbio.layout.meta import Meta, Tree
from lmdbio.layout.nodes import Limits, decode_branches, decode_leaves
from lmdbio.layout.page import (
    DB_DUPSORT,
    HEADER_SIZE,
    NO_PAGE,
    P_BRANCH,
    PAGE_HEADER,
    overflow_pages,
)
from lmdbio.layout.page_batches import read_pages
from lmdbio.layout.ragged import ranges


@dataclass(frozen=True, slots=True)
class TreeRecords:
    """The records of one tree, in the tree's order, which is key order."""

    keys: Keys
    offsets: NDArray[np.uint64]
    """First byte of each value in the file, uint64, shape (n_records,), as all below."""
    lengths: NDArray[np.int64]
    """Bytes of each value."""
    pages: NDArray[np.int64]
    """Page of each value: the first of its overflow extent, or its leaf."""
    slots: NDArray[np.int64]
    """Place of each record in its leaf's pointer array, from 0."""
    inline: NDArray[np.bool_]
    """Whether the value lies in the leaf."""
    bytes_read: int
    """Bytes of the file that were read to find all this."""
    branch_pages: int
    leaf_pages: int

    def __len__(self) -> int:
        return len(self.lengths)

    def layout_order(self) -> NDArray[np.int64] | None:
        """Return record numbers in the order in which values lie in the file, int64, or None where it is key order.

        Layout order is by (page of the value, slot); within a leaf key order is slot order.
        """
        if (self.pages[1:] >= self.pages[:-1]).all():
            return None
        return np.argsort(self.pages, kind="stable")


def walk(file: DataFile, meta: Meta, *, tree: Tree | None = None, depth: int = 8) -> TreeRecords:
    """Return the extents of all records of a tree, having read its branch and leaf pages only.

    Parameters
    ----------
    file
        The data file; nobody may be writing to it.
    meta
        Its live snapshot, from :func:`lmdbio.layout.meta.read_meta`.
    tree
        Which tree; the main database by default.
    depth
        Reads in flight.

    Raises
    ------
    FormatError
        If the tree holds duplicates or named databases, which are not indexed yet.
    CorruptDatabaseError
        If a page contradicts itself or another, or the file ends before what belongs to the tree.
    ReadError
        If bytes cannot be read.
    """
    tree = meta.main if tree is None else tree
    if tree.flags & DB_DUPSORT:
        raise FormatError(
            f"{file.path}: expected one value for each key, found a dupsort database: these are not indexed yet"
        )
    return _Walk(file, meta, depth).records(tree)


class _Walk:
    """One walk: what was read and seen so far."""

    def __init__(self, file: DataFile, meta: Meta, depth: int) -> None:
        self.file = file
        self.page_size = meta.page_size
        self.limits = Limits(file.path, meta.page_size, meta.last_page, file.size)
        self.depth = depth
        self.bytes_read = 0

    def records(self, tree: Tree) -> TreeRecords:
        if tree.root == NO_PAGE:
            leaves, branches = np.empty(0, np.int64), np.empty(0, np.int64)
        else:
            leaves, branches = self._descend(tree.root)
        found = self._read_leaves(leaves, tree.entries)
        if len(found.lengths) != tree.entries:
            raise self._wrong_count(tree.entries, str(len(found.lengths)))
        self._check_extents(found, np.concatenate((branches, leaves)))
        return TreeRecords(
            keys=Keys(found.key_blob, np.concatenate((np.zeros(1, np.int64), np.cumsum(found.key_sizes)))),
            offsets=found.offsets,
            lengths=found.lengths,
            pages=found.pages,
            slots=found.slots,
            inline=found.inline,
            bytes_read=self.bytes_read,
            branch_pages=len(branches),
            leaf_pages=len(leaves),
        )

    def _descend(self, root: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the page numbers of all leaves in tree order, and of all branches."""
        self.limits.check_pages(np.array([root], np.uint64), np.zeros(1, np.int64), "a root page")
        seen = level = np.array([root], np.int64)
        # This ends: a branch page has two children or more, no page is a child twice, and all lie inside the file.
        while self._flags(int(level[0])) == P_BRANCH:
            level = self._children(level)
            seen = np.concatenate((seen, level))
            ordered = np.sort(seen)
            self.limits.refuse(ordered[1:] == ordered[:-1], ordered[1:], "one place in the tree, found two")
        return level, seen[: len(seen) - len(level)]

    def _flags(self, page: int) -> int:
        """Return the flags of a page; all pages of a level are of one kind, which decoding them checks."""
        header = np.frombuffer(self.file.read(page * self.page_size, HEADER_SIZE), PAGE_HEADER)[0]
        self.bytes_read += HEADER_SIZE
        return int(header["flags"])

    def _children(self, level: NDArray[np.int64]) -> NDArray[np.int64]:
        order = np.argsort(level)
        decoded = [decode_branches(pages, numbers, self.limits) for numbers, pages in self._read(level[order])]
        counts = np.concatenate([counts for counts, _ in decoded])
        children = np.concatenate([children for _, children in decoded])
        places = np.argsort(order)
        return children[ranges((np.cumsum(counts) - counts)[places], counts[places])]

    def _read_leaves(self, leaves: NDArray[np.int64], n_expected: int) -> LeafRecords:
        """Return the records of leaves, read in the order of the file, in the order given."""
        order = np.argsort(leaves)
        batches = []
        n_found = 0
        for numbers, pages in self._read(leaves[order]):
            batches.append(decode_leaves(pages, numbers, self.limits))
            n_found += len(batches[-1].lengths)
            if n_found > n_expected:
                raise self._wrong_count(n_expected, "more")
        found = LeafRecords.concatenate(batches)
        if (order[1:] > order[:-1]).all():
            return found
        return found.with_pages_in(np.argsort(order))

    def _read(self, pages: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint8]]]:
        self.bytes_read += len(pages) * self.page_size
        return read_pages(self.file, pages, page_size=self.page_size, depth=self.depth)

    def _wrong_count(self, n_expected: int, found: str) -> CorruptDatabaseError:
        return CorruptDatabaseError(
            f"{self.file.path}: expected {n_expected} records, as the tree's record says, found {found}: the database "
            f"is damaged, restore it from a copy"
        )

    def _check_extents(self, found: LeafRecords, tree_pages: NDArray[np.int64]) -> None:
        """Refuse overflow extents that share a page with each other or with the tree."""
        big = ~found.inline
        starts = found.pages[big]
        ends = starts + overflow_pages(found.lengths[big], self.page_size)
        if not (starts[1:] >= ends[:-1]).all():
            order = np.argsort(starts)
            starts, ends = starts[order], ends[order]
            self.limits.refuse(ends[:-1] > starts[1:], starts[1:], "one value on a page, found two")
        before = np.searchsorted(starts, tree_pages, side="right") - 1  # -1: no extent begins at or before the page
        inside = (before >= 0) & (np.append(ends, 0)[before] > tree_pages)
        self.limits.refuse(inside, tree_pages, "a page of the tree, found it within a value")
