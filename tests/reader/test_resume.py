"""A state says where a reader stands at any moment; at any world and batch size the sequence goes on from there."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.comm import SingleProcess
from lmdbio.reader import ParallelReader
from lmdbio.reader.sequence import ORDERS, Order
from tests.reader.all_ranks import MORE, SIZES, N, Ranks, assert_goes_on, sequence_of
from tests.reader.made import make_datum_database, stock_values


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("resume") / "a.lmdb"
    make_datum_database(folder, SIZES)
    return folder


@pytest.fixture(scope="module")
def values(folder: Path) -> list[bytes]:
    return stock_values(folder)


@pytest.mark.parametrize("order", ORDERS)
def test_from_every_step_the_sequence_goes_on_at_other_sizes_twice_in_a_row_and_over_the_end(
    folder: Path, values: list[bytes], order: Order
) -> None:
    sequences = [sequence_of(folder, order, epoch) for epoch in range(3)]
    before = Ranks(folder, 2, 4, order=order)
    middle = Ranks(folder, 3, 2, order=order)
    after = Ranks(folder, 1, 5, order=order)
    states = [before.state()]
    before.set_epoch(0)
    states.append(before.state())
    epoch = before.begin()
    while before.step(epoch, values) is not None:
        states.append(before.state())
    states.append(before.state())  # after the end
    assert [state["position"] for state in states] == [0, *range(0, N, 8), N, N]
    for state in states:
        middle.load(state)
        assert middle.state() == state
        begun = middle.begin()
        position, at = state["position"], 0
        if position == N:
            position, at = 0, 1
        taken = [middle.step(begun, values) for _ in range(2)]
        left = sequences[at][position : position + 12]
        assert_goes_on([step for step in taken if step], left, sequences[at], middle)
        again = middle.state()
        assert (again["epoch"], again["position"]) == (at, position + len(left))
        after.load(again)
        if position + len(left) < N:
            assert_goes_on(after.epoch(values), sequences[at][position + 12 :], sequences[at], after)
            assert_goes_on(after.epoch(values), sequences[at + 1], sequences[at + 1], after)
        else:
            assert_goes_on(after.epoch(values), sequences[at + 1], sequences[at + 1], after)
    for ranks in (before, middle, after):
        ranks.close()


@given(
    st.sampled_from(ORDERS),
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 20), st.integers(0, 12)), min_size=2, max_size=5),
    st.booleans(),
)
def test_however_often_it_is_resumed_no_record_comes_twice_and_none_is_lost(
    folder: Path, values: list[bytes], order: Order, parts: list[tuple[int, int, int]], with_set_epoch: bool
) -> None:
    whole = sequence_of(folder, order, 0)
    state: dict[str, Any] | None = None
    position = 0
    for world_size, batch_size, n_steps in parts:
        ranks = Ranks(folder, world_size, batch_size, order=order)
        if state is not None:
            ranks.load(state)
        if with_set_epoch or position == N:
            ranks.set_epoch(0)
        epoch = ranks.begin()
        for _ in range(n_steps):
            step = ranks.step(epoch, values)
            wanted = whole[position : position + ranks.global_batch]
            assert step is None if not wanted else set(wanted) <= set(step or [])
            position += len(wanted)
        state = ranks.state()
        assert (state["epoch"], state["position"]) == (0, position)
        ranks.close()


def test_the_tail_that_is_dropped_is_not_missed_later(folder: Path, values: list[bytes]) -> None:
    ranks = Ranks(folder, 2, 5, drop_last=True, order="global")
    epoch = ranks.begin()
    for _ in range(N // 10):
        assert ranks.step(epoch, values) is not None
    assert ranks.state()["position"] == N // 10 * 10
    assert ranks.step(epoch, values) is None
    done = ranks.state()
    assert (done["epoch"], done["position"]) == (0, N)
    ranks.load(done)
    ranks.set_epoch(0)
    assert ranks.epoch(values) == []
    assert len(ranks.epoch(values)) == N // 10
    assert ranks.state()["epoch"] == 1
    ranks.close()


def test_resuming_reads_nothing_of_what_was_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ParallelReader(folder, batch_size=7, **MORE) as reader:
        batches = iter(reader)
        for _ in range(8):
            next(batches)
        state = reader.state_dict()
        index = reader.index
    reads: list[int] = []
    with ParallelReader(folder, batch_size=7, **MORE) as reader:
        assert reader._file is not None
        read_cached = type(reader._file).read_cached

        def recorded(file: Any, offset: int, buffer: memoryview) -> int | None:
            reads.append(offset)
            return read_cached(file, offset, buffer)

        monkeypatch.setattr(type(reader._file), "read_cached", recorded)
        reader.load_state_dict(state)
        assert reads == []
        left = sequence_of(folder, "sequential", 0)[56:]
        reads.clear()
        assert next(iter(reader)).indices.tolist() == left[:7]
        assert reads[0] >= int(index.offsets[left].min())  # what comes later may be of the next epoch


def test_streams_are_part_of_the_state_and_taken_from_it_unless_they_were_given(folder: Path) -> None:
    with ParallelReader(folder, batch_size=7, order="block", streams=5) as reader:
        wanted = [batch.indices.tolist() for batch in reader]
        reader.set_epoch(0)
        state = reader.state_dict()
    with ParallelReader(folder, batch_size=7, order="block") as reader:
        assert [batch.indices.tolist() for batch in reader] != wanted
        reader.load_state_dict(state)
        assert reader.state_dict() == state
        assert [batch.indices.tolist() for batch in reader] == wanted
    with (
        ParallelReader(folder, batch_size=7, order="block", streams=4) as reader,
        pytest.raises(ValueError, match="state: expected streams 4 as this reader has, found 5: make the reader with"),
    ):
        reader.load_state_dict(state)


def test_a_state_of_another_reader_is_refused_and_changes_nothing(folder: Path, tmp_path: Path) -> None:
    make_datum_database(tmp_path / "a.lmdb", SIZES[:-1])
    make_datum_database(tmp_path / "b.lmdb", SIZES, partition_size=128 << 10)

    def state(path: Path, **options: Any) -> dict[str, Any]:
        with ParallelReader(path, batch_size=9, **MORE | options) as reader:
            return reader.state_dict()

    others = [
        (state(tmp_path / "a.lmdb"), "expected one of this database"),
        (state(tmp_path / "b.lmdb"), "expected one of this database"),
        (state(folder, order="block"), "expected order 'sequential' as this reader has, found 'block'"),
        (state(folder, seed=6), "expected seed 5 as this reader has, found 6"),
        (state(folder, shuffle_window=2), "expected shuffle_window 1 as this reader has, found 2"),
        (state(folder) | {"layout": "0" * 32}, "expected layout order and partitions as in this index"),
        (state(folder) | {"position": N + 1}, f"expected a position of at most {N}, found {N + 1}"),
    ]
    with ParallelReader(folder, batch_size=9, **MORE) as reader:
        batches = iter(reader)
        next(batches)
        before = reader.state_dict()
        for other, message in others:
            with pytest.raises(ValueError, match=f"state: {message}"):
                reader.load_state_dict(other)
        assert reader.state_dict() == before
        assert next(batches).indices.tolist() == sequence_of(folder, "sequential", 0)[9:18]


class Disagreeing(SingleProcess):
    """Two ranks of which the other loads another epoch's state."""

    def Get_size(self) -> int:
        return 2

    def allgather(self, sendobj: Any) -> list[Any]:
        return [sendobj, sendobj | {"epoch": 9}] if isinstance(sendobj, dict) and "epoch" in sendobj else [sendobj] * 2


def test_states_that_differ_between_ranks_are_refused(folder: Path) -> None:
    with (
        ParallelReader(folder, comm=Disagreeing(), batch_size=9, on_error="raise") as reader,
        pytest.raises(ValueError, match="epoch: expected the same on every rank, found 0 on rank 0, 9 on rank 1"),
    ):
        reader.load_state_dict(reader.state_dict())


def test_numbers_of_numpy_become_ints(folder: Path) -> None:
    small = np.uint8(8)
    with ParallelReader(
        folder, batch_size=small, seed=np.int64(3), streams=small, shuffle_window=np.int32(2), world_size=64, rank=0
    ) as reader:
        reader.set_epoch(np.int64(1))
        assert json.loads(json.dumps(reader.state_dict())) == reader.state_dict()
        assert len(reader) == 1
        list(reader)
