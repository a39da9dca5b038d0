"""A state says where a reader stands at any moment; at any world and batch size the sequence goes on from there."""

import json
import logging
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.comm import SingleProcess
from lmdbio.reader import ParallelReader
from lmdbio.reader.epoch import EpochReader
from lmdbio.reader.sequence import ORDERS, Order, Sequence
from tests.reader.made import make_datum_database, stock_values

SIZES = [0, 1, 100, 3000, 5000, 20_000, 40_000] * 9
N = len(SIZES)
MORE: dict[str, Any] = {"streams": 3, "seed": 5, "shuffle_window": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("resume") / "a.lmdb"
    make_datum_database(folder, SIZES)
    return folder


@pytest.fixture(scope="module")
def values(folder: Path) -> list[bytes]:
    return stock_values(folder)


class Ranks:
    """Readers that stand for all ranks, in step, read one after the other."""

    def __init__(self, folder: Path, world_size: int, batch_size: int, **options: Any) -> None:
        self.readers = [
            ParallelReader(folder, rank=rank, world_size=world_size, batch_size=batch_size, **MORE | options)
            for rank in range(world_size)
        ]
        self.global_batch = world_size * batch_size

    def state(self) -> dict[str, Any]:
        """Return the state, which all must give alike and through JSON."""
        texts = {json.dumps(reader.state_dict()) for reader in self.readers}
        assert len(texts) == 1
        text = texts.pop()
        assert len(text) < 1024
        return json.loads(text)

    def load(self, state: dict[str, Any]) -> None:
        for reader in self.readers:
            reader.load_state_dict(state)

    def set_epoch(self, epoch: int) -> None:
        for reader in self.readers:
            reader.set_epoch(epoch)

    def begin(self) -> list[EpochReader]:
        return [iter(reader) for reader in self.readers]

    def step(self, epoch: list[EpochReader], values: list[bytes]) -> list[int] | None:
        """Return the records of a step, of all ranks, checked; None at the end."""
        batches = [next(rank, None) for rank in epoch]
        if batches[0] is None:
            assert batches == [None] * len(batches)
            return None
        numbers: list[int] = []
        for batch in batches:
            assert batch is not None
            assert [bytes(value) for value in batch.values] == [values[number] for number in batch.indices.tolist()]
            numbers += batch.indices.tolist()
        assert len({len(batch) for batch in batches if batch}) == 1
        return numbers

    def epoch(self, values: list[bytes]) -> list[list[int]]:
        """Return the records of each step of the next iteration."""
        steps, epoch = [], self.begin()
        while (step := self.step(epoch, values)) is not None:
            steps.append(step)
        return steps

    def close(self) -> None:
        for reader in self.readers:
            reader.close()


def sequence_of(folder: Path, order: Order, epoch: int) -> list[int]:
    with ParallelReader(folder, batch_size=1) as reader:
        index = reader.index
    sequence = Sequence(N, index.layout_order, index.partitions, order=order, epoch=epoch, **MORE)
    return sequence.records(np.arange(N)).tolist()


def assert_goes_on(steps: list[list[int]], wanted: list[int], first: list[int], ranks: Ranks) -> None:
    """Check that the steps are the wanted records in order, step by step, padded with the epoch's first."""
    size, world_size = ranks.global_batch, len(ranks.readers)
    assert len(steps) == -(-len(wanted) // size)
    for number, step in enumerate(steps):
        records = wanted[number * size : (number + 1) * size]
        assert sorted(step) == sorted(records + (first * world_size)[: -len(records) % world_size])


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


def test_set_epoch_keeps_the_position_of_the_epoch_that_was_loaded_alone(folder: Path, values: list[bytes]) -> None:
    ranks = Ranks(folder, 1, 10, order="global")
    ranks.set_epoch(3)
    epoch = ranks.begin()
    ranks.step(epoch, values)
    state = ranks.state()
    assert (state["epoch"], state["position"]) == (3, 10)
    ranks.load(state)
    ranks.set_epoch(3)
    assert ranks.state() == state
    assert len(ranks.epoch(values)) == (N - 10 + 9) // 10
    ranks.set_epoch(3)
    assert len(ranks.epoch(values)) == (N + 9) // 10
    ranks.load(state)
    ranks.set_epoch(4)
    ranks.set_epoch(3)
    assert ranks.state()["position"] == 0
    ranks.load(state)
    ranks.set_epoch(2)
    assert len(ranks.epoch(values)) == (N + 9) // 10
    assert ranks.readers[0].epoch == 2
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


def test_an_epoch_that_follows_by_itself_is_warned_of_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    def said() -> int:
        return sum("call set_epoch()" in record.getMessage() for record in caplog.records)

    caplog.set_level(logging.WARNING, logger="lmdbio.reader")
    with ParallelReader(folder, batch_size=40, order="global") as reader:
        for epoch in range(3):
            reader.set_epoch(epoch)
            list(reader)
        assert said() == 0
        orders = [[number for batch in reader for number in batch.indices.tolist()] for _ in range(3)]
        assert said() == 1
        assert reader.epoch == 5
        assert len({tuple(order) for order in orders}) == 3
        state = reader.state_dict()
    with ParallelReader(folder, batch_size=40, order="global") as reader:
        reader.load_state_dict(state)
        list(reader)
        assert said() == 1
        assert reader.epoch == 6


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("is_cold", [False, True])
def test_the_next_epoch_is_taken_over_where_it_follows_and_read_anew_where_another_does(
    folder: Path, values: list[bytes], order: Order, is_cold: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_cold:
        monkeypatch.setattr("lmdbio.reader.fetch.RecordFile.read_cached", lambda self, offset, buffer: 0)
    ranks = Ranks(folder, 1, 8, order=order)
    loaders = []
    for number in [0, 1, 2, 5, 6, 6, 0, 1]:
        ranks.set_epoch(number)
        epoch = ranks.begin()
        loaders.append(epoch[0]._loader)
        steps = []
        while (step := ranks.step(epoch, values)) is not None:
            steps.append(step)
        wanted = sequence_of(folder, order, number)
        assert_goes_on(steps, wanted, wanted, ranks)
    same = [left is right for left, right in pairwise(loaders)]
    assert same == [True, True, False, True, False, False, True]
    ranks.close()


def test_an_epoch_that_is_left_early_is_not_gone_on_with(folder: Path, values: list[bytes]) -> None:
    ranks = Ranks(folder, 1, 8, order="global")
    left = ranks.begin()
    ranks.step(left, values)
    wanted = sequence_of(folder, "global", 1)
    assert_goes_on(ranks.epoch(values), wanted, wanted, ranks)
    ranks.close()


def test_a_state_taken_while_an_epoch_cannot_begin_is_the_one_before(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n_taken in (2, 10):
        with ParallelReader(folder, batch_size=10, order="global") as reader:
            batches = iter(reader)
            for _ in range(n_taken):
                next(batches, None)
            before = reader.state_dict()
            reader.set_epoch(4)
            chosen = reader.state_dict()
            with monkeypatch.context() as patch:
                patch.setattr("lmdbio.reader.parallel.make_prefetcher", lambda *_, **__: 1 // 0)
                with pytest.raises(ZeroDivisionError):
                    iter(reader)
            assert reader.state_dict() == chosen
            list(reader)
            assert reader.epoch == 4
            reader.load_state_dict(before)
            with monkeypatch.context() as patch:
                patch.setattr("lmdbio.reader.parallel.make_prefetcher", lambda *_, **__: 1 // 0)
                for _ in range(2):
                    with pytest.raises(ZeroDivisionError):
                        iter(reader)
            assert reader.state_dict() == before


def test_what_was_read_ahead_with_other_streams_is_not_taken_over(folder: Path, values: list[bytes]) -> None:
    with ParallelReader(folder, batch_size=7, order="block", streams=5, seed=5) as reader:
        reader.set_epoch(1)
        state = reader.state_dict()
        wanted = [batch.indices.tolist() for batch in reader]
    for loaded in (state, state | {"epoch": 0, "position": N}):
        with ParallelReader(folder, batch_size=7, order="block", seed=5) as reader:
            list(reader)  # epoch 1 is read ahead with 8 streams
            reader.load_state_dict(loaded)
            assert [batch.indices.tolist() for batch in reader] == wanted
            assert reader.state_dict()["streams"] == 5


def test_numbers_of_numpy_become_ints(folder: Path) -> None:
    small = np.uint8(8)
    with ParallelReader(
        folder, batch_size=small, seed=np.int64(3), streams=small, shuffle_window=np.int32(2), world_size=64, rank=0
    ) as reader:
        reader.set_epoch(np.int64(1))
        assert json.loads(json.dumps(reader.state_dict())) == reader.state_dict()
        assert len(reader) == 1
        list(reader)


def test_a_state_after_the_last_whole_step_leads_to_the_next_epoch(folder: Path, values: list[bytes]) -> None:
    ranks = Ranks(folder, 1, 10, drop_last=True)
    epoch = ranks.begin()
    for _ in range(N // 10):
        ranks.step(epoch, values)
    state = ranks.state()
    assert (state["epoch"], state["position"]) == (0, N // 10 * 10)
    ranks.load(state)
    assert len(ranks.epoch(values)) == N // 10
    assert ranks.readers[0].epoch == 1
    ranks.load(state)
    ranks.set_epoch(0)
    assert ranks.epoch(values) == []
    ranks.close()


def test_an_iterator_that_has_ended_stays_so(folder: Path) -> None:
    with ParallelReader(folder, batch_size=30) as reader:
        first = iter(reader)
        assert len(list(first)) == 3
        assert list(first) == []
        next(iter(reader))
        assert list(first) == []
    assert list(first) == []
