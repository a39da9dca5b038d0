"""What decode= makes of each record comes with its batch, ahead of need; its errors say which record."""

import gc
import hashlib
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.comm import SingleProcess
from lmdbio.errors import ReadError
from lmdbio.reader import ParallelReader, ReadOptions
from lmdbio.reader.sequence import ORDERS, Order
from tests.reader.faults import Faults
from tests.reader.made import make_datum_database

SIZES = [0, 1, 100, 3000, 5000] * 30
N = len(SIZES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("decode") / "a.lmdb"
    make_datum_database(folder, SIZES)
    return folder


def digest(data: memoryview) -> bytes:
    return hashlib.sha256(data).digest()


@given(st.sampled_from(ORDERS), st.integers(1, 80), st.integers(1, 3), st.integers(1, 5), st.booleans())
def test_each_record_is_decoded_once_and_stands_in_its_place(
    folder: Path, order: Order, batch_size: int, world_size: int, n_threads: int, drop_last: bool
) -> None:
    for rank in range(world_size):
        calls = []

        def decode(data: memoryview, calls: list[int] = calls) -> tuple[int, bytes]:
            calls.append(data.nbytes)
            return data.nbytes, digest(data)

        with ParallelReader(
            folder,
            rank=rank,
            world_size=world_size,
            batch_size=batch_size,
            order=order,
            drop_last=drop_last,
            decode=decode,
            decode_threads=n_threads,
        ) as reader:
            n = 0
            for batch in reader:
                assert batch.decoded == [(data.nbytes, digest(data)) for data in batch.data]
                assert batch.copy().decoded == batch.decoded
                n += len(batch)
            assert len(calls) == n
            reader.set_epoch(1)
            assert len(list(reader)) == len(reader)


def test_batches_are_decoded_ahead_in_threads(folder: Path) -> None:
    threads = set()

    def slow(data: memoryview) -> None:
        threads.add(threading.current_thread().name)
        time.sleep(0.002)

    with ParallelReader(folder, batch_size=10, decode=slow, decode_threads=4) as reader:
        batches = iter(reader)
        next(batches)
        time.sleep(0.1)  # two more are done meanwhile
        begun = reader.stats.decode_s
        next(batches)
        next(batches)
        assert reader.stats.decode_s - begun < 0.005
        assert len(threads) == 4
        assert all(name.startswith("lmdbio-decode") for name in threads)
    assert not any(thread.name.startswith("lmdbio-decode") for thread in threading.enumerate())


def test_a_state_counts_what_was_handed_out(folder: Path) -> None:
    with ParallelReader(folder, batch_size=10, order="global", decode=digest) as reader:
        wanted = [(batch.indices.tolist(), batch.decoded) for batch in reader]
        assert reader.state_dict()["position"] == N
        reader.set_epoch(0)
        batches = iter(reader)
        for step in range(len(reader)):
            assert reader.state_dict()["position"] == 10 * step
            next(batches)
        reader.set_epoch(0)
        batches = iter(reader)
        for _ in range(4):
            next(batches)
        state = reader.state_dict()
    with ParallelReader(folder, batch_size=10, order="global", decode=digest) as reader:
        reader.load_state_dict(state)
        assert [(batch.indices.tolist(), batch.decoded) for batch in reader] == wanted[4:]


def test_an_error_of_decoding_names_the_record_and_comes_with_its_batch(folder: Path) -> None:
    def decode(data: memoryview) -> int:
        if bytes(data) == wanted:
            raise ValueError("no image")
        return 0

    with ParallelReader(folder, batch_size=10) as reader:
        batches = list(reader)
        wanted = bytes(batches[5].data[3])
        key = batches[5].keys[3]
    with ParallelReader(folder, batch_size=10, decode=decode) as reader:
        batches = iter(reader)
        for _ in range(5):
            assert next(batches).decoded == [0] * 10
        with pytest.raises(ValueError, match="no image") as caught:
            next(batches)
        assert caught.value.__notes__ == [f"lmdbio: decode= was given record {53}, key {key!r}"]
        with pytest.raises(RuntimeError, match="found it closed"):
            next(batches)
        reader.set_epoch(1)
        assert len(next(iter(reader)).decoded) == 10


def test_an_error_of_reading_comes_after_the_batches_before_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmdbio.reader.fetch.RecordFile.read_cached", lambda self, offset, buffer: 0)
    options = ReadOptions(coalesce=1, retries=0, read_size=4096)
    with ParallelReader(folder, batch_size=5, decode=digest, options=options, prefetch_bytes=1) as reader:
        batches = iter(reader)
        next(batches)
        with Faults(1, failing=1.0):
            n = 1
            with pytest.raises(ReadError, match=r"EIO|ESTALE|ETIMEDOUT"):
                while True:
                    assert next(batches).decoded
                    n += 1
        assert 3 <= n < len(reader)


def test_leaving_early_lets_go_of_what_is_being_decoded(folder: Path) -> None:
    def slow(data: memoryview) -> None:
        time.sleep(0.01)

    reader = ParallelReader(folder, batch_size=50, decode=slow, decode_threads=1)
    next(iter(reader))
    begun = time.monotonic()
    reader.close()
    assert time.monotonic() - begun < 1
    del reader
    gc.collect()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"decode": 3}, TypeError("decode: expected a function, found int")),
        ({"decode": digest, "decode_threads": 0}, ValueError("decode_threads: expected 1 or more, found 0")),
    ],
)
def test_bad_arguments_are_named(folder: Path, options: dict[str, Any], error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)):
        ParallelReader(folder, batch_size=1, **options)


def test_without_the_hook_there_is_nothing_decoded(folder: Path) -> None:
    with (
        ParallelReader(folder, batch_size=1) as reader,
        pytest.raises(ValueError, match="expected a batch of a reader"),
    ):
        _ = next(iter(reader)).decoded


@pytest.mark.parametrize("at", ["begin", "result"])
def test_an_interrupt_ends_the_epoch_rather_than_lose_a_batch(
    folder: Path, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ParallelReader(folder, batch_size=10, decode=digest) as reader:
        batches = iter(reader)
        next(batches)
        with monkeypatch.context() as patch:

            def interrupt(*_: object) -> None:
                raise KeyboardInterrupt

            target = "lmdbio.reader.decode.Decoder.begin" if at == "begin" else "concurrent.futures.Future.result"
            patch.setattr(target, interrupt)
            with pytest.raises(KeyboardInterrupt):
                next(batches)
        assert reader.state_dict()["position"] == 10
        with pytest.raises(RuntimeError, match="KeyboardInterrupt has ended it"):
            next(batches)
        state = reader.state_dict()
        reader.load_state_dict(state)
        left = [number for batch in reader for number in batch.indices.tolist()]
        assert len(left) == N - 10


def test_stop_iteration_of_a_decoder_is_no_end_of_the_epoch(folder: Path) -> None:
    with ParallelReader(folder, batch_size=10, decode=lambda data: next(iter(()))) as reader:
        with pytest.raises(RuntimeError, match="decode: raised StopIteration") as caught:
            list(reader)
        assert "was given record" in caught.value.__notes__[0]


def test_only_what_was_handed_out_is_counted(folder: Path) -> None:
    with ParallelReader(folder, batch_size=10, decode=digest) as reader:
        batches = iter(reader)
        for step in range(1, 4):
            next(batches)
            assert (reader.stats.batches, reader.stats.records) == (step, 10 * step)
        assert reader.stats.next_s >= reader.stats.decode_s


class Aborting(SingleProcess):
    """One of two ranks, whose abort is an exception; it says what was told before."""

    def Get_size(self) -> int:
        return 2

    def allgather(self, sendobj: Any) -> list[Any]:
        return [sendobj] * 2

    def Abort(self, errorcode: int = 0) -> NoReturn:
        raise SystemExit(errorcode)


def test_errors_are_told_once_when_their_batch_is_due(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls = 0

    def decode(data: memoryview) -> None:
        nonlocal calls
        calls += 1
        if calls > 12:
            raise ValueError("no image")

    n = 0
    with (
        pytest.raises(SystemExit),
        ParallelReader(folder, comm=Aborting(), batch_size=10, decode=decode, decode_threads=1) as reader,
    ):
        for _ in reader:
            n += 1
            assert capsys.readouterr().err == ""
    assert n == 1
    said = capsys.readouterr().err
    assert said.count("lmdbio: rank 0: ") == 1
    assert "no image" in said
