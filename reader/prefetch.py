"""Reading units ahead of the consumer with a pool of threads, no further ahead than it helps.

What is in the page cache is read by the consumer itself when it asks, into a buffer that is still in the processor's
cache; where cores are to spare one thread helps, a little ahead. The first read that has to wait starts all threads.
From then on they run ahead, by a window that doubles whenever the consumer has waited after threads stood idle for want
of window, up to ``prefetch_bytes``. When many units in a row turn out to be in memory, it is as at first again. At the
end of an epoch they go on with the next, if one follows; no further.
"""

from collections import deque
from collections.abc import Callable, Iterator
from threading import Condition, RLock
from typing import Final

from lmdbio.layout.pool import BufferPool
from lmdbio.reader.crew import Crew
from lmdbio.reader.fetch import RecordSource
from lmdbio.reader.load import Load
from lmdbio.reader.loader import Loaded
from lmdbio.reader.meter import Meter
from lmdbio.reader.unit import Unit
from lmdbio.reader.window import Window

_LOCK_WAIT_S: Final = 1.0
"""Seconds that a finalizer waits for the lock; only a thread that the interpreter's end froze holds it that long."""


class Prefetcher:
    """Units in order, each read by the time it is taken. One consumer; its threads do positioned reads and planning.

    Parameters
    ----------
    epochs
        What to read, epoch after epoch, the units of each in order of first need; advanced by one thread at a time.
    source
        Where to read.
    pool
        Where buffers come from.
    depth_of
        Gives the number of threads, and so of reads in flight beside the consumer's own, for reads of so many bytes.
    prefetch_bytes
        Bytes of units that are held (being read, waiting, or not yet given back) beyond which no unit is begun ahead.
    window
        Bytes to run ahead once a read has had to wait; grows with need.
    least_window
        Bytes to run ahead, with one thread, while all is in memory; 0: the consumer reads alone then.
    on_wait
        Called when bytes turn out not to be in memory.
    meter
        Counts the reads.
    """

    def __init__(
        self,
        epochs: Iterator[Iterator[Unit]],
        *,
        source: RecordSource,
        pool: BufferPool,
        depth_of: Callable[[int], int],
        prefetch_bytes: int,
        window: int,
        least_window: int,
        on_wait: Callable[[], None],
        meter: Meter,
    ) -> None:
        self._epochs = epochs
        self._units: Iterator[Unit] = iter(())  # of the epoch that is being planned
        self._source = source
        self._pool = pool
        self._depth_of = depth_of
        self._on_wait = on_wait
        self._meter = meter
        self._lock = RLock()  # the garbage collector may call `abandon` in a thread that holds it
        self._work = Condition(self._lock)  # a thread may find something to do
        self._progress = Condition(self._lock)  # reads or a plan were finished
        self._crew = Crew()
        # All below is guarded by the lock.
        self._loads: deque[Load] = deque()  # planned and not taken; all but the last are begun
        self._epoch = 0  # of the consumer, counted from the first that was given
        self._planned_epoch = -1  # the one whose units are being planned
        self._planning = False
        self._planning_error: BaseException | None = None
        self._is_exhausted = False
        self._is_closed = False
        self._window = Window(least=least_window, first=window, most=prefetch_bytes)
        self._was_starved = False  # whether threads had nothing to do for want of window since the consumer waited last

    @property
    def window(self) -> int:
        """Bytes that the threads may run ahead at present."""
        with self._lock:
            return self._window.size

    def peek(self) -> Unit | None:
        """Return the next unit of the epoch to be taken, without reading it; None after the last.

        Raises
        ------
        RuntimeError
            If the prefetcher is closed.
        BaseException
            Whatever planning it raised.
        """
        with self._lock:
            self._check_open()
            while not (self._loads or self._is_planned):
                if self._planning:
                    self._progress.wait()
                else:
                    self._plan()
                self._check_open()
            if self._loads and self._loads[0].epoch == self._epoch:
                return self._loads[0].unit
            if self._planning_error is not None and self._planned_epoch == self._epoch:
                raise self._planning_error
            return None

    def next_epoch(self) -> bool:
        """Go on to the next epoch after the last unit of one, and return whether there is one."""
        with self._lock:
            if self._is_closed or self._planned_epoch <= self._epoch:
                return False
            self._epoch += 1
            self._work.notify()
            return True

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
            if self._window.size and not self._crew:
                self._crew.start(1, self._run, self)
            if not self._window.size:
                load.read_cached(self._source, self._progress, self._meter)
            while load.has_reads:
                has_waited |= not self._read_some(load)
            while load.in_flight:
                has_waited = True
                self._progress.wait()
            self._check_open()
            self._loads.popleft()
            self._window.take(load.size)
            was_starved = self._was_starved
            self._was_starved &= not has_waited
            if self._window.adapt(was_cached=load.was_cached, has_waited=has_waited, was_starved=was_starved):
                self._work.notify_all()
            elif self._window.size:
                self._work.notify()
        load.view = None
        return load

    def give_back(self, load: Loaded) -> None:
        """Count a unit as held no longer; its buffer goes back to the pool when nothing refers to it."""
        load.buffer = None
        with self._lock:
            self._window.give_back(load.unit.plan.size)
            if self._window.size:
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
        self._crew.join(deadline)

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
                    self._was_starved |= self._is_short()
                    self._work.wait()
            self._work.notify_all()  # a finalizer may not have reached the others

    def _read_ahead(self) -> bool:
        """Do some reads of the first unit that has any and may be begun, and say whether there were."""
        # No reference to a load may outlive this call: its buffer could not be used again while the thread waits.
        for load in tuple(self._loads):  # a finalizer may empty it meanwhile
            if not load.is_begun:
                if not self._window.has_room(load.size):
                    return False
                self._begin(load)
            if load.has_reads:
                self._read_some(load)
                return True
        return False

    def _may_plan(self) -> bool:
        if self._planning or self._is_exhausted or not self._window.size or self._planned_epoch > self._epoch + 1:
            return False
        return not self._loads or self._loads[-1].is_begun

    @property
    def _is_planned(self) -> bool:
        """Whether no more units of the consumer's epoch will come."""
        return self._is_exhausted or self._planned_epoch > self._epoch

    def _is_short(self) -> bool:
        """Return whether a unit is planned that the window alone keeps from being begun."""
        return self._window.size > 0 and bool(self._loads) and not self._loads[-1].is_begun

    def _plan(self) -> None:
        """Plan the next unit, or begin with the next epoch, without the lock meanwhile."""
        self._planning = True
        unit: Unit | None = None
        units: Iterator[Unit] | None = None
        error: BaseException | None = None
        is_over = False
        try:
            self._lock.release()
            unit = next(self._units, None)
            is_over = unit is None
            units = next(self._epochs, None) if is_over else None
        except BaseException as exc:
            error = exc  # the consumer raises it when it gets there
            if not isinstance(exc, Exception):
                raise
        finally:
            self._lock.acquire()
            self._planning = False
            if units is not None or (is_over and error is not None):
                self._planned_epoch += 1
            if units is not None:
                self._units = units
                self._work.notify()
            elif unit is None:
                self._is_exhausted = True
                self._planning_error = error
            elif not self._is_closed:
                self._loads.append(Load(unit, self._planned_epoch))
                self._work.notify()
            self._progress.notify_all()

    def _begin(self, load: Load) -> None:
        """Give the unit a buffer, which makes its reads free for all."""
        if load.is_begun:
            return
        load.begin(self._pool)
        self._window.begin(load.size)
        self._meter.note_held(self._window.held)
        if self._window.is_open:
            self._crew.start(self._depth_of(load.read_size), self._run, self)
        if self._window.size:
            self._work.notify(len(load.reads))

    def _read_some(self, load: Load) -> bool:
        return load.read_some(self._source, self._progress, self._meter, on_miss=self._run_ahead)

    def _run_ahead(self) -> None:
        """Open the window, and start the threads: called when a read is about to wait."""
        self._on_wait()
        with self._lock:
            if self._window.is_open or self._is_closed:
                return
            self._window.open()
            depth = max((self._depth_of(load.read_size) for load in self._loads if load.is_begun), default=1)
            self._crew.start(depth, self._run, self)
            self._work.notify_all()
