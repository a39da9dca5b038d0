"""Short reads, errors that pass and that stay, delays: right bytes, or the right exception; never wrong bytes."""

import errno
import logging
import os
import threading
from pathlib import Path

import pytest

from lmdbio.errors import ReadError
from lmdbio.reader import Dataset, ParallelReader, ReadOptions, fetch
from lmdbio.reader.direct import open_records
from lmdbio.reader.sequence import ORDERS, Order
from tests.reader.direct_reads import skip_unless_direct
from tests.reader.faults import Faults
from tests.reader.made import make_datum_database, stock_values

SIZES = [0, 1, 100, 3000, 5000, 20_000, 40_000] * 20
N = len(SIZES)
N_FAULTS = int(os.environ.get("LMDBIO_TEST_FAULTS", "200"))
"""Faults that each case injects at least."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faults") / "a.lmdb"
    make_datum_database(folder, SIZES)
    return folder


@pytest.fixture(scope="module")
def values(folder: Path) -> list[bytes]:
    return stock_values(folder)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "_FIRST_PAUSE_S", 0.0)


def options(*, direct: bool, retries: int) -> ReadOptions:
    return ReadOptions(direct=direct, retries=retries, coalesce=60_000, read_size=8192, depth=4)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("direct", [False, True])
def test_what_passes_is_not_seen_but_counted(folder: Path, values: list[bytes], order: Order, direct: bool) -> None:
    if direct:
        skip_unless_direct(folder.parent)
    with (
        ParallelReader(
            folder, batch_size=9, order=order, streams=3, options=options(direct=direct, retries=1000)
        ) as reader,
        Faults(1, short=0.3, failing=0.2, slow=0.01, delay_s=0.001) as faults,
        pytest.MonkeyPatch.context() as patch,
    ):
        if not direct:
            patch.setattr(fetch.RecordFile, "read_cached", lambda self, offset, buffer: 0)
        epoch = 0
        while faults.injected.total() < N_FAULTS:
            reader.set_epoch(epoch)
            seen = []
            for batch in reader:
                for number, value in zip(batch.indices.tolist(), batch.values, strict=True):
                    assert value == values[number]
                    seen.append(number)
            assert sorted(seen) == list(range(N))
            epoch += 1
        file = reader._file
        assert file is not None
        reader.close()  # the next epoch's reads may be in flight
        n_errors = sum(faults.injected[errno.errorcode[code]] for code in (errno.EIO, errno.ESTALE, errno.ETIMEDOUT))
        if not direct:  # a direct read that falls short may end through the page cache, tried without waiting
            n_at_the_end = 5  # threads, of which each may have met one when the reader was closed
            assert file.n_retries >= n_errors - n_at_the_end
        assert 0 < file.n_retries <= n_errors
        assert faults.injected["short"] > 0


@pytest.mark.parametrize("direct", [False, True])
def test_what_stays_is_the_records_own_error(folder: Path, values: list[bytes], direct: bool) -> None:
    if direct:
        skip_unless_direct(folder.parent)
    n_failed, seed = 0, 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetch.RecordFile, "read_cached", lambda self, offset, buffer: 0)
        while n_failed < max(4, N_FAULTS // 50):
            seed += 1
            with (
                ParallelReader(folder, batch_size=9, options=options(direct=direct, retries=1)) as reader,
                Faults(seed, short=0.2, failing=0.1, codes=[errno.EIO]) as faults,
            ):
                try:
                    for batch in reader:
                        for number, value in zip(batch.indices.tolist(), batch.values, strict=True):
                            assert value == values[number]
                except ReadError as exc:
                    n_failed += 1
                    assert exc.key in reader.index.keys  # it must not be raised always
                    assert "EIO: Input/output error" in str(exc)
                    assert faults.injected["EIO"] >= 2


def test_records_by_number_are_tried_again_too(folder: Path, values: list[bytes]) -> None:
    with (
        Dataset(folder, options=options(direct=False, retries=50)) as data,
        Faults(3, short=0.4, failing=0.3) as faults,
    ):
        for _ in range(5):
            assert [bytes(record.value) for record in data.fetch(range(N))] == values
        assert faults.injected.total() > 100


def fail_first(codes: list[int], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make the next reads fail by these codes, one each, and return what is left of them."""
    preadv, left = os.preadv, list(codes)

    def failing(fd: int, buffers: list[memoryview], offset: int, flags: int = 0) -> int:
        if left:
            code = left.pop(0)
            raise OSError(code, os.strerror(code))
        return preadv(fd, buffers, offset, flags)

    monkeypatch.setattr(os, "preadv", failing)
    return left


@pytest.mark.parametrize("direct", [False, True])
def test_pauses_grow_and_each_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, direct: bool
) -> None:
    if direct:
        skip_unless_direct(tmp_path)
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 64)
    pauses: list[float] = []
    monkeypatch.setattr(fetch, "_FIRST_PAUSE_S", 0.05)
    monkeypatch.setattr(threading.Event, "wait", lambda event, pause: pauses.append(pause))
    file = open_records(path, direct=direct, in_order=False, retries=6)
    left = fail_first([errno.EIO, errno.ETIMEDOUT, errno.ESTALE, errno.EIO, errno.EIO], monkeypatch)
    buffer = bytearray(4096)
    file.read_into(4096, memoryview(buffer))
    assert bytes(buffer) == bytes(range(256)) * 16
    assert left == []
    assert pauses == pytest.approx([0.05, 0.2, 0.8, 3.2, 5.0])
    assert file.n_retries == 5
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(said) == 5
    assert said[0] == (
        f"{path}: expected 4096 bytes at offset 4096, EIO: Input/output error; trying again in 0.05 s (1 of 6)"
    )
    file.close()


def test_other_errors_and_short_files_are_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(8192))
    file = fetch.RecordFile(path, retries=5)
    fail_first([errno.EACCES], monkeypatch)
    with pytest.raises(ReadError, match=r"EACCES: Permission denied$"):
        file.read_into(0, memoryview(bytearray(10)))
    os.truncate(path, 100)
    with pytest.raises(ReadError, match="found 100 before the file ends: is it cut short"):
        file.read_into(0, memoryview(bytearray(4096)))
    assert file.n_retries == 0
    fail_first([errno.EIO] * 6, monkeypatch)
    with pytest.raises(ReadError, match=r"EIO: Input/output error, 6 times$"):
        file.read_into(0, memoryview(bytearray(10)))
    assert file.n_retries == 5
    file.close()


@pytest.mark.parametrize("direct", [False, True])
def test_a_handle_that_went_stale_is_opened_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, direct: bool) -> None:
    if direct:
        skip_unless_direct(tmp_path)
    path = tmp_path / "file"
    path.write_bytes(b"x" * 8192)
    file = open_records(path, direct=direct, in_order=False, retries=1)
    before = len(os.listdir("/proc/self/fd"))
    fail_first([errno.ESTALE], monkeypatch)
    buffer = bytearray(4096)
    file.read_into(0, memoryview(buffer))
    assert buffer == b"x" * 4096
    assert len(os.listdir("/proc/self/fd")) == before
    assert not os.get_inheritable(file.fileno())
    with monkeypatch.context() as patch:  # of a stale handle nothing can be asked
        fail_first([errno.ESTALE], patch)
        fstat = os.fstat
        patch.setattr(os, "fstat", lambda fd: 1 // 0 if fd == file.fileno() else fstat(fd))
        file.read_into(0, memoryview(buffer))
    for change, message in (
        (lambda: path.rename(tmp_path / "gone"), "cannot be opened again: No such file or directory: was it removed"),
        (lambda: path.write_bytes(b"y" * 8192), "found another: was it replaced"),
    ):
        change()
        fail_first([errno.ESTALE], monkeypatch)
        with pytest.raises(ReadError, match=message):
            file.read_into(0, memoryview(buffer))
    file.close()


def test_a_file_that_vanished_or_was_replaced_is_read_on_as_it_was(
    folder: Path, values: list[bytes], tmp_path: Path
) -> None:
    make_datum_database(tmp_path / "a.lmdb", SIZES)
    with ParallelReader(tmp_path / "a.lmdb", batch_size=10, options=ReadOptions(coalesce=1)) as reader:
        batches = iter(reader)
        read = [next(batches)]
        (tmp_path / "a.lmdb" / "data.mdb").unlink()
        read += [next(batches) for _ in range(3)]
        make = tmp_path / "b.lmdb"
        make_datum_database(make, [9] * N)
        os.replace(make / "data.mdb", tmp_path / "a.lmdb" / "data.mdb")
        read += list(batches)
        for batch in read:
            assert [bytes(value) for value in batch.values] == [values[number] for number in batch.indices.tolist()]


def test_after_an_error_that_stays_the_reader_closes_and_its_threads_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch.RecordFile, "read_cached", lambda self, offset, buffer: 0)
    reader = ParallelReader(folder, batch_size=4, options=options(direct=False, retries=3))
    with Faults(1, failing=1.0), pytest.raises(ReadError, match="4 times"):
        next(iter(reader))
    reader.close()
    assert not any(thread.name == "lmdbio-read" for thread in threading.enumerate())
