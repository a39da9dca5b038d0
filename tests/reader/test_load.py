"""A load's reads are done once each, whole or with an error, and the lock is free meanwhile."""

from threading import Condition, Lock

import numpy as np
import pytest

from lmdbio.errors import ReadError
from lmdbio.layout.pool import BufferPool
from lmdbio.reader.load import Load
from lmdbio.reader.meter import Meter
from lmdbio.reader.plan import plan_reads
from lmdbio.reader.unit import Unit
from tests.reader.sources import FakeSource

CONTENT = np.random.default_rng(0).bytes(1 << 20)
READ_SIZE = 1 << 17


class Watched(FakeSource):
    """Notes whether the lock was held during a read."""

    def __init__(self, lock: Condition, **options: object) -> None:
        super().__init__(CONTENT, **options)
        self._watched = lock
        self.was_free: list[bool] = []

    def read_into(self, offset: int, buffer: memoryview) -> None:
        self.was_free.append(self._watched.acquire(blocking=False))
        self._watched.release()
        super().read_into(offset, buffer)


@pytest.fixture
def lock() -> Condition:
    return Condition(Lock())


@pytest.fixture
def load() -> Load:
    offsets, lengths = np.array([0]), np.array([len(CONTENT)])
    plan = plan_reads(offsets, lengths, gap=0, read_size=READ_SIZE, align=1)
    load = Load(Unit(0, np.array([0, 1]), np.zeros(1, np.int64), np.zeros(1, np.int64), offsets, plan))
    assert not load.is_begun
    load.begin(BufferPool(keep=0))
    return load


def test_its_reads_are_done_once_each(load: Load, lock: Condition) -> None:
    source = Watched(lock)
    with lock:
        while load.has_reads:
            assert not load.read_some(source, lock, Meter(), on_miss=lambda: None)
    assert source.waits == [(offset, READ_SIZE) for offset in range(0, len(CONTENT), READ_SIZE)]
    assert all(source.was_free)
    assert (load.buffer.tobytes(), load.in_flight, load.was_cached, load.error) == (CONTENT, 0, False, None)


def test_what_is_in_memory_is_read_up_to_the_first_byte_that_is_not(load: Load, lock: Condition) -> None:
    source = Watched(lock, cached=lambda offset: offset < 3 * READ_SIZE)
    with lock:
        load.read_cached(source, lock, Meter())
        assert (load.next_read, load.has_reads, source.waits) == (3, True, [])
        assert not load.read_some(source, lock, Meter(), on_miss=lambda: None)
    assert source.waits == [(3 * READ_SIZE, READ_SIZE)]


def test_after_an_error_there_is_nothing_more_to_read(load: Load, lock: Condition) -> None:
    source = Watched(lock, broken=READ_SIZE + 5)
    with lock:
        load.read_some(source, lock, Meter(), on_miss=lambda: None)
        assert load.has_reads
        load.read_some(source, lock, Meter(), on_miss=lambda: None)
    assert isinstance(load.error, ReadError)
    assert (load.has_reads, load.in_flight) == (False, 0)


def test_an_interrupt_is_raised_and_kept(load: Load, lock: Condition) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with lock:
        with pytest.raises(KeyboardInterrupt):
            load.read_some(Watched(lock), lock, Meter(), on_miss=interrupt)
        assert isinstance(load.error, KeyboardInterrupt)
        assert load.in_flight == 0
