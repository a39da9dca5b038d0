"""Reads are few, large, disjoint and capped, and bring every record to the place that the plan says."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lmdbio.reader.plan import MAX_WASTE, ReadPlan, part_repeats, plan_reads, plan_runs

Extents = tuple[NDArray[np.int64], NDArray[np.int64]]


@st.composite
def extents(draw: st.DrawFn) -> Extents:
    """Draw records as a file has them (in order, with gaps), then some of them, in some order, some twice."""
    sizes = draw(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 500)), max_size=40))
    gaps, lengths = np.array(sizes, np.int64).reshape(-1, 2).T
    offsets = np.cumsum(gaps + lengths) - lengths
    if len(sizes) and draw(st.booleans()):
        taken = draw(st.lists(st.integers(0, len(sizes) - 1), max_size=40))
        offsets, lengths = offsets[taken], lengths[taken]
    return offsets, lengths


ALIGNS = st.sampled_from([1, 16, 64, 512])


def check(
    plan: ReadPlan, offsets: NDArray[np.int64], lengths: NDArray[np.int64], gap: int, read_size: int, align: int
) -> None:
    """Carry the plan out on a file whose bytes tell their offset, and compare."""
    content = np.random.default_rng(0).integers(0, 256, 60_000, np.uint8)
    buffer = np.zeros(plan.size, np.uint8)
    filled = 0
    for offset, length, place in zip(plan.offsets, plan.lengths, plan.places, strict=True):
        assert 0 < length <= max(read_size, align)
        assert offset % align == length % align == place % align == 0
        assert place == filled
        buffer[place : place + length] = content[offset : offset + length]
        filled += length
    assert filled == plan.size
    for offset, length, place in zip(offsets, lengths, plan.record_places, strict=True):
        assert buffer[place : place + length].tobytes() == content[offset : offset + length].tobytes()
    ends = plan.offsets + plan.lengths
    assert (plan.offsets[1:] >= ends[:-1]).all()
    wanted = np.zeros(len(content), bool)
    for offset, length in zip(offsets, lengths, strict=True):
        wanted[offset : offset + length] = True
    n_ranges = 1 + np.count_nonzero(plan.offsets[1:] > ends[:-1])  # touching reads are of one range
    assert plan.size - wanted.sum() <= MAX_WASTE * lengths.sum() + n_ranges * 2 * (align - 1)
    assert plan.record_lengths.tolist() == lengths.tolist()


@given(extents(), st.integers(0, 400), st.sampled_from([64, 100, 256, 5000]), ALIGNS)
def test_every_record_lands_where_the_plan_says(drawn: Extents, gap: int, read_size: int, align: int) -> None:
    check(plan_reads(*drawn, gap=gap, read_size=read_size, align=align), *drawn, gap, read_size, align)


@st.composite
def runs(draw: st.DrawFn) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Draw extents and bounds of runs of them, some in order, some not."""
    drawn = [part for part in draw(st.lists(extents(), max_size=6)) if len(part[0])]
    bounds = np.cumsum([0] + [len(lengths) for _, lengths in drawn])
    none = np.zeros(0, np.int64)
    return np.concatenate([none, *(o for o, _ in drawn)]), np.concatenate([none, *(n for _, n in drawn)]), bounds


@given(runs(), st.integers(0, 400), st.sampled_from([64, 256, 5000]), ALIGNS)
def test_runs_planned_together_are_as_planned_one_by_one(drawn, gap: int, read_size: int, align: int) -> None:
    offsets, lengths, bounds = drawn
    together = list(plan_runs(offsets, lengths, bounds, gap=gap, read_size=read_size, align=align))
    assert len(together) == len(bounds) - 1
    for plan, (begin, end) in zip(together, pairwise(bounds.tolist()), strict=True):
        alone = plan_reads(offsets[begin:end], lengths[begin:end], gap=gap, read_size=read_size, align=align)
        for name in ("offsets", "lengths", "places", "record_lengths", "size"):
            assert np.array_equal(getattr(plan, name), getattr(alone, name))
        has_bytes = plan.record_lengths > 0
        assert plan.record_places[has_bytes].tolist() == alone.record_places[has_bytes].tolist()
        check(plan, offsets[begin:end], lengths[begin:end], gap, read_size, align)


def test_runs_in_order_are_planned_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmdbio.reader.plan._plan_together", lambda *_, **__: iter(()))
    offsets = np.arange(100) * 1000
    bounds = np.array([0, 1, 50, 100])
    plans = list(plan_runs(offsets, np.full(100, 900), bounds, gap=100, read_size=1 << 20, align=1))
    assert [plan.lengths.tolist() for plan in plans] == [[900], [48_900], [49_900]]
    plans = list(plan_runs(offsets, np.full(100, 900), bounds, gap=100, read_size=1 << 20, align=512))
    assert [plan.lengths.tolist() for plan in plans] == [[1024], [49_664], [50_688]]
    assert [plan.record_places[0] for plan in plans] == [0, 1000 % 512, 50_000 % 512]


@given(st.lists(st.integers(0, 300), min_size=1, max_size=20), ALIGNS, st.data())
def test_repeats_get_bytes_of_their_own(sizes: list[int], align: int, data: st.DataObject) -> None:
    records = np.array(data.draw(st.lists(st.integers(0, len(sizes) - 1), max_size=30)), np.int64)
    lengths = np.array(sizes, np.int64)[records]
    offsets = (np.cumsum(sizes) - sizes)[records]
    shared = plan_reads(offsets, lengths, gap=10, read_size=64, align=align)
    plan = part_repeats(shared, records, offsets, align=align)
    content = np.random.default_rng(0).integers(0, 256, 60_000, np.uint8)
    buffer, n_users = np.zeros(plan.size, np.uint8), np.zeros(plan.size, np.int64)
    for offset, length, place in zip(plan.offsets, plan.lengths, plan.places, strict=True):
        assert offset % align == length % align == place % align == 0
        buffer[place : place + length] = content[offset : offset + length]
    for offset, length, place in zip(offsets, lengths, plan.record_places, strict=True):
        assert buffer[place : place + length].tobytes() == content[offset : offset + length].tobytes()
        n_users[place : place + length] += 1
    assert n_users.max(initial=0) <= 1
    if len(set(records.tolist())) == len(records):
        assert plan is shared


def test_adjacent_records_are_one_read_and_a_wide_gap_parts_them() -> None:
    offsets, lengths = np.array([0, 100, 1000, 1200]), np.array([100, 100, 150, 100])
    near = plan_reads(offsets, lengths, gap=50, read_size=4096, align=1)
    assert (near.offsets.tolist(), near.lengths.tolist()) == ([0, 1000], [200, 300])
    assert near.record_places.tolist() == [0, 100, 200, 400]
    assert plan_reads(offsets, lengths, gap=800, read_size=4096, align=1).lengths.tolist() == [1300]


def test_a_range_over_the_cap_is_cut_at_multiples_of_it() -> None:
    plan = plan_reads(np.array([1000]), np.array([10_000]), gap=0, read_size=4096, align=1)
    assert plan.offsets.tolist() == [1000, 4096, 8192]
    assert (plan.offsets + plan.lengths).tolist() == [4096, 8192, 11_000]


def test_a_range_within_the_cap_is_never_cut() -> None:
    assert plan_reads(np.array([4000]), np.array([4096]), gap=0, read_size=4096, align=1).lengths.tolist() == [4096]


def test_small_records_far_apart_do_not_drag_all_of_the_file_in() -> None:
    offsets = np.arange(1000) * 5000
    plan = plan_reads(offsets, np.full(1000, 10), gap=64 << 10, read_size=1 << 20, align=1)
    assert len(plan.offsets) == 1000
    assert plan.size == 10_000


def test_the_smallest_gaps_are_merged_first() -> None:
    offsets, lengths = np.array([0, 120, 400, 1000]), np.array([100, 100, 100, 100])
    plan = plan_reads(offsets, lengths, gap=4096, read_size=4096, align=1)
    assert len(plan.offsets) == 1  # 20 + 180 + 500 wasted, 3 x 400 allowed
    offsets = np.array([0, 120, 400, 2500])
    assert plan_reads(offsets, lengths, gap=4096, read_size=4096, align=1).offsets.tolist() == [0, 2500]


@pytest.mark.parametrize("lengths", [[], [0], [0, 0]])
@pytest.mark.parametrize("align", [1, 512])
def test_records_without_bytes_need_no_read(lengths: list[int], align: int) -> None:
    plan = plan_reads(np.full(len(lengths), 7), np.array(lengths, np.int64), gap=0, read_size=4096, align=align)
    assert (plan.size, len(plan.offsets)) == (0, 0)
    assert plan.record_places.tolist() == [0] * len(lengths)


def test_widened_reads_that_touch_are_one_and_others_are_not_dragged_in() -> None:
    offsets, lengths = np.array([100, 1000, 9000]), np.array([100, 100, 300])
    plan = plan_reads(offsets, lengths, gap=0, read_size=4096, align=512)
    assert (plan.offsets.tolist(), plan.lengths.tolist()) == ([0, 8704], [1536, 1024])
    assert plan.record_places.tolist() == [100, 1000, 1536 + 9000 - 8704]


def test_a_cap_that_is_not_aligned_is_lowered_to_what_is() -> None:
    plan = plan_reads(np.array([0]), np.array([10_000]), gap=0, read_size=5000, align=4096)
    assert (plan.offsets.tolist(), plan.lengths.tolist()) == ([0, 4096, 8192], [4096, 4096, 4096])
    plan = plan_reads(np.array([0]), np.array([10_000]), gap=0, read_size=5000, align=8192)
    assert (plan.offsets.tolist(), plan.lengths.tolist()) == ([0, 8192], [8192, 8192])
