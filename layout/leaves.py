"""Leaf and branch pages packed from struct-of-arrays nodes. Pure: no I/O.

Nodes fill a page from its end downwards in key order, as ``mdb_put`` with ``MDB_APPEND`` leaves them; every byte that
no node takes is zero. Source of the layout: the public sources of LMDB 0.9.36 (``mdb_node_add``), checked against it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.page import HEADER_SIZE, NODE_HEADER_SIZE, P_BRANCH, P_LEAF, PAGE_HEADER, POINTER_SIZE
from lmdbio.layout.partition import Bounds, running_sum
from lmdbio.layout.ragged import copy_ranges


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """What goes into pages, in key order; every array has shape (n_nodes,)."""

    heads: NDArray[np.uint64]
    """The 8 bytes before the key as one little-endian number."""
    key_starts: NDArray[np.int64]
    """Where each key begins in the blob that it is copied from."""
    key_sizes: NDArray[np.int64]
    data_sizes: NDArray[np.int64]
    """Bytes after the key: the inline value, or 8 for the page number of its overflow extent; 0 in a branch."""


def leaf_heads(
    lengths: NDArray[np.int64], flags: NDArray[np.int64], key_sizes: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Return heads of leaf nodes: length of the value (u32), node flags (u16), size of the key (u16)."""
    return (lengths | flags << 32 | key_sizes << 48).astype(np.uint64)


def branch_heads(children: NDArray[np.int64], key_sizes: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return heads of branch nodes: page number of the child (48 bits), size of the key (u16)."""
    return (children | key_sizes << 48).astype(np.uint64)


def node_ends(nodes_key_sizes: NDArray[np.int64], data_sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the running sum of the nodes' sizes in a page, pointers left out, int64, shape (n_nodes + 1,)."""
    return running_sum((NODE_HEADER_SIZE + nodes_key_sizes + data_sizes + 1) & ~1)


def data_offsets(
    key_sizes: NDArray[np.int64], data_sizes: NDArray[np.int64], bounds: Bounds, *, page_size: int
) -> NDArray[np.int64]:
    """Return where in its page the data of each node begins, int64, shape (n_nodes,).

    Parameters
    ----------
    key_sizes, data_sizes
        As in :class:`Nodes`.
    bounds
        Nodes of each page, shape (n_pages + 1,).
    page_size
        Bytes of a page.
    """
    ends = node_ends(key_sizes, data_sizes)
    before = np.repeat(ends[bounds[:-1]], np.diff(bounds))
    offsets: NDArray[np.int64] = page_size - (ends[1:] - before) + NODE_HEADER_SIZE + key_sizes
    return offsets


def pack_leaves(
    nodes: Nodes, blob: NDArray[np.uint8], bounds: Bounds, page_numbers: NDArray[np.int64], *, page_size: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return leaf pages with keys but no data, and where the data goes.

    Parameters
    ----------
    nodes
        The nodes of all pages, in key order.
    blob
        Where the keys are, uint8.
    bounds
        Nodes of each page, shape (n_pages + 1,); a page without nodes becomes zeros.
    page_numbers
        Shape (n_pages,).
    page_size
        Bytes of a page.

    Returns
    -------
    pages
        uint8, shape (n_pages, page_size), contiguous.
    places
        Where the data of each node begins, counted from the first page's start, int64, shape (n_nodes,).
    """
    return _pack(nodes, blob, bounds, page_numbers, flag=P_LEAF, page_size=page_size)


def pack_branches(
    children: NDArray[np.int64],
    key_starts: NDArray[np.int64],
    key_sizes: NDArray[np.int64],
    blob: NDArray[np.uint8],
    bounds: Bounds,
    page_numbers: NDArray[np.int64],
    *,
    page_size: int,
) -> NDArray[np.uint8]:
    """Return branch pages over the children, uint8, shape (n_pages, page_size); the first key of each is left out.

    Parameters
    ----------
    children
        Page numbers, in key order, int64, shape (n_children,).
    key_starts, key_sizes
        The first key below each child, in the blob, int64, shape (n_children,).
    blob
        Where the keys are, uint8.
    bounds
        Children of each page, shape (n_pages + 1,).
    page_numbers
        Of the branch pages, shape (n_pages,).
    page_size
        Bytes of a page.
    """
    sizes = key_sizes.copy()
    sizes[bounds[:-1]] = 0
    nodes = Nodes(branch_heads(children, sizes), key_starts, sizes, np.zeros_like(sizes))
    return _pack(nodes, blob, bounds, page_numbers, flag=P_BRANCH, page_size=page_size)[0]


def _pack(
    nodes: Nodes,
    blob: NDArray[np.uint8],
    bounds: Bounds,
    page_numbers: NDArray[np.int64],
    *,
    flag: int,
    page_size: int,
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    counts = np.diff(bounds)
    # in_page, first: (n_nodes,)
    in_page = data_offsets(nodes.key_sizes, nodes.data_sizes, bounds, page_size=page_size)
    in_page -= NODE_HEADER_SIZE + nodes.key_sizes
    first = np.repeat(np.arange(len(counts), dtype=np.int64) * page_size, counts)
    pages = np.zeros((len(counts), page_size), np.uint8)
    flat = pages.reshape(-1)
    words = flat.view("<u2")
    # Four words of a head at each node, one word of a pointer for each slot: nodes begin at even offsets.
    at = first + in_page
    words[(at >> 1)[:, None] + np.arange(4)] = nodes.heads.astype("<u8").view("<u2").reshape(-1, 4)
    slots = np.arange(len(at), dtype=np.int64) - np.repeat(bounds[:-1], counts)
    words[((first + HEADER_SIZE) >> 1) + slots] = in_page
    copy_ranges(flat, at + NODE_HEADER_SIZE, blob, nodes.key_starts, nodes.key_sizes)
    _write_headers(pages, bounds, page_numbers, in_page, flag=flag)
    return pages, at + NODE_HEADER_SIZE + nodes.key_sizes


def _write_headers(
    pages: NDArray[np.uint8], bounds: Bounds, page_numbers: NDArray[np.int64], in_page: NDArray[np.int64], *, flag: int
) -> None:
    headers = pages[:, :HEADER_SIZE].view(PAGE_HEADER)[:, 0]
    counts = np.diff(bounds)
    held = np.flatnonzero(counts)
    headers["pgno"][held] = page_numbers[held]
    headers["flags"][held] = flag
    headers["lower"][held] = HEADER_SIZE + POINTER_SIZE * counts[held]
    headers["upper"][held] = in_page[bounds[1:][held] - 1]
