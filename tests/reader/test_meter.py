"""What a reader has counted is what it did."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest

from lmdbio.reader import ParallelReader, ReadOptions, fetch, meter
from lmdbio.reader.meter import Meter, Stats
from lmdbio.reader.sequence import ORDERS, Order
from tests.reader.made import make_datum_database, stock_values

SIZES = [0, 100, 3000, 20_000, 40_000] * 20
N = len(SIZES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("meter") / "a.lmdb"
    make_datum_database(folder, SIZES)
    return folder


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(meter, "perf_counter", lambda: self.now)


def test_reads_in_flight_are_averaged_over_the_time_in_which_there_are_any(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    counted = Meter()
    clock.now = 101
    first = counted.begin_read()
    clock.now = 102
    second = counted.begin_read()
    clock.now = 105
    counted.end_read(first, n_reads=2, n_bytes=1000)
    clock.now = 106
    assert (counted.stats(retries=0).read_s, counted.stats(retries=0).busy_s) == (8, 5)  # one is under way
    counted.end_read(second, n_reads=1, n_bytes=200)
    clock.now = 110
    stats = counted.stats(retries=7)
    assert (stats.reads, stats.read_bytes, stats.read_size, stats.retries) == (3, 1200, 400, 7)
    assert (stats.read_s, stats.busy_s, stats.depth, stats.elapsed_s) == (8, 5, 1.6, 10)


def test_the_consumers_time_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    counted = Meter()
    clock.now = 103
    counted.note_wait(101)
    clock.now = 104
    counted.note_verified(103)
    clock.now = 105
    counted.note_batch(101, n_records=10, n_bytes=500)
    counted.note_held(900)
    counted.note_held(100)
    before = counted.stats(retries=2)
    assert (before.next_s, before.wait_s, before.verify_s, before.peak_held_bytes) == (4, 2, 1, 900)
    clock.now = 106
    counted.note_batch(105, n_records=1, n_bytes=5)
    between = counted.stats(retries=3) - before
    assert between == Stats(
        batches=1,
        records=1,
        useful_bytes=5,
        elapsed_s=1,
        next_s=1,
        retries=1,
        peak_held_bytes=900,
        minor_faults=between.minor_faults,
        voluntary_switches=between.voluntary_switches,
        involuntary_switches=between.involuntary_switches,
    )
    assert Stats().depth == Stats().read_size == 0


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("cold", [False, True])
def test_an_epochs_records_and_bytes_are_counted(
    folder: Path, order: Order, cold: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    read_into, lock = fetch.RecordFile.read_into, threading.Lock()

    def recorded(file: fetch.RecordFile, offset: int, buffer: memoryview) -> None:
        with lock:
            reads.append(buffer.nbytes)
        time.sleep(0.001)
        read_into(file, offset, buffer)

    if cold:
        monkeypatch.setattr(fetch.RecordFile, "read_cached", lambda self, offset, buffer: 0)
        monkeypatch.setattr(fetch.RecordFile, "read_into", recorded)
    options = ReadOptions(coalesce=100_000, read_size=16384, depth=3)
    with ParallelReader(folder, batch_size=7, order=order, options=options, verify="checksum") as reader:
        reads.clear()
        assert reader.stats.batches == 0
        n = 0
        for batch in reader:
            n += len(batch)
            assert reader.stats.records == n
        reader.close()
        stats = reader.stats
    assert (stats.batches, stats.records) == (len(reader), N)
    assert stats.useful_bytes == sum(map(len, stock_values(folder)))
    assert stats.read_bytes >= stats.useful_bytes
    assert stats.reads > 0
    if cold:
        assert (stats.reads, stats.read_bytes) == (len(reads), sum(reads))
        assert 1 <= stats.depth <= 4
        assert stats.busy_s > 0.001
    assert 0 < stats.verify_s < stats.next_s < stats.elapsed_s
    assert 0 < stats.wait_s < stats.next_s
    assert stats.peak_held_bytes >= int(reader.index.lengths.max())
    assert stats.minor_faults > 0
    if cold:
        assert stats.voluntary_switches > 0


def test_what_is_held_at_most_is_within_the_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch.RecordFile, "read_cached", lambda self, offset, buffer: 0)
    options = ReadOptions(coalesce=50_000, read_size=8192)
    with ParallelReader(folder, batch_size=2, prefetch_bytes=300_000, options=options) as reader:
        for _ in range(2):
            np.concatenate([batch.lengths for batch in reader])
        assert 150_000 < reader.stats.peak_held_bytes <= 300_000
