import struct

import numpy as np
import pytest

from lmdbio.layout.free_list import build_free_list, free_list_pages
from lmdbio.layout.page import NO_PAGE


@pytest.mark.parametrize(
    ("n_free", "n_pages"),
    [(0, 0), (1, 1), (251, 1), (252, 2), (509, 2), (510, 3), (1021, 3), (1022, 4), (100_000, 197)],
)
def test_a_list_takes_one_leaf_and_an_extent_where_it_is_long(n_free: int, n_pages: int):
    assert free_list_pages(n_free, page_size=4096) == n_pages
    tree, pages = build_free_list(np.arange(n_free, dtype=np.int64) + 2, first_page=200_000, page_size=4096)
    assert len(pages) == n_pages
    assert (tree.flags, tree.entries, tree.leaf_pages) == (8, min(n_free, 1), min(n_free, 1))
    assert tree.overflow_pages == max(0, n_pages - 1)
    assert tree.root == (200_000 + n_pages - 1 if n_free else NO_PAGE)


@pytest.mark.parametrize("n_free", [3, 1000])
def test_pages_are_listed_descending_behind_their_count(n_free: int):
    free = np.random.default_rng(0).permutation(n_free) * 7 + 2
    tree, pages = build_free_list(free, first_page=50_000, page_size=4096)
    content = pages.tobytes()
    expected = struct.pack(f"<{n_free + 1}Q", n_free, *sorted(free.tolist(), reverse=True))
    leaf = content[-4096:]
    (pointer,) = struct.unpack_from("<H", leaf, 16)
    assert leaf[pointer + 8 : pointer + 16] == (1).to_bytes(8, "little")
    if tree.overflow_pages:
        assert struct.unpack_from("<QHHI", content) == (50_000, 0, 4, tree.overflow_pages)
        assert content[16 : 16 + len(expected)] == expected
        assert struct.unpack_from("<IHH8xQ", leaf, pointer) == (len(expected), 1, 8, 50_000)
    else:
        assert leaf[pointer + 16 : pointer + 16 + len(expected)] == expected
