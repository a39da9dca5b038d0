"""Units arrive in order and whole, ahead of need but no further than is allowed; threads end, buffers come back."""

import gc
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.errors import ReadError
from lmdbio.layout.pool import BufferPool
from lmdbio.reader.meter import Meter
from lmdbio.reader.prefetch import Prefetcher
from lmdbio.reader.unit import Unit
from tests.reader.prefetching import (
    CONTENT,
    SIZE,
    drain,
    make_prefetcher,
    make_unit,
    n_reading_threads,
    units,
    whole,
)
from tests.reader.sources import FakeSource


@given(
    st.lists(st.tuples(st.integers(0, 3 << 20), st.integers(0, 1 << 18)), max_size=30),
    st.integers(1, 8),
    st.sampled_from([1, 1 << 16, 1 << 20]),
    st.sampled_from(["cached", "cold", "mixed", "unknown"]),
    st.sampled_from([0, 1, 1 << 18]),
)
def test_units_arrive_in_order_and_whole(
    extents: list[tuple[int, int]], depth: int, prefetch_bytes: int, state: str, least_window: int
) -> None:
    cached = {"cached": lambda _: True, "cold": lambda _: False, "mixed": lambda at: at % 3 > 0, "unknown": None}[state]
    planned = (make_unit(step, *extent) for step, extent in enumerate(extents))
    prefetcher = Prefetcher(
        iter([planned]),
        source=FakeSource(CONTENT, cached=cached),
        pool=BufferPool(keep=1 << 20),
        depth_of=lambda _: depth,
        prefetch_bytes=prefetch_bytes,
        window=1 << 16,
        least_window=least_window,
        on_wait=lambda: None,
        meter=Meter(),
    )
    assert drain(prefetcher) == [CONTENT[offset : offset + length] for offset, length in extents]
    prefetcher.close()
    assert n_reading_threads() == 0


def test_what_is_in_memory_is_read_by_the_consumer_alone() -> None:
    source = FakeSource(CONTENT, cached=lambda _: True)
    prefetcher = make_prefetcher(source)
    assert drain(prefetcher) == whole()
    assert (prefetcher.window, n_reading_threads(), source.waits) == (0, 0, [])


def test_one_thread_helps_with_what_is_in_memory_where_asked() -> None:
    source = FakeSource(CONTENT, cached=lambda _: True)
    prefetcher = make_prefetcher(source, least_window=2 * SIZE)
    prefetcher.give_back(prefetcher.take())
    for _ in range(100):
        if sum(length for _, length in source.hits) == 3 * SIZE:
            break
        time.sleep(0.02)
    assert sum(length for _, length in source.hits) == 3 * SIZE
    assert n_reading_threads() == 1
    assert drain(prefetcher) == whole()[1:]
    assert (prefetcher.window, source.waits) == (2 * SIZE, [])
    prefetcher.close()


def test_buffers_of_cached_units_are_used_again_at_once() -> None:
    pool = BufferPool(keep=1 << 22)
    prefetcher = Prefetcher(
        iter([units()]),
        source=FakeSource(CONTENT, cached=lambda _: True),
        pool=pool,
        depth_of=lambda _: 2,
        prefetch_bytes=1 << 22,
        window=1,
        least_window=0,
        on_wait=lambda: None,
        meter=Meter(),
    )
    places = set()
    while prefetcher.peek() is not None:
        load = prefetcher.take()
        places.add(load.buffer.__array_interface__["data"][0])
        prefetcher.give_back(load)
    assert len(places) == 1


def test_reads_that_wait_are_in_flight_together() -> None:
    source = FakeSource(CONTENT, delay_s=0.002)
    prefetcher = make_prefetcher(source, depth_of=lambda _: 4)
    assert drain(prefetcher) == whole()
    assert source.most_in_flight >= 4
    assert source.most_in_flight <= 5  # the consumer reads, too, when it has to wait
    assert sorted(source.waits) == [(offset, 1 << 14) for offset in range(0, len(CONTENT), 1 << 14)]
    prefetcher.close()


def test_the_window_grows_while_the_consumer_waits() -> None:
    prefetcher = make_prefetcher(
        FakeSource(CONTENT, delay_s=0.002), depth_of=lambda _: 8, window=SIZE, prefetch_bytes=6 * SIZE
    )
    drain(prefetcher)
    assert SIZE < prefetcher.window <= 6 * SIZE
    prefetcher.close()


def test_waits_are_told() -> None:
    told = []
    prefetcher = make_prefetcher(FakeSource(CONTENT), on_wait=lambda: told.append(1))
    prefetcher.peek()
    assert told == []
    drain(prefetcher)
    assert told
    prefetcher.close()


def test_a_slow_consumer_does_not_widen_the_window() -> None:
    prefetcher = make_prefetcher(FakeSource(CONTENT), n_units=12)
    for _ in range(3):
        prefetcher.give_back(prefetcher.take())
    window = prefetcher.window
    while prefetcher.peek() is not None:
        time.sleep(0.02)
        prefetcher.give_back(prefetcher.take())
    assert prefetcher.window == window
    prefetcher.close()


def test_a_wait_after_threads_were_idle_widens_the_window() -> None:
    source = FakeSource(CONTENT, delay_s=0.001)
    prefetcher = make_prefetcher(source, depth_of=lambda _: 2, window=2 * SIZE, prefetch_bytes=8 * SIZE)
    prefetcher.give_back(prefetcher.take())
    window = prefetcher.window
    time.sleep(0.1)  # the window is full, and the threads are idle
    source._delay_s = 0.05  # from now on the file system is slow
    for _ in range(6):
        prefetcher.give_back(prefetcher.take())
    assert prefetcher.window > window
    prefetcher.close()


def test_no_more_is_held_than_allowed() -> None:
    source = FakeSource(CONTENT)
    prefetcher = make_prefetcher(source, prefetch_bytes=3 * SIZE, window=8 * SIZE)
    held = [prefetcher.take()]
    time.sleep(0.1)
    assert sum(length for _, length in source.waits) == 3 * SIZE
    held.append(prefetcher.take())
    held.append(prefetcher.take())
    held.append(prefetcher.take())  # what is needed is read even if it is more
    time.sleep(0.05)
    assert sum(length for _, length in source.waits) == 4 * SIZE
    prefetcher.close()


def test_the_window_closes_when_all_is_in_memory_again() -> None:
    is_cold = [True]
    source = FakeSource(CONTENT, cached=lambda _: not is_cold[0])
    prefetcher = make_prefetcher(source)
    for _ in range(4):
        prefetcher.give_back(prefetcher.take())
    assert prefetcher.window > 0
    is_cold[0] = False
    drain(prefetcher)
    assert prefetcher.window == 0
    prefetcher.close()


def test_an_error_comes_with_its_unit_and_not_before() -> None:
    source = FakeSource(CONTENT, broken=5 * SIZE + 100)
    prefetcher = make_prefetcher(source)
    for step in range(5):
        load = prefetcher.take()
        assert (load.error, load.buffer.tobytes()) == (None, whole()[step])
        prefetcher.give_back(load)
    error = prefetcher.take().error
    assert isinstance(error, ReadError)
    assert error.offset <= 5 * SIZE + 100 < error.offset + error.length
    prefetcher.close()


def test_an_error_of_planning_comes_after_the_units_before_it() -> None:
    def planned() -> Iterator[Unit]:
        yield from units(5)
        raise ReadError("fake", 1, 2, "beyond the end")

    for cached in (lambda _: True, lambda _: False):
        source = FakeSource(CONTENT, cached=cached)
        prefetcher = Prefetcher(
            iter([planned()]),
            source=source,
            pool=BufferPool(keep=0),
            depth_of=lambda _: 3,
            prefetch_bytes=1 << 20,
            window=1 << 20,
            least_window=0,
            on_wait=lambda: None,
            meter=Meter(),
        )
        for _ in range(5):
            prefetcher.peek()
            assert prefetcher.take().error is None
        with pytest.raises(ReadError, match="beyond the end"):
            prefetcher.peek()
        prefetcher.close()


def test_closing_waits_for_reads_in_flight_and_ends_the_threads() -> None:
    source = FakeSource(CONTENT, delay_s=0.05)
    prefetcher = make_prefetcher(source)
    prefetcher.take()
    prefetcher.close()
    n_reads = len(source.waits)
    assert n_reading_threads() == 0
    time.sleep(0.06)
    assert len(source.waits) == n_reads
    prefetcher.close()


def test_threads_that_wait_hold_no_buffer() -> None:
    pool = BufferPool(keep=1 << 24)
    prefetcher = Prefetcher(
        iter([units(6)]),
        source=FakeSource(CONTENT),
        pool=pool,
        depth_of=lambda _: 4,
        prefetch_bytes=1 << 22,
        window=1 << 22,
        least_window=0,
        on_wait=lambda: None,
        meter=Meter(),
    )
    drain(prefetcher)
    gc.collect()
    time.sleep(0.05)
    n_buffers = pool.free_size // SIZE
    held = [pool.take(SIZE) for _ in range(n_buffers)]
    assert (pool.free_size, len(held)) == (0, n_buffers)
    assert n_buffers >= 1
    prefetcher.close()


def test_an_abandoned_prefetcher_ends_its_threads() -> None:
    prefetcher = make_prefetcher(FakeSource(CONTENT, delay_s=0.001))
    prefetcher.take()
    prefetcher.abandon()
    for _ in range(100):
        if n_reading_threads() == 0:
            break
        time.sleep(0.02)
    assert n_reading_threads() == 0


def test_taking_after_the_last_unit_is_an_index_error() -> None:
    prefetcher = make_prefetcher(FakeSource(CONTENT), n_units=0)
    assert prefetcher.peek() is None
    with pytest.raises(IndexError, match="found the end of the epoch"):
        prefetcher.take()


def test_a_closed_prefetcher_says_so() -> None:
    prefetcher = make_prefetcher(FakeSource(CONTENT))
    prefetcher.take()
    prefetcher.close()
    for call in (prefetcher.peek, prefetcher.take):
        with pytest.raises(RuntimeError, match="found it closed"):
            call()


@pytest.mark.parametrize("n_startable", [0, 1, 3])
def test_where_no_more_threads_can_be_started_the_others_read(
    n_startable: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    start = threading.Thread.start
    started: list[threading.Thread] = []

    def start_few(self: threading.Thread) -> None:
        if len(started) == n_startable:
            raise RuntimeError("can't start new thread")
        started.append(self)
        start(self)

    monkeypatch.setattr(threading.Thread, "start", start_few)
    prefetcher = make_prefetcher(FakeSource(CONTENT), depth_of=lambda _: 4)
    assert drain(prefetcher) == whole()
    assert n_reading_threads() == n_startable
    prefetcher.close()
    (said,) = caplog.records
    assert (said.name, said.levelno) == ("lmdbio.reader", logging.WARNING)
    assert said.getMessage() == f"reading with {n_startable} threads, expected 4: can't start new thread"


_LEFT_OPEN = """
import sys, threading, time
from lmdbio.reader import crew, prefetch
from tests.reader.sources import FakeSource
from tests.reader.prefetching import CONTENT, make_prefetcher
prefetch._LOCK_WAIT_S = crew._EXIT_WAIT_S = 0.2
class Epoch:
    def __init__(self):
        self.prefetcher = make_prefetcher(FakeSource(CONTENT, delay_s={delay_s}), depth_of=lambda _: 8)
        self.myself = self  # a cycle: collected when the interpreter is all but gone
    def __del__(self):
        self.prefetcher.abandon()
epoch = Epoch()
epoch.prefetcher.take()
{after}
"""
_FREEZE = """
def freeze():
    with epoch.prefetcher._lock:
        is_frozen.set()
        time.sleep(1000)
is_frozen = threading.Event()
threading.Thread(target=freeze, daemon=True).start()
is_frozen.wait()
"""


@pytest.mark.parametrize("after", ["", "raise ValueError('lost')", _FREEZE])
def test_a_process_that_leaves_a_prefetcher_open_ends(after: str) -> None:
    scripts = [_LEFT_OPEN.format(delay_s=delay_s, after=after) for delay_s in (0, 0.0005, 0.03)]
    jobs = [subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True) for script in scripts]
    try:
        for job in jobs:
            lines = job.communicate(timeout=30)[1].splitlines()
            assert (job.returncode, lines[-1:]) == ((1, ["ValueError: lost"]) if "lost" in after else (0, []))
    finally:
        for job in jobs:
            job.kill()


def test_a_finalizer_does_not_wait_for_a_lock_that_is_never_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmdbio.reader.prefetch._LOCK_WAIT_S", 0.05)
    prefetcher = make_prefetcher(FakeSource(CONTENT))
    prefetcher.take()
    is_held, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with prefetcher._lock:
            is_held.set()
            may_end.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    is_held.wait(10)
    prefetcher.abandon()
    may_end.set()
    holder.join()
    prefetcher.close()
    assert n_reading_threads() == 0
