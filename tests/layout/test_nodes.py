import re
import struct
import tracemalloc

import numpy as np
import pytest

from lmdbio.errors import CorruptDatabaseError
from lmdbio.layout.leaf_records import LeafRecords
from lmdbio.layout.nodes import Limits, decode_branches, decode_leaves
from lmdbio.layout.page import NO_PAGE
from tests.layout.pages import BLANK, PAGE_SIZE, big_node, branch, leaf, node

GOOD = leaf(2, [node(b"key", b"value")])


def limits(n_pages: int) -> Limits:
    """Return those of a file that ends after so many pages beside the metas."""
    return Limits("x.mdb", PAGE_SIZE, last_page=n_pages + 1, file_size=(n_pages + 2) * PAGE_SIZE)


def decoded(pages: list[bytes], *, n_decoded: int = 1) -> LeafRecords:
    """Return the records of the first page or pages, which stand from page 2 on."""
    content = np.frombuffer(b"".join(pages[:n_decoded]), np.uint8).reshape(n_decoded, PAGE_SIZE)
    return decode_leaves(content, np.arange(2, 2 + n_decoded), limits(len(pages)))


def test_the_records_of_leaf_pages_come_page_by_page(tmp_path):
    second = leaf(3, [node(b"c", b""), big_node(b"dd", 4, 4081)])
    found = decoded([leaf(2, [node(b"aaa", b"12345")]), second, BLANK, BLANK], n_decoded=2)
    assert found.counts.tolist() == [1, 2]
    assert (found.key_blob.tobytes(), found.key_sizes.tolist()) == (b"aaacdd", [3, 1, 2])
    assert found.offsets.tolist() == [3 * PAGE_SIZE - 5, 4 * PAGE_SIZE, 4 * PAGE_SIZE + 16]
    assert (found.lengths.tolist(), found.pages.tolist()) == ([5, 0, 4081], [2, 3, 4])
    assert (found.slots.tolist(), found.inline.tolist()) == ([0, 0, 1], [True, True, False])


def test_the_children_of_branch_pages_come_page_by_page():
    content = np.frombuffer(branch(2, [9, 4]) + branch(3, [5, 8, 6]), np.uint8).reshape(2, PAGE_SIZE)
    counts, children = decode_branches(content, np.arange(2, 4), limits(8))
    assert (counts.tolist(), children.tolist()) == ([2, 3], [9, 4, 5, 8, 6])


LEAF_DAMAGE = {
    "a page of another number": ([leaf(3, [node(b"key", b"value")])], "its own number in a leaf"),
    "a meta page as root": ([leaf(2, [node(b"key", b"value")], kind=8)], "a leaf page, found other flags"),
    "a dirty page": ([leaf(2, [node(b"key", b"value")], kind=0x12)], "a leaf page, found other flags"),
    "a page of packed keys": ([leaf(2, [node(b"key", b"value")], kind=0x22)], "a leaf page, found other flags"),
    "an overflow page as root": ([leaf(2, [node(b"key", b"value")], kind=4)], "a leaf page, found other flags"),
    "no nodes": ([leaf(2, [])], "1 or more nodes"),
    "half a pointer": ([leaf(2, [node(b"key", b"value")], lower=19)], "1 or more nodes"),
    "a lower bound of 0": ([leaf(2, [node(b"key", b"value")], lower=0)], "1 or more nodes"),
    "a lower bound beyond the page": (
        [leaf(2, [node(b"key", b"value")], lower=0xFFFE, upper=0xFFFE)],
        "1 or more nodes",
    ),
    "crossed bounds": ([leaf(2, [node(b"key", b"value")], lower=2000, upper=1000)], "1 or more nodes"),
    "a pointer into the header": ([leaf(2, [node(b"key", b"value")], lower=20, upper=20)], "node pointers within"),
    "a pointer beyond the page": ([GOOD[:16] + b"\xff\xff" + GOOD[18:]], "node pointers within"),
    "a pointer to the page's last bytes": ([GOOD[:16] + struct.pack("<H", 4090) + GOOD[18:]], "node pointers within"),
    "a key beyond the page": ([leaf(2, [struct.pack("<IHH", 0, 0, 100)])], "nodes that end within it"),
    "a value beyond the page": ([leaf(2, [node(b"key", length=100)])], "nodes that end within it"),
    "a value of 4 GiB in the leaf": ([leaf(2, [node(b"key", length=2**32 - 1)])], "nodes that end within it"),
    "a page number beyond the page": ([leaf(2, [node(b"key", flags=1)])], "nodes that end within it"),
    "an empty key": ([leaf(2, [node(b"", b"value")])], "keys of at least 1 byte"),
    "two pointers to one node": (
        [leaf(2, [node(b"key", b"value")] * 2)[:16] + b"\xf0\x0f\xf0\x0f" + GOOD[20:]],
        "overlap",
    ),
    "an unknown node flag": ([leaf(2, [node(b"key", b"value", flags=8)])], "plain records, found other node flags"),
    "a node of duplicates": ([leaf(2, [node(b"key", b"value", flags=4)])], "plain records, found other node flags"),
    "a named database of the wrong size": ([leaf(2, [node(b"key", b"v", flags=2)])], "plain records"),
    "a value on a meta page": ([leaf(2, [big_node(b"key", 1, 5000)])], "a value's first page within pages 2 to 2"),
    "a value beyond the last page": ([leaf(2, [big_node(b"key", 3, 5000)])], "a value's first page within pages"),
    "a value on page 2^64-1": ([leaf(2, [big_node(b"key", NO_PAGE, 5000)])], "a value's first page within pages"),
    "a value that runs on beyond the last page": ([leaf(2, [big_node(b"key", 3, 5000)]), BLANK], "end by page 3"),
    "a value of 4 GiB": ([leaf(2, [big_node(b"key", 3, 2**32 - 1)]), BLANK], "end by page 3"),
}


@pytest.mark.parametrize(("pages", "message"), LEAF_DAMAGE.values(), ids=LEAF_DAMAGE)
def test_a_damaged_leaf_page_is_refused_by_name(pages, message):
    with pytest.raises(CorruptDatabaseError, match=f"x.mdb: page 2 at byte 8192: expected .*{re.escape(message)}"):
        decoded(pages)


BRANCH_DAMAGE = {
    "one child": (branch(2, [3]), "2 or more nodes"),
    "a leaf page": (GOOD, "a branch page, found other flags"),
    "a child that is a meta page": (branch(2, [1, 3]), "a child page within pages 2 to 3"),
    "a child beyond the last page": (branch(2, [3, 9]), "a child page within pages 2 to 3"),
    "a child on page 2^48-1": (branch(2, [3, 2**48 - 1]), "a child page within pages 2 to 3"),
    "a key beyond the page": (leaf(2, [b"\x03" + bytes(5) + b"\xff\xff"] * 2, kind=1), "nodes that end within it"),
}


@pytest.mark.parametrize(("page", "message"), BRANCH_DAMAGE.values(), ids=BRANCH_DAMAGE)
def test_a_damaged_branch_page_is_refused_by_name(page, message):
    with pytest.raises(CorruptDatabaseError, match=f"x.mdb: page 2 at byte 8192: expected .*{message}"):
        decode_branches(np.frombuffer(page, np.uint8).reshape(1, -1), np.array([2]), limits(2))


def test_nodes_in_any_order_and_at_odd_bytes_are_read():
    page = bytearray(leaf(2, [], lower=20, upper=4000))
    page[4001:4018] = node(b"key", b"values")
    page[4019:4030] = node(b"l", b"vs")
    struct.pack_into("<2H", page, 16, 4001, 4019)
    found = decoded([bytes(page)])
    assert (found.key_blob.tobytes(), found.lengths.tolist()) == (b"keyl", [6, 2])
    assert (found.offsets - 2 * PAGE_SIZE).tolist() == [4012, 4028]


def test_a_page_of_overlapping_nodes_costs_no_memory():
    # 500 pointers to one node with a key of 3 KB: 1.5 MB from a page, were the keys copied before the check.
    page = bytearray(leaf(2, [], lower=16 + 2 * 500, upper=1016))
    page[1016:] = struct.pack("<IHH", 0, 0, 3072) + bytes(3072)
    struct.pack_into("<500H", page, 16, *[1016] * 500)
    tracemalloc.start()
    with pytest.raises(CorruptDatabaseError, match="overlap"):
        decoded([bytes(page)])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 18
