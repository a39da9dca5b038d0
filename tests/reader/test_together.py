"""Units are as many on all ranks, first needed at the same steps, with each element once; rounds are whole groups."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.layout import Index, build_index
from lmdbio.layout.writer import write_database
from lmdbio.reader.options import ReadOptions
from lmdbio.reader.sequence import ORDERS, Order, Sequence, Steps
from lmdbio.reader.space import Space
from lmdbio.reader.together import TogetherPlanner, options_together, plan_rounds
from lmdbio.reader.unit import Unit

N = 300


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    rng = np.random.default_rng(0)
    records = [(b"%08d" % number, rng.bytes(int(rng.integers(0, 9000)))) for number in range(N)]
    path = tmp_path_factory.mktemp("together") / "a.mdb"
    write_database(path, records, align=4096, partition_size=64 << 10)
    return build_index(path, partition_size=64 << 10)


def sequence_of(index: Index, order: Order, streams: int) -> Sequence:
    return Sequence(
        N, index.layout_order, index.partitions, order=order, seed=3, epoch=1, streams=streams, shuffle_window=2
    )


def units_of(
    index: Index,
    sequence: Sequence,
    steps: Steps,
    *,
    order: Order,
    batch_size: int,
    rank: int,
    world_size: int,
    **rounds,
) -> list[Unit]:
    planner = TogetherPlanner(
        index,
        sequence,
        steps,
        rank=rank,
        world_size=world_size,
        batch_size=batch_size,
        space=Space.of(["a.mdb"], [1 << 30]),
        options=options_together(
            ReadOptions(coalesce=100_000), page_size=4096, record_size=4500, prefetch_bytes=90_000
        ),
        align=1,
        record_size=4500,
        group_span=2 * int(np.diff(index.partitions).max()) if order == "block" else None,
    )
    return list(planner.units_together(**rounds))


@given(
    st.sampled_from(ORDERS),
    st.integers(1, 110),
    st.integers(1, 4),
    st.integers(1, 9),
    st.booleans(),
    st.sampled_from([64, 500, 1 << 14]),
    st.sampled_from([1, 90, N]),
    st.just(0) | st.integers(0, N),
)
def test_units_of_all_ranks_are_in_step_and_hold_every_element_once(
    index: Index,
    order: Order,
    batch_size: int,
    world_size: int,
    streams: int,
    drop_last: bool,
    scan: int,
    round_records: int,
    start: int,
) -> None:
    sequence = sequence_of(index, order, streams)
    steps = Steps(
        N, streams=sequence.streams, world_size=world_size, batch_size=batch_size, drop_last=drop_last, start=start
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmdbio.reader.unit._SCAN_SIZE", scan)
        ranks = [
            units_of(
                index,
                sequence,
                steps,
                order=order,
                batch_size=batch_size,
                rank=rank,
                world_size=world_size,
                round_records=round_records,
            )
            for rank in range(world_size)
        ]
    needs = [[unit.first_step for unit in units] for units in ranks]
    assert needs == [sorted(needs[0])] * world_size
    for rank, units in enumerate(ranks):
        held: list[dict[int, int]] = [{} for _ in range(steps.n_steps)]
        for unit in units:
            assert unit.bounds[-1] == len(unit.records)
            assert unit.last_step < steps.n_steps
            for step in range(unit.first_step, unit.last_step + 1):
                taken = unit.elements(step)
                slots = unit.slots[taken].tolist()
                assert slots == sorted(slots)
                assert not held[step].keys() & set(slots)
                held[step].update(zip(slots, unit.records[taken].tolist(), strict=True))
        for step, records in enumerate(held):
            wanted = sequence.records(steps.positions(step, rank)).tolist()
            assert [records[slot] for slot in range(len(records))] == wanted


@pytest.mark.parametrize(("batch_size", "world_size"), [(8, 2), (7, 3)])
def test_all_ranks_together_read_whole_groups_once(index: Index, batch_size: int, world_size: int) -> None:
    sequence = sequence_of(index, "block", 4)
    steps = Steps(N, streams=4, world_size=world_size, batch_size=batch_size, drop_last=False)
    firsts, lasts = sequence.group_positions()
    ranks = [
        units_of(
            index,
            sequence,
            steps,
            order="block",
            batch_size=batch_size,
            rank=rank,
            world_size=world_size,
            round_records=1,  # so that each round is one group
        )
        for rank in range(world_size)
    ]
    read = [Counter(number for unit in units for number in unit.records.tolist()) for units in zip(*ranks, strict=True)]
    groups = [
        Counter(sequence.records(np.arange(first, last + 1, 4)).tolist())
        for first, last in sorted(zip(firsts.tolist(), lasts.tolist(), strict=True))
    ]
    assert read[: len(groups)] == groups
    padding = sum(read[len(groups) :], Counter())
    assert padding.total() == -N % world_size


@given(st.integers(1, 9), st.integers(1, 40), st.integers(0, 400))
def test_rounds_are_consecutive_groups_up_to_the_size(index: Index, streams: int, scale: int, n_positions: int) -> None:
    firsts, lasts = sequence_of(index, "block", streams).group_positions()
    round_records = 10 * scale
    rounds = plan_rounds(firsts, lasts, streams=streams, n_positions=min(N, n_positions), round_records=round_records)
    sizes = (lasts - firsts) // streams + 1
    assert int(sizes.sum()) == N
    is_read = firsts < n_positions
    assert (rounds.round_of[~is_read] == len(rounds)).all()
    by_need = np.argsort(firsts)
    assert (np.diff(rounds.round_of[by_need]) >= 0).all()
    for number in range(len(rounds)):
        members = np.flatnonzero(rounds.round_of == number)
        assert len(members) == 1 or sizes[members].sum() <= round_records
        assert rounds.firsts[number] == firsts[members].min()
        assert rounds.lasts[number] == min(lasts[members].max(), min(N, n_positions) - 1)


def test_the_other_orders_have_no_groups(index: Index) -> None:
    for order in ("sequential", "global"):
        assert [len(part) for part in sequence_of(index, order, 4).group_positions()] == [0, 0]
