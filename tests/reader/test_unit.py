"""Units cover every element of a rank's epoch once, in order of first need, and keep whole groups together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.errors import ReadError
from lmdbio.layout import Index, build_index
from lmdbio.layout.writer import write_database
from lmdbio.reader.options import ReadOptions
from lmdbio.reader.sequence import ORDERS, Order, Sequence, Steps
from lmdbio.reader.space import Space
from lmdbio.reader.unit import Unit, UnitPlanner, check_extents

N = 700


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    rng = np.random.default_rng(0)
    records = [(b"%08d" % number, rng.bytes(int(rng.integers(0, 9000)))) for number in range(N)]
    path = tmp_path_factory.mktemp("unit") / "a.mdb"
    write_database(path, records, align=4096, partition_size=64 << 10)
    return build_index(path, partition_size=64 << 10)


def plan(
    index: Index,
    *,
    order: Order,
    batch_size: int,
    rank: int,
    world_size: int,
    streams: int,
    drop_last: bool,
    n_cached: int = 0,
    align: int = 1,
    start: int = 0,
) -> tuple[list[Unit], Sequence, Steps]:
    bounds = index.partitions
    sequence = Sequence(N, index.layout_order, bounds, order=order, seed=3, epoch=1, streams=streams, shuffle_window=2)
    steps = Steps(
        N, streams=sequence.streams, world_size=world_size, batch_size=batch_size, drop_last=drop_last, start=start
    )
    planner = UnitPlanner(
        index,
        sequence,
        steps,
        rank=rank,
        world_size=world_size,
        batch_size=batch_size,
        space=Space.of(["a.mdb"], [1 << 30]),
        options=ReadOptions(coalesce=100_000),
        align=align,
        record_size=4500,
        group_span=2 * int(np.diff(bounds).max()) if order == "block" else None,
    )
    units: list[Unit] = []
    if not n_cached:
        planner.expect_waits()
    for unit in planner.units():
        units.append(unit)
        if len(units) == n_cached:
            planner.expect_waits()
    return units, sequence, steps


@given(
    st.sampled_from(ORDERS),
    st.integers(1, 90),
    st.integers(1, 5),
    st.integers(1, 9),
    st.booleans(),
    st.sampled_from([64, 500, 1 << 14]),
    st.integers(0, 9),
    st.sampled_from([1, 512, 4096]),
    st.just(0) | st.integers(0, N),
    st.data(),
)
def test_units_hold_every_element_of_every_step_once(
    index: Index,
    order: Order,
    batch_size: int,
    world_size: int,
    streams: int,
    drop_last: bool,
    scan: int,
    n_cached: int,
    align: int,
    start: int,
    data,
) -> None:
    rank = data.draw(st.integers(0, world_size - 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmdbio.reader.unit._SCAN_SIZE", scan)
        units, sequence, steps = plan(
            index,
            order=order,
            batch_size=batch_size,
            rank=rank,
            world_size=world_size,
            streams=streams,
            drop_last=drop_last,
            n_cached=n_cached,
            align=align,
            start=start,
        )
    needs = [unit.first_step for unit in units]
    assert needs == sorted(needs)
    held: list[dict[int, int]] = [{} for _ in range(steps.n_steps)]
    for unit in units:
        assert unit.bounds[1] > 0
        assert unit.bounds[-1] == len(unit.records) > unit.bounds[-2]
        for step in range(unit.first_step, unit.last_step + 1):
            taken = unit.elements(step)
            slots = unit.slots[taken].tolist()
            assert slots == sorted(slots)
            assert not held[step].keys() & set(slots)
            held[step].update(zip(slots, unit.records[taken].tolist(), strict=True))
        for numbers in (unit.plan.offsets, unit.plan.lengths, unit.plan.places):
            assert not (numbers % align).any()
        assert unit.offsets.tolist() == index.offsets[unit.records].tolist()
        has_bytes = unit.plan.record_lengths > 0  # each element that has any has its own
        starts = unit.plan.record_places[has_bytes]
        ends = starts + unit.plan.record_lengths[has_bytes]
        assert (np.sort(starts)[1:] >= np.sort(ends)[:-1]).all()
    for step, records in enumerate(held):
        wanted = sequence.records(steps.positions(step, rank)).tolist()
        assert [records[slot] for slot in range(len(records))] == wanted


def test_units_of_sequential_order_are_runs_of_steps_of_about_the_wanted_size(index: Index) -> None:
    units, _, steps = plan(index, order="sequential", batch_size=3, rank=0, world_size=1, streams=1, drop_last=False)
    assert {len(unit.bounds) - 1 for unit in units[:-1]} == {100_000 // 4500 // 3}
    assert sum(len(unit.bounds) - 1 for unit in units) == steps.n_steps
    assert max(unit.plan.size for unit in units) < 200_000


def test_a_step_larger_than_wanted_is_a_unit_of_its_own(index: Index) -> None:
    units, _, steps = plan(index, order="global", batch_size=100, rank=0, world_size=1, streams=1, drop_last=False)
    assert len(units) == steps.n_steps


def test_a_unit_of_block_order_is_a_whole_group(index: Index) -> None:
    units, sequence, steps = plan(index, order="block", batch_size=10, rank=0, world_size=1, streams=4, drop_last=True)
    n_groups = len(set(sequence.units(np.arange(steps.n_steps * 10)).tolist()))
    assert len(units) == n_groups


@pytest.mark.parametrize(
    ("offset", "length"), [(0, 101), (100, 1), (101, 0), (2**63, 1), (2**64 - 1, 2), (0, -1), (50, 2**62)]
)
def test_an_extent_beyond_the_file_is_refused_by_key(offset: int, length: int) -> None:
    offsets, lengths = np.array([0, offset], np.uint64), np.array([100, length])
    with pytest.raises(ReadError, match=r"x.mdb: key b'1'.*found a file of 100 bytes") as caught:
        check_extents(offsets, lengths, space=Space.of(["x.mdb"], [100]), key_of=lambda place: b"%d" % place)
    assert (caught.value.offset, caught.value.length) == (offset, length)


def test_extents_up_to_the_end_are_fine() -> None:
    check_extents(
        np.array([0, 100], np.uint64),
        np.array([100, 0]),
        space=Space.of(["x"], [100]),
        key_of=lambda place: b"%d" % place,
    )


def test_what_is_in_memory_is_read_in_runs_of_steps_in_block_order_too(index: Index) -> None:
    options = {"order": "block", "batch_size": 10, "rank": 0, "world_size": 1, "streams": 4, "drop_last": True}
    units, _, steps = plan(index, **options, n_cached=1 << 30)
    assert {len(unit.bounds) - 1 for unit in units[:-1]} == {100_000 // 4500 // 10}
    assert units[-1].last_step == steps.n_steps - 1
    units, _, _ = plan(index, **options, n_cached=3)
    assert {len(unit.bounds) - 1 for unit in units[:3]} == {100_000 // 4500 // 10}
    assert max(len(unit.bounds) - 1 for unit in units[3:]) > 5
