"""What records take of a new database: overflow pages, and room in leaves. Pure: no I/O."""

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.keys import AnyKeys
from lmdbio.layout.page import is_inline, leaf_node_sizes, overflow_pages
from lmdbio.layout.pieces import pieces


def page_needs(
    keys: AnyKeys, lengths: NDArray[np.int64], *, page_size: int
) -> tuple[NDArray[np.int32], NDArray[np.uint16]]:
    """Return what each record takes of a file: overflow pages, 0 for an inline value, and bytes of a leaf.

    Parameters
    ----------
    keys
        The keys.
    lengths
        Bytes of each value, int64, shape (n_records,).
    page_size
        Bytes of a page.

    Returns
    -------
    pages
        int32, shape (n_records,).
    node_sizes
        Pointers included, uint16, shape (n_records,).
    """
    pages = np.zeros(len(lengths), np.int32)
    node_sizes = np.empty(len(lengths), np.uint16)
    for piece in pieces(len(lengths)):
        sizes = keys.sizes_at(np.arange(piece.start, piece.stop))
        inline = is_inline(sizes, lengths[piece], page_size)
        pages[piece] = np.where(inline, 0, overflow_pages(lengths[piece], page_size))
        node_sizes[piece] = leaf_node_sizes(sizes, lengths[piece], page_size)
    return pages, node_sizes
