import numpy as np
import pytest

from lmdbio.layout.keys import Keys
from lmdbio.layout.page import NO_PAGE
from lmdbio.layout.plan import DatabasePlan, plan_database
from lmdbio.layout.tree_pages import build_trees, kept_leaf_bounds, value_offsets, written_records


@pytest.fixture
def plan() -> DatabasePlan:
    """Three partitions of one overflow value (2 pages) and one inline value, aligned to 4 pages: pages 4, 8, 12."""
    keys = Keys.from_list(b"%08d" % number for number in range(6))
    plan = plan_database(keys, np.array([5000, 10] * 3), align=4 * 4096, n_partitions=3)
    assert plan.region_pages.tolist() == [4, 8, 12] and plan.leaf_pages.tolist() == [6, 10, 14]
    return plan


def free_pages(plan: DatabasePlan, written: np.ndarray) -> list[int]:
    leaf = build_trees(plan, written).pages[-1]
    pointer = int(leaf.view("<u2")[8])
    count, *pages = leaf[pointer + 16 :].view("<u8").tolist()  # behind the node's head and key
    assert count == len(pages)
    return pages


def test_pages_between_regions_are_free(plan: DatabasePlan):
    assert free_pages(plan, np.ones(6, np.bool_)) == [11, 7, 3, 2]


def test_extents_of_skipped_records_and_leaves_of_none_are_free(plan: DatabasePlan):
    written = np.ones(6, np.bool_)
    written[[0, 2, 3]] = False
    assert free_pages(plan, written) == [11, 10, 9, 8, 7, 5, 4, 3, 2]
    main = build_trees(plan, written).main
    assert (main.entries, main.leaf_pages, main.overflow_pages, main.branch_pages, main.depth) == (3, 2, 2, 1, 2)


def test_one_leaf_is_its_own_root(plan: DatabasePlan):
    written = np.zeros(6, np.bool_)
    written[3] = True
    main = build_trees(plan, written).main
    assert (main.root, main.depth, main.branch_pages, main.leaf_pages, main.entries) == (10, 1, 0, 1, 1)


def test_no_record_makes_an_empty_tree_and_every_page_free(plan: DatabasePlan):
    written = np.zeros(6, np.bool_)
    assert build_trees(plan, written).main.root == NO_PAGE
    assert free_pages(plan, written) == list(range(14, 1, -1))


def test_offsets_of_inline_values_follow_from_what_their_leaf_keeps(plan: DatabasePlan):
    everything = value_offsets(plan, np.ones(6, np.bool_))
    assert everything[0] == 4 * 4096 + 16
    assert everything[1] == 7 * 4096 - 24 - 26 + 16  # the second node: after one of 8 + 8 + 8 bytes
    written = np.ones(6, np.bool_)
    written[0] = False
    assert value_offsets(plan, written)[0] == 7 * 4096 - 26 + 16
    assert written_records(plan, written).tolist() == [1, 2, 3, 4, 5]
    assert kept_leaf_bounds(plan, written).tolist() == [0, 1, 3, 5]
