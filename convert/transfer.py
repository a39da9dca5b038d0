"""Inputs into a database's pages: many threads read files to where they lie in the pages, and write these.

So no byte is copied within memory, and no thread hands a file to another; what is held in memory is bounded, however
many threads there are.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lmdbio.convert.gate import Gate
from lmdbio.convert.image_format import HEAD_SIZE, FormatCount
from lmdbio.convert.planning import ConversionPlan
from lmdbio.convert.source import BadInput, InputFault, Source
from lmdbio.errors import SourceError
from lmdbio.layout.datum import wrap
from lmdbio.layout.pool import BufferPool
from lmdbio.layout.writer import BrokenValue, DatabaseWriter, Value, Window

SKIP_HINT: Final = "--on-error skip leaves such files out"
_REPORT_EVERY_S: Final = 0.1
_MISNAMED_SHOWN: Final = 20

_AHEAD_SIZE: Final = 4 << 20
"""Bytes that are read ahead for each region whose leaves are being written."""
_BATCH_SIZE: Final = 1 << 20
"""Bytes of inline values that one thread reads at a time, so that small files do not cost a hand-over each."""
_BATCH_COUNT: Final = 32
"""The most files of inline values that one thread reads at a time."""


class Stopped(Exception):  # noqa: N818  # no error of its own: another thread's error ends this one's work
    """Another thread has failed."""


class Progress:
    """Counts records and bytes of all threads, and tells a callback from one thread at a time.

    Parameters
    ----------
    tell
        Called with the records and the input bytes that are done; or None.
    """

    def __init__(self, tell: Callable[[int, int], None] | None) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._records = 0
        self._bytes = 0
        self._told = 0.0

    def add(self, records: int, n_bytes: int) -> None:
        """Count more records; the callback is not called more than ten times a second."""
        with self._lock:
            self._records += records
            self._bytes += n_bytes
            now = time.monotonic()
            if self._tell is not None and now - self._told >= _REPORT_EVERY_S:
                self._told = now
                self._tell(self._records, self._bytes)

    def finish(self) -> None:
        """Tell the callback the final count."""
        if self._tell is not None:
            self._tell(self._records, self._bytes)


class Transfer:
    """The inputs of one source on their way into one database.

    Parameters
    ----------
    source
        Where they come from.
    plan
        Where they go.
    wrapped
        Whether a value is a Datum around the input's bytes, and not the bytes alone.
    skip
        Whether an input that cannot be read is left out; otherwise it ends the transfer.
    workers
        Threads that read and write, at most.
    progress
        What counts the records.
    """

    def __init__(
        self, source: Source, plan: ConversionPlan, *, wrapped: bool, skip: bool, workers: int, progress: Progress
    ) -> None:
        self._workers = workers
        self._source = source
        self._plan = plan
        self._wrapped = wrapped
        self._skip = skip
        self._progress = progress
        self._formats = FormatCount(len(plan.numbers))
        self._faults: dict[int, str] = {}
        self._stop = threading.Event()
        self._memory = BufferPool(keep=_AHEAD_SIZE)
        self._gate = Gate(workers)

    @property
    def skipped(self) -> tuple[BadInput, ...]:
        """The inputs that were left out, in the source's order."""
        return tuple(BadInput(self._source.shown(number), self._faults[number]) for number in sorted(self._faults))

    @property
    def n_skipped(self) -> int:
        """How many inputs were left out."""
        return len(self._faults)

    def misnamed(self) -> dict[str, int]:
        """Return how many inputs hold another format than their name says, by ``<extension> holding <format>``."""
        return self._formats.misnamed(self._source.inputs.paths, self._plan.numbers)

    def misnamed_paths(self) -> tuple[str, ...]:
        """Return the first such inputs in the source's order, a few."""
        return tuple(map(self._source.shown, self._formats.first(_MISNAMED_SHOWN, self._plan.numbers)))

    def run(self, writer: DatabaseWriter) -> None:
        """Write every region.

        Raises
        ------
        SourceError
            If an input cannot be read, unless such inputs are skipped.
        TargetError
            If the data file cannot be written.
        """
        regions = iter(range(self._plan.database.n_regions))
        lock = threading.Lock()
        # As many regions at a time as threads read: what each waits for, and its small rest, keep no reader idle.
        with (
            ThreadPoolExecutor(self._workers, "lmdbio-read") as readers,
            ThreadPoolExecutor(self._workers, "lmdbio-convert") as writing,
        ):
            try:
                futures = [writing.submit(self._work, writer, regions, lock, readers) for _ in range(self._workers)]
                wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                # Does nothing where all is done; after an error or an interrupt all stop at their next window.
                self._stop.set()
        errors = [error for error in (future.exception() for future in futures) if error is not None]
        for error in errors:
            if not isinstance(error, Stopped):
                raise error

    def _work(
        self, writer: DatabaseWriter, regions: Iterator[int], lock: threading.Lock, readers: ThreadPoolExecutor
    ) -> None:
        """Write regions until none is left."""
        while True:
            with lock:
                region = next(regions, None)
            if region is None:
                return
            for filling in [readers.submit(self._fill, writer, window) for window in writer.windows(region)]:
                filling.result()
            writer.write_rest(region, self._values(writer.rest_records(region), readers))

    def _fill(self, writer: DatabaseWriter, window: Window) -> None:
        self._check_going()
        writer.fill_window(window, self._read_values)
        self._progress.add(len(window.records), int(self._sizes(window.records).sum()))

    def _read_values(self, records: NDArray[np.int64], slots: list[memoryview]) -> Iterator[bool]:
        """Read the values of records to where they go, and tell of each whether it could be read."""
        inputs, numbers = self._source.inputs, self._plan.numbers[records]
        facts = (records.tolist(), numbers.tolist(), inputs.sizes[numbers].tolist(), inputs.labels[numbers].tolist())
        with self._gate.turn():
            yield from (self._read_value(*each) for each in zip(*facts, slots, strict=True))

    def _read_value(self, record: int, number: int, size: int, label: int, slot: memoryview) -> bool:
        payload = slot
        if self._wrapped:
            before, after = wrap(size, label)
            begin = len(before)
            payload = slot[begin : begin + size]
            slot[:begin] = before
            slot[begin + size :] = after
        try:
            self._source.read_into(number, payload, on_wait=self._gate.open)
        except InputFault as exc:
            self._skip_or_raise(number, exc)
            return False
        self._formats.look(record, self._source.inputs.paths[number], bytes(payload[:HEAD_SIZE]))
        return True

    def _values(self, records: NDArray[np.int64], readers: ThreadPoolExecutor) -> Iterator[Value | None]:
        """Yield the values of records, None for one that is left out; small ones are read ahead by others."""
        database = self._plan.database
        is_inline = database.inline[records]
        large = records[~is_inline]
        for record, size in zip(large.tolist(), self._sizes(large).tolist(), strict=True):
            yield self._streamed(record)
            self._progress.add(1, size)
        inline = records[is_inline]
        waiting: deque[Future[list[Value | None]]] = deque()
        most = _AHEAD_SIZE // _BATCH_SIZE
        for batch in cut_batches(inline, database.lengths[inline]):
            if len(waiting) == most:
                yield from waiting.popleft().result()
            waiting.append(readers.submit(self._read_batch, batch))
        while waiting:
            yield from waiting.popleft().result()

    def _read_batch(self, records: NDArray[np.int64]) -> list[Value | None]:
        """Return small values, each in one piece."""
        self._check_going()
        ends = np.cumsum(self._plan.database.lengths[records])
        memory = self._memory.take(int(ends[-1])).data
        slots = [memory[begin:end] for begin, end in pairwise([0, *ends.tolist()])]
        was_read = list(self._read_values(records, slots))
        self._progress.add(len(records), int(self._sizes(records).sum()))
        return [(slot,) if is_there else None for slot, is_there in zip(slots, was_read, strict=True)]

    def _sizes(self, records: NDArray[np.int64]) -> NDArray[np.uint32]:
        return self._source.inputs.sizes[self._plan.numbers[records]]

    def _check_going(self) -> None:
        if self._stop.is_set():
            raise Stopped

    def _skip_or_raise(self, number: int, exc: InputFault) -> None:
        if not self._skip:
            raise SourceError(f"{self._source.shown(number)}: {exc}; {SKIP_HINT}") from exc
        self._faults[number] = str(exc)

    def _streamed(self, record: int) -> Value | None:
        """Return a value that is too large to hold, None if not even its first bytes can be read."""
        self._check_going()
        number = int(self._plan.numbers[record])
        pieces = self._source.pieces(number)
        try:
            first = next(pieces)
        except InputFault as exc:
            self._skip_or_raise(number, exc)
            return None
        return self._parts(record, first, pieces)

    def _parts(self, record: int, first: bytes, more: Iterator[bytes]) -> Iterator[bytes]:
        number, inputs = int(self._plan.numbers[record]), self._source.inputs
        size, label = int(inputs.sizes[number]), int(inputs.labels[number])
        before, after = wrap(size, label) if self._wrapped else (b"", b"")
        yield before
        yield first
        try:
            yield from more
        except InputFault as exc:
            self._skip_or_raise(number, exc)
            raise BrokenValue from exc
        yield after
        self._formats.look(record, inputs.paths[number], first[:HEAD_SIZE])


def cut_batches(records: NDArray[np.int64], sizes: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return records in batches for one thread each.

    Parameters
    ----------
    records
        Record numbers, int64, shape (n_records,).
    sizes
        Bytes of their values, int64, shape (n_records,).
    """
    if not len(records):
        return []
    before = np.cumsum(sizes) - sizes
    # A batch ends where the bytes before it pass a multiple of its size, and at a multiple of its count.
    steps = (np.diff(before // _BATCH_SIZE) != 0) | (np.diff(np.arange(len(records)) // _BATCH_COUNT) != 0)
    return np.split(records, np.flatnonzero(steps) + 1)
