"""Reading units ahead of the consumer with a pool of threads, no further ahead than it helps.

What is in the page cache is read by the consumer itself when it asks, into a buffer that is still in the processor's
cache; where cores are to spare one thread helps, a little ahead. The first read that has to wait starts all threads.
From then on they run ahead, by a window that doubles whenever the consumer has waited while threads stood idle for want
of window, up to ``prefetch_bytes``. When many units in a row turn out to be in memory, it is as at first again.
"""

import atexit
import logging
import os
from collections import deque
from collections.abc import Callable, Iterator
from threading import Condition, RLock, Thread
from time import monotonic
from typing import Final
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from lmdbio.reader.fetch import RecordSource, end_of_task, read_all, read_cached, reads_of
from lmdbio.reader.loader import Loaded
from lmdbio.reader.pool import BufferPool
from lmdbio.reader.unit import Unit

_CLOSE_AFTER: Final = 16
"""Units in a row that were in memory, after which the window is as at first."""
_LOCK_WAIT_S: Final = 1.0
"""Seconds that a finalizer waits for the lock; only a thread that the interpreter's end froze holds it that long."""
_EXIT_WAIT_S: Final = 5.0
"""Seconds that the interpreter's end waits for reads in flight."""
_log = logging.getLogger("lmdbio.reader")


class Load:
    """A unit on its way into its buffer."""

    __slots__ = ("buffer", "error", "in_flight", "next_read", "reads", "unit", "view", "was_cached")

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.buffer: NDArray[np.uint8] | None = None  # uint8, shape (unit.plan.size,); None until its reading begins
        self.view: memoryview | None = None
        self.reads = reads_of(unit.plan)
        self.next_read = 0
        self.in_flight = 0
        self.was_cached = True
        self.error: BaseException | None = None

    @property
    def has_reads(self) -> bool:
        """Whether there are reads that nobody has begun and that are worth beginning."""
        return self.error is None and self.next_read < len(self.reads)


class Prefetcher:
    """Units in order, each read by the time it is taken. One consumer; its threads do positioned reads and planning.

    Parameters
    ----------
    units
        What to read, in order of first need; advanced by one thread at a time.
    source
        Where to read.
    pool
        Where buffers come from.
    depth
        Threads, and so reads in flight beside the consumer's own.
    prefetch_bytes
        Bytes of units that are held (being read, waiting, or not yet given back) beyond which no unit is begun ahead.
    window
        Bytes to run ahead once a read has had to wait; grows with need.
    least_window
        Bytes to run ahead, with one thread, while all is in memory; 0: the consumer reads alone then.
    on_wait
        Called when the window opens anew: bytes are not in memory.
    """

    def __init__(
        self,
        units: Iterator[Unit],
        *,
        source: RecordSource,
        pool: BufferPool,
        depth: int,
        prefetch_bytes: int,
        window: int,
        least_window: int,
        on_wait: Callable[[], None],
    ) -> None:
        self._units = units
        self._source = source
        self._pool = pool
        self._depth = depth
        self._prefetch_bytes = prefetch_bytes
        self._least_window = min(least_window, prefetch_bytes)
        self._first_window = max(self._least_window, min(window, prefetch_bytes))
        self._on_wait = on_wait
        self._lock = RLock()  # the garbage collector may call `abandon` in a thread that holds it
        self._work = Condition(self._lock)  # a thread may find something to do
        self._progress = Condition(self._lock)  # reads or a plan were finished
        self._threads: list[Thread] = []
        # All below is guarded by the lock.
        self._loads: deque[Load] = deque()  # planned and not taken; all but the last are begun
        self._planning = False
        self._planning_error: BaseException | None = None
        self._is_exhausted = False
        self._is_closed = False
        self._window = self._least_window
        self._is_open = False  # whether reads have had to wait lately
        self._ahead = 0  # bytes begun and not taken
        self._held = 0  # bytes begun and not given back
        self._n_starved = 0  # threads that have nothing to do for want of window
        self._n_cached = 0  # units in a row that were in memory

    @property
    def window(self) -> int:
        """Bytes that the threads may run ahead at present."""
        with self._lock:
            return self._window

    def peek(self) -> Unit | None:
        """Return the next unit to be taken, without reading it; None after the last.

        Raises
        ------
        RuntimeError
            If the prefetcher is closed.
        BaseException
            Whatever planning it raised.
        """
        with self._lock:
            self._check_open()
            while not self._loads and not self._is_exhausted:
                if self._planning:
                    self._progress.wait()
                else:
                    self._plan()
                self._check_open()
            if self._loads:
                return self._loads[0].unit
            if self._planning_error is not None:
                raise self._planning_error
            return None

    def take(self) -> Load:
        """Return the next unit, read; its ``error`` is set where that failed.

        Call :meth:`give_back` when it is no longer needed.

        Raises
        ------
        RuntimeError
            If the prefetcher is closed, even meanwhile.
        IndexError
            If there is none.
        """
        if self.peek() is None:
            raise IndexError("expected another unit, found the end of the epoch")
        has_waited = False
        with self._lock:
            self._check_open()
            load = self._loads[0]
            self._begin(load)
            if self._window and not self._threads:
                self._start(1)
            if not self._window:
                self._read_cached(load)
            while load.has_reads:
                has_waited |= not self._read_some(load)
            while load.in_flight:
                has_waited = True
                self._progress.wait()
            self._check_open()
            self._loads.popleft()
            self._ahead -= load.unit.plan.size
            self._adapt(load, has_waited=has_waited)
            if self._window:
                self._work.notify()
        load.view = None
        return load

    def give_back(self, load: Loaded) -> None:
        """Count a unit as held no longer; its buffer goes back to the pool when nothing refers to it."""
        load.buffer = None
        with self._lock:
            self._held -= load.unit.plan.size
            if self._window:
                self._work.notify()

    def close(self) -> None:
        """Wait for reads in flight and end the threads; a second call does nothing."""
        with self._lock:
            self._end()
        self.join()

    def abandon(self) -> None:
        """Let the threads end by themselves, when their reads are done; does not wait, may be called by a finalizer."""
        self._is_closed = True
        # Once the interpreter ends, a thread may be frozen with the lock in its hands.
        if self._lock.acquire(timeout=_LOCK_WAIT_S):
            try:
                self._end()
            finally:
                self._lock.release()

    def join(self, deadline: float | None = None) -> None:
        """Wait until the threads of a closed prefetcher have ended, or until a time by the monotonic clock."""
        for thread in list(self._threads):
            thread.join(None if deadline is None else max(0.0, deadline - monotonic()))

    def _end(self) -> None:
        self._is_closed = True
        self._loads.clear()
        self._work.notify_all()

    def _check_open(self) -> None:
        if self._is_closed:
            raise RuntimeError("prefetcher: expected one that is open, found it closed")

    def _run(self) -> None:
        """Plan and read ahead until closed: a thread's life."""
        with self._lock:
            while not self._is_closed:
                if self._may_plan():
                    self._plan()
                elif not self._read_ahead():
                    is_starved = self._is_short()
                    self._n_starved += is_starved
                    self._work.wait()
                    self._n_starved -= is_starved
            self._work.notify_all()  # a finalizer may not have reached the others

    def _read_ahead(self) -> bool:
        """Do some reads of the first unit that has any and may be begun, and say whether there were."""
        # No reference to a load may outlive this call: its buffer could not be used again while the thread waits.
        for load in self._loads:
            if load.buffer is None:
                if not self._may_begin(load):
                    return False
                self._begin(load)
            if load.has_reads:
                self._read_some(load)
                return True
        return False

    def _may_plan(self) -> bool:
        if self._planning or self._is_exhausted or not self._window:
            return False
        return not self._loads or self._loads[-1].buffer is not None

    def _is_short(self) -> bool:
        """Return whether a unit is planned that the window alone keeps from being begun."""
        return self._window > 0 and bool(self._loads) and self._loads[-1].buffer is None

    def _may_begin(self, load: Load) -> bool:
        size = load.unit.plan.size
        if self._held + size > self._prefetch_bytes:
            return False
        return self._window > 0 and (not self._ahead or self._ahead + size <= self._window)

    def _plan(self) -> None:
        """Plan the next unit, without the lock meanwhile."""
        self._planning = True
        unit: Unit | None = None
        error: BaseException | None = None
        try:
            self._lock.release()
            unit = next(self._units, None)
        except BaseException as exc:
            error = exc  # the consumer raises it when it gets there
            if not isinstance(exc, Exception):
                raise
        finally:
            self._lock.acquire()
            self._planning = False
            if unit is None:
                self._is_exhausted = True
                self._planning_error = error
            elif not self._is_closed:
                self._loads.append(Load(unit))
                self._work.notify()
            self._progress.notify_all()

    def _begin(self, load: Load) -> None:
        """Give the unit a buffer, which makes its reads free for all."""
        if load.buffer is not None:
            return
        load.buffer = self._pool.take(load.unit.plan.size)
        load.view = load.buffer.data
        self._ahead += load.unit.plan.size
        self._held += load.unit.plan.size
        if self._window:
            self._work.notify(len(load.reads))

    def _read_cached(self, load: Load) -> None:
        """Do the unit's reads as far as their bytes are in memory, without the lock meanwhile."""
        first, load.next_read = load.next_read, len(load.reads)
        assert load.view is not None
        end = first
        try:
            self._lock.release()
            end = read_cached(self._source, load.reads, first, load.view)
        finally:
            self._lock.acquire()
            load.next_read = end

    def _read_some(self, load: Load) -> bool:
        """Do the unit's next reads, without the lock meanwhile, and return whether their bytes were in memory."""
        first = load.next_read
        load.next_read = end_of_task(load.reads, first)
        reads = load.reads[first : load.next_read]
        load.in_flight += 1
        assert load.view is not None
        error: BaseException | None = None
        was_cached = False
        try:
            self._lock.release()
            was_cached = read_all(self._source, reads, load.view, on_miss=self._run_ahead)
        except BaseException as exc:
            error = exc  # the consumer raises it when it gets to this unit; what is half read never counts as whole
            if not isinstance(exc, Exception):
                raise
        finally:
            self._lock.acquire()
            load.in_flight -= 1
            load.was_cached &= was_cached
            load.error = load.error or error
            if not load.in_flight:
                self._progress.notify_all()
        return was_cached

    def _run_ahead(self) -> None:
        """Open the window, and start the threads: called when a read is about to wait."""
        with self._lock:
            if self._is_open or self._is_closed:
                return
            self._is_open = True
            self._on_wait()
            self._window = self._first_window
            self._n_cached = 0
            self._start(self._depth)
            self._work.notify_all()

    def _start(self, n_threads: int) -> None:
        """Start threads until there are so many, or as many as the system lets: the consumer reads, too."""
        n_threads = min(n_threads, self._depth)
        while len(self._threads) < n_threads:
            thread = Thread(target=self._run, name="lmdbio-read", daemon=True)
            try:
                thread.start()
            except RuntimeError as exc:
                self._depth = len(self._threads)
                _log.warning("reading with %d threads, expected %d: %s", self._depth, n_threads, exc)
                return
            self._threads.append(thread)
            _live.add(self)

    def _adapt(self, load: Load, *, has_waited: bool) -> None:
        self._n_cached = self._n_cached + 1 if load.was_cached else 0
        if self._n_cached >= _CLOSE_AFTER:
            self._window = self._least_window
            self._is_open = False
        elif has_waited and self._n_starved and self._is_open:
            self._window = min(2 * self._window, self._prefetch_bytes)
            self._work.notify_all()


_live: WeakSet[Prefetcher] = WeakSet()  # all that have threads


def _end_all() -> None:
    """End all threads before the interpreter freezes them wherever they are, but never wait long for a file system."""
    deadline = monotonic() + _EXIT_WAIT_S
    ending = list(_live)
    for prefetcher in ending:
        prefetcher.abandon()
    for prefetcher in ending:
        prefetcher.join(deadline)


atexit.register(_end_all)
os.register_at_fork(after_in_child=_live.clear)  # threads are not inherited, locks in any state are
