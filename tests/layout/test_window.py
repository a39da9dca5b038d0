from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.layout import window
from lmdbio.layout.page import HEADER_SIZE, overflow_pages
from lmdbio.layout.plan import DatabasePlan
from lmdbio.layout.window import Window, cut_windows, large_extents
from lmdbio.layout.writer import write_database
from tests.layout import new_databases
from tests.layout.new_databases import limits
from tests.layout.record_sets import RecordSet, record_sets

WINDOW_SIZES = st.sampled_from([1, 8192, 100_000, window.WINDOW_SIZE])
LARGEST_EXTENTS = st.sampled_from([0, (1 << 15) - 1, 1 << 15, 299_999, window.LARGEST_EXTENT])


def plan_of(made: RecordSet) -> DatabasePlan:
    return new_databases.plan_of(made.records, page_size=made.page_size, **made.options)


def extent_bytes(plan: DatabasePlan, records: list[int]) -> list[int]:
    return (overflow_pages(plan.lengths[records], plan.page_size) * plan.page_size).tolist()


def records_of(windows: list[Window]) -> list[int]:
    return [record for each in windows for record in each.records.tolist()]


@given(made=record_sets(), window_size=WINDOW_SIZES, largest=LARGEST_EXTENTS)
def test_an_extent_is_in_one_window_or_too_large(made: RecordSet, window_size: int, largest: int):
    plan = plan_of(made)
    with limits(window_size, largest):
        for region in range(plan.n_regions):
            wanted = plan.extent_records(region).tolist()
            is_large = [size > largest for size in extent_bytes(plan, wanted)]
            within = [record for record, large in zip(wanted, is_large, strict=True) if not large]
            assert records_of(cut_windows(plan, region)) == within
            assert large_extents(plan, region).tolist() == [
                record for record, large in zip(wanted, is_large, strict=True) if large
            ]


@given(made=record_sets(), window_size=WINDOW_SIZES, largest=LARGEST_EXTENTS)
def test_the_extents_of_a_window_lie_one_after_the_other(made: RecordSet, window_size: int, largest: int):
    plan = plan_of(made)
    with limits(window_size, largest):
        for region in range(plan.n_regions):
            for each in cut_windows(plan, region):
                assert each.region == region
                assert each.lengths.tolist() == plan.lengths[each.records].tolist()
                assert (each.first_page + each.pages[:-1]).tolist() == plan.value_pages[each.records].tolist()
                assert (np.diff(each.pages) * plan.page_size).tolist() == extent_bytes(plan, each.records.tolist())
                assert each.n_pages * plan.page_size == sum(extent_bytes(plan, each.records.tolist()))


@given(made=record_sets(), window_size=WINDOW_SIZES, largest=LARGEST_EXTENTS)
def test_windows_are_as_large_as_they_may_be(made: RecordSet, window_size: int, largest: int):
    plan = plan_of(made)
    with limits(window_size, largest):
        for region in range(plan.n_regions):
            windows = cut_windows(plan, region)
            for each in windows:
                assert len(each.records) == 1 or each.n_pages * plan.page_size <= window_size
            for left, right in pairwise(windows):
                end = left.first_page + left.n_pages
                one_more = left.n_pages * plan.page_size + extent_bytes(plan, right.records[:1].tolist())[0]
                # Only a large extent, or too little room, parts two windows.
                assert right.first_page >= end
                assert right.first_page > end or one_more > window_size


@given(made=record_sets(), window_size=WINDOW_SIZES, largest=LARGEST_EXTENTS)
def test_headers_are_those_of_the_database(made: RecordSet, window_size: int, largest: int):
    plan = plan_of(made)
    with TemporaryDirectory() as folder, limits(window_size, largest):
        path = Path(folder) / "data.mdb"
        write_database(path, made.records, page_size=made.page_size, **made.options)
        content = np.fromfile(path, np.uint8).reshape(-1, made.page_size)
        for region in range(plan.n_regions):
            for each in cut_windows(plan, region):
                memory = np.full((each.n_pages, made.page_size), 0xEE, np.uint8)
                expected = memory.copy()
                begins = each.pages[:-1]
                expected[begins, :HEADER_SIZE] = content[each.first_page + begins, :HEADER_SIZE]
                each.write_headers(memory)
                assert np.array_equal(memory, expected)


def test_an_extent_of_just_the_largest_size_is_in_a_window():
    made = RecordSet([(b"%d" % number, bytes(size)) for number, size in enumerate([8176, 8177, 8176])], 4096)
    plan = plan_of(made)
    with limits(window.WINDOW_SIZE, 8192):
        assert [each.records.tolist() for each in cut_windows(plan, 0)] == [[0], [2]]
        assert large_extents(plan, 0).tolist() == [1]
    with limits(window.WINDOW_SIZE, 8191):
        assert cut_windows(plan, 0) == []
        assert large_extents(plan, 0).tolist() == [0, 1, 2]
