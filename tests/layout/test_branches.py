import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.layout.branches import branch_levels, build_branches
from lmdbio.layout.keys import Keys


def leaves_below(pages: dict[int, bytes], page: int, n_levels: int) -> list[int]:
    if n_levels == 0:
        return [page]
    content = pages[page]
    (lower,) = struct.unpack_from("<H", content, 12)
    children = []
    for pointer in struct.unpack_from(f"<{(lower - 16) // 2}H", content, 16):
        children += leaves_below(pages, int.from_bytes(content[pointer : pointer + 6], "little"), n_levels - 1)
    return children


@given(key_sizes=st.lists(st.integers(1, 511), min_size=1, max_size=300))
def test_the_root_leads_to_every_leaf_in_order(key_sizes: list[int]):
    keys = Keys.from_list(bytes(size) for size in key_sizes)
    leaf_pages = np.arange(len(key_sizes), dtype=np.int64) * 3 + 5
    branches = build_branches(leaf_pages, keys, first_page=1000, page_size=2048)
    pages = {1000 + number: page.tobytes() for number, page in enumerate(branches.pages)}
    assert leaves_below(pages, branches.root, branches.n_levels) == leaf_pages.tolist()
    assert branches.root == (1000 + len(pages) - 1 if pages else 5)
    levels = branch_levels(keys.sizes, page_size=2048)
    assert sum(len(bounds) - 1 for bounds in levels) == len(pages)


@pytest.mark.parametrize(("n_leaves", "shape"), [(0, []), (1, []), (2, [1]), (227, [1]), (228, [2, 1]), (455, [3, 1])])
def test_levels_are_added_until_one_page_is_left(n_leaves: int, shape: list[int]):
    levels = branch_levels(np.full(n_leaves, 8, np.int64), page_size=4096)
    assert [len(bounds) - 1 for bounds in levels] == shape
