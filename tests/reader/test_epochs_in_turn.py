"""Which epoch comes after which, from where, and what was read ahead for it."""

import logging
from itertools import pairwise
from pathlib import Path

import pytest

from lmdbio.reader import ParallelReader
from lmdbio.reader.sequence import ORDERS, Order
from tests.reader.all_ranks import SIZES, N, Ranks, assert_goes_on, sequence_of
from tests.reader.made import make_datum_database, stock_values


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("resume") / "a.lmdb"
    make_datum_database(folder, SIZES)
    return folder


@pytest.fixture(scope="module")
def values(folder: Path) -> list[bytes]:
    return stock_values(folder)


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
