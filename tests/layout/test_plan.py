import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.layout.keys import Keys
from lmdbio.layout.page import is_inline, overflow_pages
from lmdbio.layout.plan import DatabasePlan, plan_database
from tests.layout.record_sets import RecordSet, record_sets


def plan_of(made: RecordSet) -> DatabasePlan:
    lengths = np.array([len(value) for _, value in made.records], np.int64)
    return plan_database(
        Keys.from_list(key for key, _ in made.records), lengths, page_size=made.page_size, **made.options
    )


def numbered(n_records: int, length: int, **options: object) -> DatabasePlan:
    keys = Keys.from_list(b"%08d" % number for number in range(n_records))
    return plan_database(keys, np.full(n_records, length, np.int64), **options)


@given(made=record_sets())
def test_every_page_has_one_place_and_every_region_its_own_range(made: RecordSet):
    plan = plan_of(made)
    extents = np.flatnonzero(~plan.inline)
    counts = overflow_pages(plan.lengths, plan.page_size)
    pages = [np.arange(plan.value_pages[r], plan.value_pages[r] + counts[r]) for r in extents.tolist()]
    used = np.concatenate([*pages, plan.leaf_pages, np.zeros(0, np.int64)])
    assert len(np.unique(used)) == len(used)
    ends = plan.region_pages + plan.region_sizes
    inside = np.searchsorted(plan.region_pages, used, "right") - 1
    assert np.all(used < ends[inside]) and len(used) == plan.region_sizes.sum()
    assert np.all(plan.region_pages[1:] >= ends[:-1])
    assert np.all(plan.region_pages * plan.page_size % plan.align == 0)
    assert plan.hole_bytes == (plan.end_page - 2 - len(used)) * plan.page_size


@given(made=record_sets())
def test_regions_want_every_record_once_in_the_order_of_the_file(made: RecordSet):
    plan = plan_of(made)
    wanted = [plan.region_records(region) for region in range(plan.n_regions)]
    everything = np.concatenate([*wanted, np.zeros(0, np.int64)])
    assert sorted(everything.tolist()) == list(range(plan.n_records))
    assert np.all(np.diff(plan.value_pages[everything]) >= 0)
    for region, records in enumerate(wanted):
        begin = plan.region_pages[region]
        assert np.all(
            (plan.value_pages[records] >= begin) & (plan.value_pages[records] < begin + plan.region_sizes[region])
        )
    assert plan.n_partitions == sum(len(records) > 0 for records in wanted)


@given(made=record_sets())
def test_extents_keep_plan_order_and_leaves_key_order(made: RecordSet):
    plan = plan_of(made)
    assert np.all(np.diff(plan.value_pages[~plan.inline]) > 0)
    assert np.all(np.diff(plan.leaf_pages) > 0)
    sizes = plan.keys.sizes
    assert np.array_equal(plan.inline, is_inline(sizes, plan.lengths, plan.page_size))
    order = np.arange(plan.n_records) if plan.key_order is None else plan.key_order
    leaves = np.repeat(plan.leaf_pages, np.diff(plan.leaf_bounds))
    inline = plan.inline[order]
    assert np.array_equal(plan.value_pages[order][inline], leaves[inline])


@given(made=record_sets())
def test_a_partition_fits_its_size_unless_it_is_one_record(made: RecordSet):
    plan = plan_of(made)
    assert plan.partition_size % plan.align == 0
    for region in range(plan.n_regions):
        assert plan.region_bytes(region) <= plan.partition_size or len(plan.region_records(region)) == 1


@given(made=record_sets(), n_partitions=st.integers(1, 50))
def test_a_number_of_partitions_is_kept_where_keys_ascend(made: RecordSet, n_partitions: int):
    plan = plan_of(RecordSet(sorted(made.records), made.page_size, {"n_partitions": n_partitions}))
    assert plan.n_regions == plan.n_partitions == min(n_partitions, len(made.records))


@given(made=record_sets(), n_partitions=st.integers(2, 50))
def test_a_number_of_partitions_is_not_exceeded_where_keys_do_not_ascend(made: RecordSet, n_partitions: int):
    assert plan_of(RecordSet(made.records, made.page_size, {"n_partitions": n_partitions})).n_partitions <= n_partitions


def test_leaves_stand_behind_the_extents_of_their_partition():
    plan = numbered(400, 110_000)
    assert (plan.align, plan.align_fell_back, plan.partition_size) == (1 << 20, False, 16 << 20)
    assert plan.region_pages.tolist() == [256, 4352, 8448]
    first = plan.region_records(0)
    assert first.tolist() == list(range(151)) and plan.region_records(1)[0] == 151
    assert plan.value_pages[first].tolist() == (256 + 27 * np.arange(151)).tolist()
    assert plan.leaf_pages[0] == 256 + 27 * 151


def test_leaves_and_inline_values_follow_all_extents_where_keys_do_not_ascend():
    keys = Keys.from_list([b"d", b"a", b"c", b"b"])
    plan = plan_database(keys, np.array([9000, 5, 9000, 7]), align=4096)
    assert plan.key_order.tolist() == [1, 3, 2, 0]
    assert plan.value_pages.tolist() == [2, 8, 5, 8]
    assert [plan.region_records(region).tolist() for region in range(plan.n_regions)] == [[0, 2], [1, 3]]
    assert (plan.n_inline, plan.n_partitions, plan.leaf_pages.tolist()) == (2, 2, [8])


def test_the_default_alignment_is_given_up_where_it_costs_more_than_3_percent():
    kept = numbered(400, 110_000)
    assert (kept.align, kept.align_fell_back) == (1 << 20, False)
    assert 0 < kept.hole_bytes <= 0.03 * kept.file_size
    given_up = numbered(20, 110_000)
    assert (given_up.align, given_up.align_fell_back, given_up.hole_bytes) == (4096, True, 0)
    assert numbered(400, 9 << 20).align_fell_back  # one record a partition: nearly 1 MiB is lost to each


def test_an_alignment_that_is_asked_for_is_obeyed_at_any_cost():
    plan = numbered(3, 10, align=1 << 20, n_partitions=3)
    assert (plan.align, plan.align_fell_back) == (1 << 20, False)
    assert plan.region_pages.tolist() == [256, 512, 768]
    assert plan.hole_bytes == (254 + 255 + 255) * 4096


def test_an_alignment_beyond_the_default_partition_size_makes_partitions_larger():
    assert numbered(3, 10, align=64 << 20).partition_size == 64 << 20


def test_partition_sizes_that_the_default_alignment_does_not_divide_are_aligned_to_pages():
    plan = numbered(100, 110_000, partition_size=20 * 4096)
    assert (plan.align, plan.align_fell_back) == (4096, True)


def test_no_records_make_no_regions():
    plan = numbered(0, 0)
    assert (plan.n_regions, plan.n_partitions, plan.file_size) == (0, 0, 2 * 4096)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"page_size": 3000}, "page size of 1024 to 32768"),
        ({"page_size": 512}, "page size"),
        ({"page_size": 65536}, "page size"),
        ({"align": 5000}, "alignment that is a multiple of the page size 4096, found 5000"),
        ({"align": 0}, "alignment"),
        ({"partition_size": 5000}, "partition size that is a multiple of 4096, found 5000"),
        ({"partition_size": 0}, "partition size"),
        ({"align": 1 << 20, "partition_size": 3 << 19}, "partition size that is a multiple of 1048576"),
        ({"n_partitions": 0}, "1 or more partitions"),
        ({"n_partitions": 2, "partition_size": 4096}, "found both"),
    ],
)
def test_arguments_out_of_range_are_refused(options: dict[str, int], message: str):
    with pytest.raises(ValueError, match=message):
        numbered(3, 10, **options)


@pytest.mark.parametrize(
    ("keys", "lengths", "options", "message"),
    [
        ([b"a", b""], [1, 1], {}, r"key b'': expected 1 to 511 bytes in pages of 4096, found 0"),
        ([b"a", b"b" * 512], [1, 1], {}, r"bb': expected 1 to 511 bytes in pages of 4096, found 512"),
        ([b"k" * 487], [1], {"page_size": 1024}, r"expected 1 to 486 bytes in pages of 1024, found 487"),
        ([b"b", b"a", b"b"], [1, 1, 1], {}, r"key b'b': expected each key once"),
        ([b"a", b"big"], [1, 1 << 32], {}, r"key b'big': expected a value of 0 to 4294967295 bytes, found 4294967296"),
        ([b"neg"], [-1], {}, r"key b'neg': expected a value"),
        ([b"a"], [1, 2], {}, r"as many keys as values, found 1 and 2"),
    ],
)
def test_records_that_lmdb_cannot_hold_are_refused_by_key(
    keys: list[bytes], lengths: list[int], options: dict[str, int], message: str
):
    with pytest.raises(ValueError, match=message):
        plan_database(Keys.from_list(keys), np.array(lengths, np.int64), **options)


def test_the_largest_value_is_planned():
    plan = plan_database(Keys.from_list([b"a", b"b"]), np.array([(1 << 32) - 1, 1]), align=4096)
    assert plan.region_pages.tolist() == [2, 2 + (1 << 20) + 1 + 1]
