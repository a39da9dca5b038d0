"""After an error an epoch is over: nothing half-read is handed out; the reader goes on with the next."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lmdbio.errors import ReadError
from lmdbio.reader import ParallelReader, ReadOptions, epoch, fetch, unit
from lmdbio.reader.sequence import ORDERS, Order
from tests.reader.made import make_datum_database, stock_values

SIZES = [3000, 100, 20_000, 7] * 50


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("epoch") / "a.lmdb"
    make_datum_database(folder, SIZES)
    return folder


@pytest.fixture(scope="module")
def values(folder: Path) -> list[bytes]:
    return stock_values(folder)


class Trouble:
    """Makes the main thread's n-th call of a function raise, once."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.calls_before = -1

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            if threading.current_thread() is threading.main_thread():
                self.calls_before -= 1
                if self.calls_before == -1:
                    raise self.error
            return function(*args, **kwargs)

        return called


PLACES = {
    "a read that waits": (fetch.RecordFile, "read_into"),
    "a read from memory": (fetch.RecordFile, "read_cached"),
    "planning": (unit.UnitPlanner, "_extents"),
    "gathering": (epoch, "copy_ranges"),
}


# In the other orders a batch is a view of one unit: nothing is gathered.
CASES = [(place, order) for place in PLACES for order in ORDERS if place != "gathering" or order == "block"]


@pytest.mark.parametrize(("place", "order"), CASES)
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("lost"), MemoryError()])
def test_after_any_error_the_epoch_is_over_and_the_next_begins_properly(
    folder: Path, values: list[bytes], monkeypatch: pytest.MonkeyPatch, place: str, order: Order, error: BaseException
) -> None:
    trouble = Trouble(error)
    owner, name = PLACES[place]
    if place != "a read from memory":
        monkeypatch.setattr(fetch.RecordFile, "read_cached", lambda self, offset, buffer: 0)
    monkeypatch.setattr(owner, name, trouble.wrap(getattr(owner, name)))
    # One read in flight at most, so that the consumer has to read, too; small units, so that there are many.
    options = ReadOptions(coalesce=30_000, read_size=4096, depth=1)
    with ParallelReader(folder, batch_size=7, order=order, prefetch_bytes=10_000_000, options=options) as reader:
        batches = iter(reader)
        good = [next(batches)] if place != "planning" else []
        trouble.calls_before = 0
        caught = None
        while caught is None:
            try:
                good.append(next(batches))
            except type(error) as exc:
                caught = exc
        assert caught is error
        for _ in range(3):
            with pytest.raises(RuntimeError, match=f"found it closed: {type(error).__name__} has ended it"):
                next(batches)
        again = list(reader)
        assert len(again) == len(reader)
        for batch in good + again:
            for number, value in zip(batch.indices.tolist(), batch.values, strict=True):
                assert value == values[number]


def test_a_unit_that_could_not_be_read_never_counts_as_whole(
    folder: Path, values: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = fetch.RecordFile.read_into
    is_broken = [False]  # the fingerprint is read before
    middle = os.stat(folder / "data.mdb").st_size // 2

    def read_into(self: fetch.RecordFile, offset: int, buffer: memoryview) -> None:
        if is_broken[0] and offset > middle:
            raise ReadError(self.path, offset, buffer.nbytes, "EIO: Input/output error")
        whole(self, offset, buffer)

    monkeypatch.setattr(fetch.RecordFile, "read_cached", lambda self, offset, buffer: 0)
    monkeypatch.setattr(fetch.RecordFile, "read_into", read_into)
    with ParallelReader(folder, batch_size=5, options=ReadOptions(coalesce=1)) as reader:
        n_errors = n_read = 0
        is_broken[0] = True
        for attempt in _attempts(iter(reader)):
            if isinstance(attempt, Exception):
                n_errors += 1
                is_broken[0] = False
                assert isinstance(attempt, ReadError if n_errors == 1 else RuntimeError)
                if n_errors == 5:
                    break
                continue
            n_read += 1
            for number, value in zip(attempt.indices.tolist(), attempt.values, strict=True):
                assert value == values[number]
        assert (n_errors, n_read < len(reader)) == (5, True)


def _attempts(batches: Iterator[Any]) -> Iterator[Any]:
    while True:
        try:
            yield next(batches)
        except StopIteration:
            return
        except Exception as exc:  # noqa: BLE001  # a loop that skips what fails
            yield exc


def test_closing_from_another_thread_ends_the_epoch_with_the_error_that_says_so(
    folder: Path, values: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = fetch.RecordFile.read_into
    is_reading, may_go_on = threading.Event(), threading.Event()

    def read_into(self: fetch.RecordFile, offset: int, buffer: memoryview) -> None:
        if threading.current_thread().name == "consumer":
            is_reading.set()
            may_go_on.wait(10)
        whole(self, offset, buffer)

    monkeypatch.setattr(fetch.RecordFile, "read_cached", lambda self, offset, buffer: 0)
    monkeypatch.setattr(fetch.RecordFile, "read_into", read_into)
    for order in ORDERS:
        is_reading.clear()
        may_go_on.clear()
        reader = ParallelReader(folder, batch_size=7, order=order, on_error="raise")
        ended: list[BaseException] = []

        def consume(reader: ParallelReader = reader, ended: list[BaseException] = ended) -> None:
            try:
                list(reader)
            except BaseException as exc:  # noqa: BLE001  # whatever it is, it is what is tested
                ended.append(exc)

        consumer = threading.Thread(target=consume, name="consumer")
        consumer.start()
        assert is_reading.wait(10)
        reader.close()
        may_go_on.set()
        consumer.join(10)
        assert not consumer.is_alive()
        assert [type(error) for error in ended] == [RuntimeError]
        assert "found it closed: another was begun, or the reader was closed" in str(ended[0])
