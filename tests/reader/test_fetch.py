"""Reads come from memory where they can, whole always, and a failure names the record."""

import os
from pathlib import Path

import numpy as np
import pytest

from lmdbio.errors import MissingDatabaseError, ReadError
from lmdbio.reader import fetch
from lmdbio.reader.fetch import TASK_SIZE, RecordFile, end_of_task, find_unreadable, read_all, read_cached, reads_of
from lmdbio.reader.plan import plan_reads
from tests.reader.sources import FakeSource

CONTENT = np.random.default_rng(0).bytes(1 << 20)


@pytest.fixture
def file(tmp_path: Path) -> RecordFile:
    path = tmp_path / "data.mdb"
    path.write_bytes(CONTENT)
    return RecordFile(path)


def test_cached_bytes_are_read_without_waiting_or_not_at_all(file: RecordFile) -> None:
    buffer = bytearray(5000)
    done = file.read_cached(100, memoryview(buffer))
    assert done is None or buffer[:done] == CONTENT[100 : 100 + done]


def test_a_file_system_that_cannot_tell_is_asked_once(file: RecordFile, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def refuse(*args: object) -> int:
        calls.append(args)
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "preadv", refuse)
    assert file.read_cached(0, memoryview(bytearray(10))) is None
    assert file.read_cached(0, memoryview(bytearray(10))) is None
    assert len(calls) == 1


def test_short_reads_are_completed(file: RecordFile, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.preadv
    monkeypatch.setattr(os, "preadv", lambda fd, views, offset, *flags: whole(fd, [views[0][:777]], offset))
    plan = plan_reads(np.array([5, 9000]), np.array([8000, 3000]), gap=0, read_size=4096, align=1)
    buffer = bytearray(plan.size)
    read_all(file, reads_of(plan), memoryview(buffer), on_miss=lambda: None)
    assert buffer == CONTENT[5:8005] + CONTENT[9000:12_000]


def test_the_file_closes_with_its_last_reference(file: RecordFile, tmp_path: Path) -> None:
    other = RecordFile(tmp_path / "data.mdb")
    fd = other.fileno()
    del other
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    with pytest.raises(MissingDatabaseError):
        RecordFile(tmp_path / "none")


def test_a_miss_is_told_before_the_wait_and_once() -> None:
    reads = [(0, 100, 0), (5000, 100, 100), (9000, 100, 200)]
    source = FakeSource(CONTENT, cached=lambda offset: offset < 5000)
    waits_at_miss = []
    was_cached = read_all(
        source, reads, memoryview(bytearray(300)), on_miss=lambda: waits_at_miss.append(len(source.waits))
    )
    assert (was_cached, waits_at_miss, len(source.waits)) == (False, [0], 2)


@pytest.mark.parametrize(("delay_s", "expected"), [(0.0, True), (0.02, False)])
def test_where_the_system_cannot_tell_the_time_does(delay_s: float, expected: bool) -> None:
    reads = [(0, 1 << 20, 0)]
    source = FakeSource(CONTENT, cached=None, delay_s=delay_s)
    misses = []
    rate = fetch._CACHED_RATE
    try:
        fetch._CACHED_RATE = 1e8  # a busy machine is no slow disk
        assert read_all(source, reads, memoryview(bytearray(1 << 20)), on_miss=lambda: misses.append(1)) is expected
    finally:
        fetch._CACHED_RATE = rate
    assert len(misses) == (not expected)


def test_small_reads_are_handed_out_together() -> None:
    small = [(number << 20, 16 << 10, number * (16 << 10)) for number in range(20)]
    assert [end_of_task(small, first) for first in (0, 8, 16)] == [8, 16, 20]
    large = [(0, 1 << 20, 0), (1 << 30, 1 << 20, 1 << 20)]
    assert [end_of_task(large, first) for first in (0, 1)] == [1, 2]
    assert TASK_SIZE == 8 * (16 << 10)


def test_cached_reads_are_done_up_to_the_first_miss() -> None:
    reads = [(number << 17, 1 << 17, number << 17) for number in range(8)]
    buffer = bytearray(1 << 20)
    source = FakeSource(CONTENT, cached=lambda offset: offset < 5 << 17)
    assert read_cached(source, reads, 0, memoryview(buffer)) == 5
    assert buffer[: 5 << 17] == CONTENT[: 5 << 17]
    assert read_cached(source, reads, 2, memoryview(buffer)) == 5
    assert read_cached(FakeSource(CONTENT, cached=lambda offset: True), reads, 0, memoryview(buffer)) == 8
    assert not source.waits


def test_the_record_that_cannot_be_read_is_named() -> None:
    offsets, lengths = np.array([400, 0, 200, 100]), np.array([100, 100, 200, 100])
    source = FakeSource(CONTENT, broken=250)
    error = ReadError("fake", 0, 500, "EIO: Input/output error")
    found = find_unreadable(source, error, offsets, lengths, lambda place: b"key%d" % place)
    assert (found.key, found.offset, found.length) == (b"key2", 200, 200)
    assert str(found) == "fake: key b'key2', expected 200 bytes at offset 200, EIO: Input/output error"


def test_a_failure_that_passed_names_the_first_record_of_the_read() -> None:
    error = ReadError("fake", 150, 200, "EIO: Input/output error")
    offsets, lengths = np.array([300, 100, 0]), np.array([100, 100, 100])
    found = find_unreadable(FakeSource(CONTENT), error, offsets, lengths, lambda place: b"key%d" % place)
    assert (found.key, found.offset, found.reason) == (b"key1", 100, error.reason)
