import random
import struct
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.layout.keys import Keys
from lmdbio.layout.leaves import Nodes, data_offsets, leaf_heads, pack_branches, pack_leaves

PAGE_SIZE = 4096


def packed_by_hand(page_number: int, flag: int, nodes: list[tuple[bytes, bytes, int]]) -> bytes:
    """A page put together node by node: head, key, bytes left for data."""
    page = bytearray(PAGE_SIZE)
    upper = PAGE_SIZE
    for slot, (head, key, data_size) in enumerate(nodes):
        upper -= (8 + len(key) + data_size + 1) & ~1
        page[upper : upper + 8 + len(key)] = head + key
        struct.pack_into("<H", page, 16 + 2 * slot, upper)
    struct.pack_into("<QHHHH", page, 0, page_number, 0, flag, 16 + 2 * len(nodes), upper)
    return bytes(page)


node_lists = st.lists(
    st.lists(st.tuples(st.binary(min_size=1, max_size=100), st.integers(0, 200)), min_size=1, max_size=12),
    min_size=1,
    max_size=5,
)


@given(pages=node_lists)
def test_leaves_equal_pages_put_together_by_hand(pages: list[list[tuple[bytes, int]]]):
    flat = [node for page in pages for node in page]
    keys = Keys.from_list(key for key, _ in flat)
    sizes = np.array([size for _, size in flat], np.int64)
    bounds = np.cumsum([0, *map(len, pages)])
    numbers = np.arange(len(pages), dtype=np.int64) + (1 << 33)
    heads = leaf_heads(sizes, np.zeros_like(sizes), keys.sizes)
    found, places = pack_leaves(
        Nodes(heads, keys.offsets[:-1], keys.sizes, sizes), keys.blob, bounds, numbers, page_size=PAGE_SIZE
    )
    for number, page in enumerate(pages):
        nodes = [(struct.pack("<IHH", size, 0, len(key)), key, size) for key, size in page]
        assert found[number].tobytes() == packed_by_hand((1 << 33) + number, 2, nodes)
    flat_pages = found.reshape(-1)
    for place, key in zip(places.tolist(), keys, strict=True):
        assert flat_pages[place - len(key) : place].tobytes() == key
    in_page = data_offsets(keys.sizes, sizes, bounds, page_size=PAGE_SIZE)
    assert np.array_equal(in_page, places - np.repeat(np.arange(len(pages)) * PAGE_SIZE, np.diff(bounds)))


def test_a_page_without_nodes_is_zeros():
    keys = Keys.from_list([b"a"])
    one = np.ones(1, np.int64)
    nodes = Nodes(leaf_heads(one, 0 * one, one), keys.offsets[:-1], one, one)
    pages, _ = pack_leaves(nodes, keys.blob, np.array([0, 0, 1, 1]), np.array([7, 8, 9]), page_size=PAGE_SIZE)
    assert [page.any() for page in pages] == [False, True, False]


@given(sizes=st.lists(st.integers(1, 100), min_size=4, max_size=20), seed=st.integers(0, 2**32))
def test_branches_equal_pages_put_together_by_hand(sizes: list[int], seed: int):
    rng = random.Random(seed)
    keys = Keys.from_list(rng.randbytes(size) for size in sizes)
    children = np.array([rng.randrange(1 << 48) for _ in sizes], np.int64)
    bounds = np.array([0, 2, len(sizes)])
    found = pack_branches(
        children, keys.offsets[:-1], keys.sizes, keys.blob, bounds, np.array([70, 71]), page_size=PAGE_SIZE
    )
    for number, (begin, end) in enumerate(pairwise(bounds.tolist())):
        nodes = []
        for child in range(begin, end):
            key = b"" if child == begin else keys[child]
            nodes.append((int(children[child]).to_bytes(6, "little") + struct.pack("<H", len(key)), key, 0))
        assert found[number].tobytes() == packed_by_hand(70 + number, 1, nodes)
