import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.layout.region_plan import Goal, cut_apart, cut_together, place

PAGE_SIZE = 4096


def goal_of(**options: int) -> Goal:
    wanted = {"align": PAGE_SIZE, "partition_size": None, "n_partitions": None, **options}
    return Goal.make(page_size=PAGE_SIZE, **wanted)


@given(sizes=st.lists(st.integers(1, 100), max_size=50), pages=st.sampled_from([1, 2, 16, 256]))
def test_regions_begin_at_multiples_and_as_early_as_they_can(sizes: list[int], pages: int):
    first, end = place(np.array(sizes, np.int64), align=pages * PAGE_SIZE, page_size=PAGE_SIZE)
    at = 2
    for begin, size in zip(first.tolist(), sizes, strict=True):
        assert begin % pages == 0 and 0 <= begin - at < pages
        at = begin + size
    assert end == at


def test_regions_of_extents_and_leaves_share_a_number_of_partitions_by_their_bytes():
    # 100 records of 3 pages, then 100 inline ones of half a page.
    pages = np.repeat(np.array([3, 0]), 100)
    node_sizes = np.repeat(np.array([26, 2040]), 100)
    regions = cut_apart(node_sizes, pages, np.arange(200)[::-1], goal_of(n_partitions=7))
    kinds = np.diff(regions.leaves) > 0
    assert kinds.tolist() == [False] * 6 + [True]
    assert regions.sizes.sum() == 300 + len(regions.leaf_bounds) - 1


@pytest.mark.parametrize("n_partitions", [1, 2, 3])
def test_few_partitions_still_keep_extents_and_leaves_apart(n_partitions: int):
    regions = cut_apart(np.array([26, 2040]), np.array([3, 0]), np.array([1, 0]), goal_of(n_partitions=n_partitions))
    assert len(regions.sizes) == 2


def test_extents_and_leaves_of_a_partition_stand_together():
    regions = cut_together(np.full(10, 26), np.full(10, 3), goal_of(partition_size=10 * PAGE_SIZE))
    assert regions.sizes.tolist() == [10, 10, 10, 4]
    assert regions.leaves.tolist() == [0, 1, 2, 3, 4]
    assert regions.extents.tolist() == regions.leaf_bounds.tolist() == [0, 3, 6, 9, 10]
