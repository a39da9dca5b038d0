"""The free database of a new file: one record that lists every page that nothing uses. Pure: no I/O.

The record's key is the transaction that freed the pages, a u64; its value is their count and their numbers, u64 each,
descending. Source: the public sources of LMDB 0.9.36 (``mdb_freelist_save``), checked against files that it wrote.
"""

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.leaves import Nodes, leaf_heads, pack_leaves
from lmdbio.layout.meta import EMPTY_TREE, Tree
from lmdbio.layout.page import (
    DB_INTEGERKEY,
    F_BIGDATA,
    HEADER_SIZE,
    MAX_VALUE_SIZE,
    is_inline,
    overflow_headers,
    overflow_pages,
)

FREE_TXNID: Final = 1
"""The transaction that freed the pages. One below the file's own: the very next transaction may use them."""
_KEY_SIZE: Final = 8
_ID_SIZE: Final = 8


def free_list_pages(n_free: int, *, page_size: int) -> int:
    """Return the number of pages that listing ``n_free`` pages takes, the leaf included."""
    if n_free == 0:
        return 0
    return 1 + (0 if _fits_leaf(n_free, page_size) else _extent_pages(n_free, page_size))


def build_free_list(free: NDArray[np.int64], *, first_page: int, page_size: int) -> tuple[Tree, NDArray[np.uint8]]:
    """Return the free database and its pages, from ``first_page`` on, uint8, shape (n_pages, page_size).

    Parameters
    ----------
    free
        Page numbers, each once, in any order, int64.
    first_page
        Page number of the first page of the list.
    page_size
        Bytes of a page.

    Raises
    ------
    ValueError
        If there are more free pages than one record can list, 2**29 - 2.
    """
    if len(free) == 0:
        return replace(EMPTY_TREE, flags=DB_INTEGERKEY), np.zeros((0, page_size), np.uint8)
    ids = np.concatenate([np.array([len(free)], np.int64), np.sort(free)[::-1]]).astype("<u8").view(np.uint8)
    if len(ids) > MAX_VALUE_SIZE:
        raise ValueError(f"expected at most {MAX_VALUE_SIZE // _ID_SIZE - 1} free pages, found {len(free)}")
    n_extent = 0 if _fits_leaf(len(free), page_size) else _extent_pages(len(free), page_size)
    pages = np.zeros((n_extent + 1, page_size), np.uint8)
    flat = pages.reshape(-1)
    if n_extent:
        flat[:HEADER_SIZE] = overflow_headers(np.array([first_page]), np.array([n_extent]))[0]
        flat[HEADER_SIZE : HEADER_SIZE + len(ids)] = ids
        data, flags = np.array([first_page], "<u8").view(np.uint8), F_BIGDATA
    else:
        data, flags = ids, 0
    leaf, places = _pack_leaf(len(ids), flags, len(data), page=first_page + n_extent, page_size=page_size)
    pages[n_extent] = leaf[0]
    begin = n_extent * page_size + int(places[0])
    flat[begin : begin + len(data)] = data
    tree = Tree(
        flags=DB_INTEGERKEY,
        depth=1,
        branch_pages=0,
        leaf_pages=1,
        overflow_pages=n_extent,
        entries=1,
        root=first_page + n_extent,
    )
    return tree, pages


def _pack_leaf(
    length: int, flags: int, data_size: int, *, page: int, page_size: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    key = np.array([FREE_TXNID], "<u8").view(np.uint8)
    key_sizes = np.array([_KEY_SIZE], np.int64)
    heads = leaf_heads(np.array([length], np.int64), np.array([flags], np.int64), key_sizes)
    nodes = Nodes(heads, np.zeros(1, np.int64), key_sizes, np.array([data_size], np.int64))
    return pack_leaves(nodes, key, np.array([0, 1], np.int64), np.array([page], np.int64), page_size=page_size)


def _list_size(n_free: int) -> NDArray[np.int64]:
    return np.array([_ID_SIZE * (n_free + 1)], np.int64)


def _fits_leaf(n_free: int, page_size: int) -> bool:
    return bool(is_inline(np.array([_KEY_SIZE], np.int64), _list_size(n_free), page_size)[0])


def _extent_pages(n_free: int, page_size: int) -> int:
    return int(overflow_pages(_list_size(n_free), page_size)[0])
