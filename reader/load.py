"""A unit on its way into its buffer: which of its reads are begun, and how they ended."""

from collections.abc import Callable
from threading import Condition

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.pool import BufferPool
from lmdbio.reader.fetch import Read, RecordSource, end_of_task, read_all, read_cached, reads_of
from lmdbio.reader.meter import Meter
from lmdbio.reader.unit import Unit


class Load:
    """A unit that several threads read together; all its state is guarded by the lock of whoever has it.

    Parameters
    ----------
    unit
        What to read.
    epoch
        Which epoch needs it, counted by whoever has it.
    """

    __slots__ = ("buffer", "epoch", "error", "in_flight", "next_read", "reads", "unit", "view", "was_cached")

    def __init__(self, unit: Unit, epoch: int = 0) -> None:
        self.unit = unit
        self.epoch = epoch
        self.buffer: NDArray[np.uint8] | None = None  # uint8, shape (unit.plan.size,); None until its reading begins
        self.view: memoryview | None = None
        self.reads = reads_of(unit.plan)
        self.next_read = 0
        self.in_flight = 0
        self.was_cached = True
        self.error: BaseException | None = None

    @property
    def size(self) -> int:
        """Bytes of its buffer."""
        return self.unit.plan.size

    @property
    def read_size(self) -> int:
        """Bytes of a read, on average."""
        return self.size // max(1, len(self.reads))

    @property
    def is_begun(self) -> bool:
        """Whether it has a buffer, so that its reads are free for all."""
        return self.buffer is not None

    @property
    def has_reads(self) -> bool:
        """Whether there are reads that nobody has begun and that are worth beginning."""
        return self.error is None and self.next_read < len(self.reads)

    def begin(self, pool: BufferPool) -> None:
        """Take a buffer."""
        self.buffer = pool.take(self.size)
        self.view = self.buffer.data

    def read_cached(self, source: RecordSource, lock: Condition, meter: Meter) -> None:
        """Do the reads as far as their bytes are in memory, without the lock meanwhile."""
        first, self.next_read = self.next_read, len(self.reads)
        assert self.view is not None
        end = first
        begun_at = meter.begin_read()
        try:
            lock.release()
            end = read_cached(source, self.reads, first, self.view)
        finally:
            lock.acquire()
            self.next_read = end
            meter.end_read(begun_at, n_reads=end - first, n_bytes=_bytes_of(self.reads[first:end]))

    def read_some(self, source: RecordSource, lock: Condition, meter: Meter, *, on_miss: Callable[[], None]) -> bool:
        """Do the next reads, without the lock meanwhile, and return whether their bytes were in memory.

        Those who wait for ``lock`` are told when no reads are in flight any more. ``on_miss`` is called before a wait.
        """
        first = self.next_read
        self.next_read = end_of_task(self.reads, first)
        reads = self.reads[first : self.next_read]
        self.in_flight += 1
        assert self.view is not None
        error: BaseException | None = None
        was_cached = False
        begun_at = meter.begin_read()
        try:
            lock.release()
            was_cached = read_all(source, reads, self.view, on_miss=on_miss)
        except BaseException as exc:
            error = exc  # the consumer raises it when it gets to this unit; what is half read never counts as whole
            if not isinstance(exc, Exception):
                raise
        finally:
            lock.acquire()
            self.in_flight -= 1
            meter.end_read(begun_at, n_reads=len(reads), n_bytes=_bytes_of(reads))
            self.was_cached &= was_cached
            self.error = self.error or error
            if not self.in_flight:
                lock.notify_all()
        return was_cached


def _bytes_of(reads: list[Read]) -> int:
    return sum(length for _, length, _ in reads)
