"""Branch and leaf pages decoded in batches, every offset checked before it is used. Pure: no I/O.

Source of the layouts: the public sources of LMDB 0.9.36; see also :mod:`lmdbio.layout.page`.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lmdbio.errors import CorruptDatabaseError, FormatError
from lmdbio.layout.leaf_records import LeafRecords
from lmdbio.layout.page import (
    DB_RECORD,
    F_BIGDATA,
    F_SUBDATA,
    HEADER_SIZE,
    N_METAS,
    NODE_HEADER_SIZE,
    P_BRANCH,
    P_LEAF,
    PAGE_HEADER,
    PAGE_NUMBER_SIZE,
    POINTER_SIZE,
    overflow_pages,
)
from lmdbio.layout.ragged import gather

_CHILD_MASK: Final = (1 << 48) - 1  # a branch node: 48 bits of page number, 16 of key size
_MIN_BRANCH_NODES: Final = 2


@dataclass(frozen=True, slots=True)
class Limits:
    """What page numbers and extents are held against, and the file's name for messages."""

    path: str
    page_size: int
    last_page: int
    file_size: int

    def refuse(self, bad: NDArray[np.bool_], pages: NDArray[np.int64], expected: str) -> None:
        """Raise CorruptDatabaseError naming the page of the first bad node, if any is bad."""
        if bad.any():
            page = int(pages[int(bad.argmax())])
            raise CorruptDatabaseError(
                f"{self.path}: page {page} at byte {page * self.page_size}: expected {expected}: the database is "
                f"damaged, restore it from a copy"
            )

    def check_pages(self, pages: NDArray[np.uint64], parents: NDArray[np.int64], what: str) -> None:
        """Raise CorruptDatabaseError unless each page number lies among the snapshot's pages and inside the file."""
        bad = (pages < N_METAS) | (pages > self.last_page)
        self.refuse(bad, parents, f"{what} within pages {N_METAS} to {self.last_page}, found a page number beyond")
        missing = pages >= self.file_size // self.page_size
        if missing.any():
            raise self.cut_short(f"{what} on page {int(pages[int(missing.argmax())])} is missing")

    def cut_short(self, missing: str) -> CorruptDatabaseError:
        """Return the error for a file that ends too early."""
        size = (self.last_page + 1) * self.page_size
        return CorruptDatabaseError(
            f"{self.path}: expected {size} bytes, found {self.file_size}: the file is cut short, {missing}: "
            f"copy it again"
        )


@dataclass(frozen=True, slots=True)
class _Nodes:
    """The nodes of some pages, by their heads."""

    counts: NDArray[np.int64]  # nodes of each page, shape (n_pages,)
    rows: NDArray[np.int64]  # shape (n_nodes,) as all below: which of the pages
    slots: NDArray[np.int64]
    pointers: NDArray[np.int64]  # first byte, from the start of the page
    heads: NDArray[np.uint64]  # the first 8 bytes
    pages: NDArray[np.int64]  # page number


def decode_branches(
    pages: NDArray[np.uint8], numbers: NDArray[np.int64], limits: Limits
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how many children each branch page has, int64, shape (n_pages,), and their page numbers in order, int64.

    Parameters
    ----------
    pages
        uint8, shape (n_pages, page_size).
    numbers
        Their page numbers, int64, shape (n_pages,).
    limits
        What to check against.

    Raises
    ------
    CorruptDatabaseError
        If a page is no branch page, or contradicts itself or the limits.
    """
    nodes = _nodes(pages, numbers, limits, kind=P_BRANCH)
    key_sizes = (nodes.heads >> np.uint64(48)).astype(np.int64)
    _check_bodies(nodes, NODE_HEADER_SIZE + key_sizes, limits)
    children = nodes.heads & np.uint64(_CHILD_MASK)
    limits.check_pages(children, nodes.pages, "a child page")
    return nodes.counts, children.astype(np.int64)


def decode_leaves(pages: NDArray[np.uint8], numbers: NDArray[np.int64], limits: Limits) -> LeafRecords:
    """Return the records of leaf pages; parameters as of :func:`decode_branches`.

    Raises
    ------
    CorruptDatabaseError
        If a page is no leaf page, or contradicts itself or the limits; if a value lies beyond the end of the file.
    FormatError
        If a record is the root of a named database.
    """
    nodes = _nodes(pages, numbers, limits, kind=P_LEAF)
    lengths = (nodes.heads & np.uint64(0xFFFFFFFF)).astype(np.int64)
    flags = (nodes.heads >> np.uint64(32)).astype(np.uint16)
    key_sizes = (nodes.heads >> np.uint64(48)).astype(np.int64)
    inline = (flags & F_BIGDATA) == 0
    key_ends = nodes.pointers + NODE_HEADER_SIZE + key_sizes
    limits.refuse(key_sizes == 0, nodes.pages, "keys of at least 1 byte, found an empty one")
    _check_bodies(nodes, np.where(inline, lengths, PAGE_NUMBER_SIZE) + (key_ends - nodes.pointers), limits)

    buffer = pages.reshape(-1)
    row_starts = nodes.rows * limits.page_size
    key_starts = row_starts + nodes.pointers + NODE_HEADER_SIZE
    _check_flags(buffer, flags, lengths, key_starts, key_sizes, nodes.pages, limits)
    offsets = nodes.pages * limits.page_size + key_ends
    value_pages = nodes.pages.copy()
    big = np.flatnonzero(~inline)
    if len(big):
        starts = _extent_pages(buffer, (row_starts + key_ends)[big])
        _check_extents(starts, lengths[big], nodes.pages[big], limits)
        value_pages[big] = starts
        offsets[big] = value_pages[big] * limits.page_size + HEADER_SIZE
    return LeafRecords(
        counts=nodes.counts,
        key_blob=gather(buffer, key_starts, key_sizes),
        key_sizes=key_sizes,
        offsets=offsets.astype(np.uint64),
        lengths=lengths,
        pages=value_pages,
        slots=nodes.slots,
        inline=inline,
    )


def _nodes(pages: NDArray[np.uint8], numbers: NDArray[np.int64], limits: Limits, *, kind: int) -> _Nodes:
    """Return the nodes of pages of one kind, their heads inside their pages."""
    # headers: (pages,)
    headers = pages[:, :HEADER_SIZE].view(PAGE_HEADER)[:, 0]
    name = "branch" if kind == P_BRANCH else "leaf"
    limits.refuse(headers["pgno"] != numbers.astype(np.uint64), numbers, f"its own number in a {name} page's header")
    limits.refuse(headers["flags"] != kind, numbers, f"a {name} page, found other flags")
    lower = headers["lower"].astype(np.int64)
    upper = headers["upper"].astype(np.int64)
    counts = (lower - HEADER_SIZE) // POINTER_SIZE
    fewest = _MIN_BRANCH_NODES if kind == P_BRANCH else 1
    bad = (counts < fewest) | (lower % 2 != 0) | (lower > upper) | (upper > limits.page_size)
    limits.refuse(bad, numbers, f"{fewest} or more nodes below its free space, found bounds {lower} to {upper}")

    # nodes: (nodes,), page by page
    ends = np.cumsum(counts)
    rows = np.repeat(np.arange(len(pages)), counts)
    slots = np.arange(int(ends[-1])) - np.repeat(ends - counts, counts)
    halves = pages.reshape(-1).view("<u2")
    pointers = halves[rows * (limits.page_size // 2) + HEADER_SIZE // 2 + slots].astype(np.int64)
    node_pages = numbers[rows]
    bad = (pointers < upper[rows]) | (pointers > limits.page_size - NODE_HEADER_SIZE)
    limits.refuse(bad, node_pages, "node pointers within its used space, found another")
    # LMDB puts nodes at even bytes, other programs anywhere: a view of the 8 bytes from every byte on.
    heads = np.ndarray((pages.size - NODE_HEADER_SIZE + 1,), "<u8", pages.data, strides=(1,))
    return _Nodes(counts, rows, slots, pointers, heads[rows * limits.page_size + pointers], node_pages)


def _check_bodies(nodes: _Nodes, sizes: NDArray[np.int64], limits: Limits) -> None:
    """Refuse nodes that reach beyond their page or into one another, which could also make much of little."""
    ends = nodes.pointers + sizes
    limits.refuse(ends > limits.page_size, nodes.pages, "nodes that end within it, found one that does not")
    if not ((ends[1:] > nodes.pointers[:-1]) & (nodes.rows[1:] == nodes.rows[:-1])).any():
        return  # each below the one before: as LMDB fills a page, from its end downwards
    order = np.argsort(nodes.rows * limits.page_size + nodes.pointers)
    begins, ends, rows = nodes.pointers[order], ends[order], nodes.rows[order]
    bad = (rows[1:] == rows[:-1]) & (ends[:-1] > begins[1:])
    limits.refuse(bad, nodes.pages[order][1:], "nodes apart from each other, found two that overlap")


def _check_flags(
    buffer: NDArray[np.uint8],
    flags: NDArray[np.uint16],
    lengths: NDArray[np.int64],
    key_starts: NDArray[np.int64],
    key_sizes: NDArray[np.int64],
    pages: NDArray[np.int64],
    limits: Limits,
) -> None:
    if not (flags & ~np.uint16(F_BIGDATA)).any():
        return
    named = (flags == F_SUBDATA) & (lengths == DB_RECORD.itemsize)
    limits.refuse(~named & ((flags & ~np.uint16(F_BIGDATA)) != 0), pages, "plain records, found other node flags")
    first = int(named.argmax())
    name = buffer[key_starts[first] : key_starts[first] + key_sizes[first]].tobytes()
    raise FormatError(
        f"{limits.path}: expected records in the main database, found named databases (first: {name!r}): "
        f"named databases are not indexed yet"
    )


def _extent_pages(buffer: NDArray[np.uint8], places: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the u64 page numbers at these bytes of the buffer, aligned or not."""
    numbers: NDArray[np.uint64] = np.ndarray((len(buffer) - PAGE_NUMBER_SIZE + 1,), "<u8", buffer.data, strides=(1,))[
        places
    ]
    return numbers


def _check_extents(
    starts: NDArray[np.uint64], lengths: NDArray[np.int64], leaves: NDArray[np.int64], limits: Limits
) -> None:
    limits.check_pages(starts, leaves, "a value's first page")
    firsts = starts.astype(np.int64)
    beyond = firsts + overflow_pages(lengths, limits.page_size) - 1 > limits.last_page
    limits.refuse(beyond, leaves, f"values that end by page {limits.last_page}, found one that does not")
    missing = firsts * limits.page_size + HEADER_SIZE + lengths > limits.file_size
    if missing.any():
        raise limits.cut_short(f"the end of the value on page {int(firsts[int(missing.argmax())])} is missing")
