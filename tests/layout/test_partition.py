import itertools
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.layout import partition
from lmdbio.layout.partition import (
    align_up,
    cut_branches,
    cut_by_count,
    cut_by_size,
    cut_leaves,
    leaf_fills,
    running_sum,
)
from lmdbio.layout.pieces import pieces

PAGE_SIZE = 2048
ROOM = PAGE_SIZE - 16

node_sizes = st.lists(st.integers(6, 508).map(lambda half: 2 * half), max_size=200).map(
    lambda sizes: np.array(sizes, np.int64)
)


def greedy_leaves(sizes: list[int], begin: int, end: int) -> list[int]:
    """The rule, told record by record."""
    bounds, used = [], 0
    for number in range(begin, end):
        if used and used + sizes[number] > ROOM:
            bounds.append(number)
            used = 0
        used += sizes[number]
    return [*bounds, end] if end > begin else bounds


def pages_of(sizes: list[int], pages: list[int], begin: int, end: int) -> int:
    return sum(pages[begin:end]) + len(greedy_leaves(sizes, begin, end))


@given(sizes=node_sizes, data=st.data())
def test_leaves_are_filled_greedily_and_never_span_two_partitions(sizes: np.ndarray, data: st.DataObject):
    inner = data.draw(st.lists(st.integers(1, max(1, len(sizes) - 1)), unique=True))
    bounds = sorted({0, len(sizes), *(cut for cut in inner if cut < len(sizes))})
    expected = [0]
    for begin, end in itertools.pairwise(bounds):
        expected += greedy_leaves(sizes.tolist(), begin, end)
    found = cut_leaves(leaf_fills(sizes, page_size=PAGE_SIZE), np.array(bounds, np.int64))
    assert found.tolist() == expected


@given(sizes=node_sizes, piece=st.integers(1, 9))
def test_how_full_leaves_get_is_the_same_found_piece_by_piece(sizes: np.ndarray, piece: int):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition, "pieces", partial(pieces, size=piece))
        found = leaf_fills(sizes.astype(np.uint16), page_size=PAGE_SIZE)
    assert found.tolist() == [greedy_leaves(sizes.tolist(), at, len(sizes))[0] - at for at in range(len(sizes))]


@given(sizes=node_sizes, data=st.data())
def test_a_partition_takes_as_much_as_fits_its_size(sizes: np.ndarray, data: st.DataObject):
    n = len(sizes)
    pages = data.draw(st.lists(st.integers(0, 9), min_size=n, max_size=n))
    most = data.draw(st.integers(1, 20))
    fills = leaf_fills(sizes, page_size=PAGE_SIZE)
    bounds = cut_by_size(np.array(pages, np.int64), fills, partition_pages=most).tolist()
    assert bounds[0] == 0 and bounds[-1] == n and sorted(set(bounds)) == bounds
    for begin, end in itertools.pairwise(bounds):
        assert pages_of(sizes.tolist(), pages, begin, end) <= most or end == begin + 1
        assert end == n or pages_of(sizes.tolist(), pages, begin, end + 1) > most


@given(pages=st.lists(st.integers(1, 9), max_size=100), most=st.integers(1, 20))
def test_partitions_without_leaves_are_cut_by_their_pages_alone(pages: list[int], most: int):
    bounds = cut_by_size(np.array(pages, np.int64), None, partition_pages=most).tolist()
    assert bounds[0] == 0 and bounds[-1] == len(pages) and sorted(set(bounds)) == bounds
    for begin, end in itertools.pairwise(bounds):
        assert sum(pages[begin:end]) <= most or end == begin + 1
        assert end == len(pages) or sum(pages[begin : end + 1]) > most


@given(sizes=st.lists(st.integers(0, 1000), max_size=100), n_partitions=st.integers(1, 120))
def test_a_number_of_partitions_is_kept_and_none_is_empty(sizes: list[int], n_partitions: int):
    bounds = cut_by_count(np.array(sizes, np.int64), n_partitions).tolist()
    assert bounds[0] == 0 and bounds[-1] == len(sizes)
    assert len(bounds) == min(n_partitions, len(sizes)) + 1
    assert sorted(set(bounds)) == bounds


@given(sizes=st.lists(st.integers(50, 100), min_size=1, max_size=200), n_partitions=st.integers(1, 20))
def test_partitions_by_count_are_of_nearly_equal_size(sizes: list[int], n_partitions: int):
    bounds = cut_by_count(np.array(sizes, np.int64), n_partitions)
    if len(sizes) >= 4 * n_partitions:
        taken = np.diff(running_sum(np.array(sizes, np.int64))[bounds])
        assert np.all(np.abs(taken - sum(sizes) / n_partitions) <= max(sizes))


@given(
    key_sizes=st.lists(st.integers(1, 511), min_size=2, max_size=400),
    page_size=st.sampled_from([2048, 4096, 32768]),
)
def test_branch_pages_fit_and_have_two_children_or_more(key_sizes: list[int], page_size: int):
    bounds = cut_branches(np.array(key_sizes, np.int64), page_size=page_size).tolist()
    assert bounds[0] == 0 and bounds[-1] == len(key_sizes)
    for begin, end in itertools.pairwise(bounds):
        assert end - begin >= 2
        used = 10 + sum(((8 + size + 1) & ~1) + 2 for size in key_sizes[begin + 1 : end])
        assert used <= page_size - 16


@pytest.mark.parametrize("size", [486, 485])
def test_the_longest_keys_of_1_kib_pages_still_leave_two_children_everywhere(size: int):
    for n_children in range(2, 40):
        bounds = cut_branches(np.full(n_children, size, np.int64), page_size=1024)
        assert np.diff(bounds).min() >= 2


def test_a_last_branch_page_of_one_child_takes_one_from_its_neighbour():
    fanout = 1 + (4096 - 26) // 18
    bounds = cut_branches(np.full(fanout + 1, 8, np.int64), page_size=4096)
    assert bounds.tolist() == [0, fanout - 1, fanout + 1]


def test_aligning_up_never_moves_a_multiple():
    assert [align_up(number, 4) for number in range(6)] == [0, 4, 4, 4, 4, 8]
