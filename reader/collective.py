"""Reading units in step with all other ranks, by collective reads in the consumer's own thread; nothing is read ahead.

Every rank takes equally many units in the same order, each at the step at which any rank needs it first. After each
read the ranks tell each other whether one has failed or left, so that none waits for one that does not come again.
"""

import contextlib
import os
from collections.abc import Iterator
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from lmdbio.errors import ReadError
from lmdbio.layout.pool import BufferPool
from lmdbio.reader.epoch import name_unreadable
from lmdbio.reader.fetch import RecordFile
from lmdbio.reader.joined_index import RecordIndex
from lmdbio.reader.loader import Loaded
from lmdbio.reader.meter import Meter
from lmdbio.reader.mpi_file import MpiFile
from lmdbio.reader.request import EMPTY, Request, request_of
from lmdbio.reader.unit import Unit


class _State(IntEnum):
    """What a rank says of itself after a read."""

    GOES_ON = 0
    HAS_LEFT = 1
    HAS_FAILED = 2


class CollectiveLoad:
    """A unit that was read together."""

    __slots__ = ("buffer", "error", "unit")

    def __init__(self, unit: Unit, buffer: NDArray[np.uint8]) -> None:
        self.unit = unit
        self.buffer: NDArray[np.uint8] | None = buffer
        self.error: BaseException | None = None


class CollectiveLoader:
    """Collective. Units in order, each read by all ranks together when it is taken.

    Parameters
    ----------
    units
        What this rank reads; as many on every rank.
    file
        Where to read.
    source
        The same file, opened by this rank alone: what its size is by now, and which record an error concerns.
    index
        Where keys come from.
    pool
        Where buffers come from.
    shares_errors
        Whether a rank that could not read its bytes tells the others, so that all fail alike; otherwise it fails
        alone, at once, and is expected to end the job.
    meter
        Counts the reads.
    """

    def __init__(
        self,
        units: Iterator[Unit],
        *,
        file: MpiFile,
        source: RecordFile,
        index: RecordIndex,
        pool: BufferPool,
        shares_errors: bool,
        meter: Meter,
    ) -> None:
        self._units = units
        self._file = file
        self._source = source
        self._index = index
        self._pool = pool
        self._shares_errors = shares_errors
        self._meter = meter
        self._next: Unit | None = None
        self._is_exhausted = False
        self._is_unplanned = False  # whether the next unit could not be planned
        self._is_over = False  # whether no rank expects this one at another read

    def peek(self) -> Unit | None:
        """Return the next unit to be taken, without reading it; None after the last.

        Raises
        ------
        RuntimeError
            If the loader is closed.
        ReadError
            If an extent does not lie in the file.
        """
        if self._is_over:
            raise RuntimeError("loader: expected one that is open, found it closed")
        self._plan()
        return self._next

    def take(self) -> CollectiveLoad:
        """Collective. Return the next unit, read; its ``error`` is set where that failed, or where a rank has left.

        Raises
        ------
        IndexError
            If there is none.
        """
        unit = self.peek()
        if unit is None:
            raise IndexError("expected another unit, found the end of the epoch")
        load = CollectiveLoad(unit, self._pool.take(unit.plan.size))
        assert load.buffer is not None
        self._next = None
        request = request_of(unit.plan)
        self._meter.note_held(unit.plan.size)
        begun_at = self._meter.begin_read()
        try:
            load.error = self._read(request, load.buffer, unit)
        except BaseException:
            self._lose()  # where the others are then, nobody knows
            raise
        finally:
            self._meter.end_read(begun_at, n_reads=1, n_bytes=request.size)
        self._is_over |= load.error is not None
        return load

    def give_back(self, load: Loaded) -> None:
        """Let go of the unit's buffer, which goes back to the pool when nothing refers to it."""
        load.buffer = None

    def next_epoch(self) -> bool:
        """Return False: nothing is read before it is needed."""
        return False

    def close(self) -> None:
        """Collective, where units are left: tell the other ranks that this one takes no more. At most once."""
        if not self._is_over and self._has_more():
            self._is_over = True
            self._file.read(EMPTY, np.zeros(0, np.uint8))
            self._agree(_State.HAS_LEFT, None)
        self._is_over = True

    def abandon(self) -> None:
        """Do nothing: what other ranks must learn of, :meth:`close` tells them."""

    def _plan(self) -> None:
        """Plan the next unit, if that is not done and there is one."""
        if self._next is not None or self._is_exhausted:
            return
        try:
            self._next = next(self._units, None)
            self._is_exhausted = self._next is None
        except ReadError:
            self._is_unplanned = True
            raise
        except BaseException:
            self._lose()
            raise

    def _has_more(self) -> bool:
        """Return whether there is another unit; the answer is the same on every rank that has taken as many."""
        if not self._is_unplanned:
            with contextlib.suppress(ReadError):
                self._plan()
        return self._is_unplanned or self._next is not None

    def _read(self, request: Request, buffer: NDArray[np.uint8], unit: Unit) -> BaseException | None:
        """Read with all others, and return the error that ends the epoch: of the lowest rank that has failed."""
        try:
            self._file.read(request, buffer)
        except ReadError as exc:
            error = name_unreadable(exc, unit, self._source, self._index)
            if error.reason == exc.reason:
                error = exc  # all can be read: it was another rank's bytes that this one read
            if self._file.is_alone:
                return self._fail(error)
            self._lose()
            return error
        try:
            self._check_end(request)
        except ReadError as exc:
            return self._fail(name_unreadable(exc, unit, self._source, self._index))
        request.repeat(buffer)
        return self._agree(_State.GOES_ON, None)

    def _fail(self, error: ReadError) -> BaseException | None:
        """Return the error that ends the epoch, where all ranks came back from the read."""
        return self._agree(_State.HAS_FAILED, error) if self._shares_errors else error

    def _check_end(self, request: Request) -> None:
        """Raise ReadError if the file ends before the request does, which MPI does not tell."""
        size = os.fstat(self._source.fileno()).st_size
        if size >= request.end:
            return
        place = int(np.argmax(request.offsets + request.lengths > size))
        offset, length = int(request.offsets[place]), int(request.lengths[place])
        found = f"found {max(0, size - offset)} before the file ends: is it cut short?"
        raise ReadError(self._source.path, offset, length, found)

    def _agree(self, state: _State, error: ReadError | None) -> BaseException | None:
        """Collective. Tell all ranks how this one fares, and return the error that ends the epoch, if any does."""
        worst = self._file.highest(state)
        if worst == _State.GOES_ON:
            return None
        ranks = self._file.allgather((state, error))
        if state == _State.HAS_LEFT:
            return None
        if worst == _State.HAS_FAILED:
            return next(other for _, other in ranks if other is not None)
        left = ", ".join(str(rank) for rank, (other, _) in enumerate(ranks) if other == _State.HAS_LEFT)
        return RuntimeError(
            "epoch: expected every rank to take equally many batches, as io='collective' needs, found that rank "
            f"{left} has left it before its end"
        )

    def _lose(self) -> None:
        self._is_over = True
        self._file.lose()
