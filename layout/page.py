"""LMDB 0.9 pages (data version 1, 64-bit, little-endian): constants, numpy dtypes and page arithmetic. Pure: no I/O.

Source of every number: the public sources of LMDB 0.9.36 (``mdb.c``); each was checked against files that it wrote.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

MAGIC: Final = 0xBEEFC0DE
DATA_VERSION: Final = 1
HEADER_SIZE: Final = 16
"""Bytes before the content of a page; the value in an overflow extent begins here."""
NO_PAGE: Final = (1 << 64) - 1
"""Root of an empty tree."""
N_METAS: Final = 2
MIN_PAGE_SIZE: Final = 512
MAX_PAGE_SIZE: Final = 32768
MAX_KEY_SIZE: Final = 511
MAX_VALUE_SIZE: Final = (1 << 32) - 1

# Page flags
P_BRANCH: Final = 0x01
P_LEAF: Final = 0x02
P_OVERFLOW: Final = 0x04
P_META: Final = 0x08

# Node flags, in leaves
F_BIGDATA: Final = 0x01
F_SUBDATA: Final = 0x02

# Database flags
DB_REVERSEKEY: Final = 0x02
DB_DUPSORT: Final = 0x04
DB_INTEGERKEY: Final = 0x08

PAGE_HEADER: Final = np.dtype([("pgno", "<u8"), ("pad", "<u2"), ("flags", "<u2"), ("lower", "<u2"), ("upper", "<u2")])
"""Header of every page; on the first page of an overflow extent ``lower`` and ``upper`` are one u32, the page count."""

OVERFLOW_HEADER: Final = np.dtype([("pgno", "<u8"), ("pad", "<u2"), ("flags", "<u2"), ("pages", "<u4")])

DB_RECORD: Final = np.dtype(
    [
        ("pad", "<u4"),
        ("flags", "<u2"),
        ("depth", "<u2"),
        ("branch_pages", "<u8"),
        ("leaf_pages", "<u8"),
        ("overflow_pages", "<u8"),
        ("entries", "<u8"),
        ("root", "<u8"),
    ]
)
"""A tree's record, 48 bytes; ``pad`` of the free database holds the page size."""

META: Final = np.dtype(
    [
        ("header", PAGE_HEADER),
        ("magic", "<u4"),
        ("version", "<u4"),
        ("address", "<u8"),
        ("mapsize", "<u8"),
        ("free", DB_RECORD),
        ("main", DB_RECORD),
        ("last_page", "<u8"),
        ("txnid", "<u8"),
    ]
)
"""A meta page from its start, 152 bytes; the rest of the page is unused by LMDB."""

NODE_HEADER_SIZE: Final = 8
PAGE_NUMBER_SIZE: Final = 8
POINTER_SIZE: Final = 2


def node_max(page_size: int) -> int:
    """Return the largest leaf node in bytes, header and key included, that keeps its value inline."""
    return (((page_size - HEADER_SIZE) // 2) & ~1) - 2


def is_inline(key_sizes: NDArray[np.int64], lengths: NDArray[np.int64], page_size: int) -> NDArray[np.bool_]:
    """Return which values LMDB keeps in the leaf, shape (n_records,); the others get overflow extents."""
    inline: NDArray[np.bool_] = NODE_HEADER_SIZE + key_sizes + lengths <= node_max(page_size)
    return inline


def overflow_pages(lengths: NDArray[np.int64], page_size: int) -> NDArray[np.int64]:
    """Return the number of pages of the overflow extent of each value, int64, shape (n_records,)."""
    pages: NDArray[np.int64] = (HEADER_SIZE - 1 + lengths) // page_size + 1
    return pages


def overflow_headers(first_pages: NDArray[np.int64], n_pages: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the header of each overflow extent, uint8, shape (n_extents, HEADER_SIZE).

    Parameters
    ----------
    first_pages, n_pages
        Page number and pages of each extent, int64, shape (n_extents,).
    """
    headers = np.zeros(len(first_pages), OVERFLOW_HEADER)
    headers["pgno"] = first_pages
    headers["flags"] = P_OVERFLOW
    headers["pages"] = n_pages
    return headers.view(np.uint8).reshape(-1, HEADER_SIZE)


def leaf_node_sizes(key_sizes: NDArray[np.int64], lengths: NDArray[np.int64], page_size: int) -> NDArray[np.int64]:
    """Return what each record takes of its leaf in bytes, its pointer included, int64, shape (n_records,)."""
    held = np.where(is_inline(key_sizes, lengths, page_size), lengths, PAGE_NUMBER_SIZE)
    sizes: NDArray[np.int64] = ((NODE_HEADER_SIZE + key_sizes + held + 1) & ~1) + POINTER_SIZE
    return sizes
