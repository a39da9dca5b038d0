"""The branch levels over a row of leaves: how many pages, and their bytes. Pure: no I/O."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.keys import Keys
from lmdbio.layout.leaves import pack_branches
from lmdbio.layout.partition import Bounds, cut_branches


@dataclass(frozen=True, slots=True, eq=False)
class Branches:
    """All branch pages of a tree."""

    pages: NDArray[np.uint8]
    """In the order of their page numbers, the root last, uint8, shape (n_pages, page_size)."""
    root: int
    """Page number of the root: of the leaf itself where there is one leaf."""
    n_levels: int
    """Levels of branch pages above the leaves."""


def branch_levels(key_sizes: NDArray[np.int64], *, page_size: int) -> list[Bounds]:
    """Return the bounds of the branch pages of each level over the level below it, the root's last.

    Parameters
    ----------
    key_sizes
        Bytes of the first key of each leaf, int64, shape (n_leaves,).
    page_size
        Bytes of a page.
    """
    levels = []
    while len(key_sizes) > 1:
        bounds = cut_branches(key_sizes, page_size=page_size)
        levels.append(bounds)
        key_sizes = key_sizes[bounds[:-1]]
    return levels


def build_branches(leaf_pages: NDArray[np.int64], keys: Keys, *, first_page: int, page_size: int) -> Branches:
    """Return the branch pages over one or more leaves.

    Parameters
    ----------
    leaf_pages
        Page numbers in key order, int64, shape (n_leaves,).
    keys
        The first key of each leaf.
    first_page
        Page number of the first branch page; the others follow.
    page_size
        Bytes of a page.
    """
    levels = branch_levels(keys.sizes, page_size=page_size)
    children, firsts = leaf_pages, np.arange(len(keys), dtype=np.int64)
    packed = []
    for bounds in levels:
        numbers = np.arange(first_page, first_page + len(bounds) - 1, dtype=np.int64)
        starts, sizes = keys.offsets[firsts], keys.sizes_at(firsts)
        packed.append(pack_branches(children, starts, sizes, keys.blob, bounds, numbers, page_size=page_size))
        children, firsts = numbers, firsts[bounds[:-1]]
        first_page += len(numbers)
    pages = np.concatenate(packed) if packed else np.zeros((0, page_size), np.uint8)
    return Branches(pages, root=int(children[0]), n_levels=len(levels))
