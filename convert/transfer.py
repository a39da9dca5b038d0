"""Inputs into a database's pages: many threads read files ahead, two hand them to the writer region by region.

So the number of files in flight depends neither on how many partitions there are nor on how the file is written, and
what is held in memory does not grow with the number of threads.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lmdbio.convert.image_format import HEAD_SIZE, FormatCount
from lmdbio.convert.planning import ConversionPlan
from lmdbio.convert.source import NO_MORE, WHOLE_SIZE, BadInput, Content, InputFault, Source
from lmdbio.errors import SourceError
from lmdbio.layout.datum import wrap
from lmdbio.layout.pool import BufferPool
from lmdbio.layout.writer import DatabaseWriter, Value

SKIP_HINT: Final = "--on-error skip leaves such files out"
_REPORT_EVERY_S: Final = 0.1
_MISNAMED_SHOWN: Final = 20

_N_WRITING: Final = 2
"""Regions written at the same time: one is filled while the other waits for its last writes."""
_AHEAD_SIZE: Final = 24 << 20
"""Bytes that are read ahead for each region that is being written."""
_BATCH_SIZE: Final = 1 << 20
"""Bytes that one thread reads at a time, so that small files do not cost a hand-over each."""
_BATCH_COUNT: Final = 32
"""The most files that one thread reads at a time."""


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
    progress
        What counts the records.
    """

    def __init__(self, source: Source, plan: ConversionPlan, *, wrapped: bool, skip: bool, progress: Progress) -> None:
        self._source = source
        self._plan = plan
        self._wrapped = wrapped
        self._skip = skip
        self._progress = progress
        self._formats = FormatCount(len(plan.numbers))
        self._faults: dict[int, str] = {}
        self._stop = threading.Event()
        self._memory = BufferPool(keep=_N_WRITING * _AHEAD_SIZE)

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

    def run(self, writer: DatabaseWriter, *, workers: int) -> None:
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
        with (
            ThreadPoolExecutor(workers, "lmdbio-read") as readers,
            ThreadPoolExecutor(min(workers, _N_WRITING), "lmdbio-convert") as writing,
        ):
            try:
                futures = [
                    writing.submit(self._work, writer, regions, lock, readers) for _ in range(min(workers, _N_WRITING))
                ]
                wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                # Does nothing where all is done; after an error or an interrupt all stop at their next batch.
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
            writer.write_region(region, self._values(region, readers))

    def _values(self, region: int, readers: ThreadPoolExecutor) -> Iterator[Value | None]:
        """Yield the value of each record of a region, None for one that is left out, while others read ahead."""
        records = self._plan.database.region_records(region)
        sizes = self._source.inputs.sizes[self._plan.numbers[records]]
        waiting: deque[tuple[Future[list[Value | None]], int]] = deque()
        held = 0
        for batch, size in zip(*cut_batches(records, sizes), strict=True):
            while waiting and held + size > _AHEAD_SIZE:
                held -= waiting[0][1]
                yield from self._await(*waiting.popleft())
            waiting.append((readers.submit(self._read_batch, batch), size))
            held += size
        while waiting:
            yield from self._await(*waiting.popleft())

    def _await(self, batch: "Future[list[Value | None]]", size: int) -> list[Value | None]:
        values = batch.result()
        self._progress.add(len(values), size)
        return values

    def _read_batch(self, records: NDArray[np.int64]) -> list[Value | None]:
        if self._stop.is_set():
            raise Stopped
        inputs, numbers = self._source.inputs, self._plan.numbers[records]
        sizes = inputs.sizes[numbers]
        ends = np.cumsum(np.minimum(sizes, WHOLE_SIZE) + np.int64(1))
        memory = self._memory.take(int(ends[-1])).data
        parts = map(memory.__getitem__, map(slice, [0, *ends.tolist()], ends.tolist()))
        facts = (records.tolist(), numbers.tolist(), sizes.tolist(), inputs.labels[numbers].tolist())
        return [self._read_value(*each) for each in zip(*facts, parts, strict=True)]

    def _read_value(self, record: int, number: int, size: int, label: int, memory: memoryview) -> Value | None:
        content = self._read(record, number, memory)
        return None if content is None else self._value(content, number, size, label)

    def _read(self, record: int, number: int, memory: memoryview) -> Content | None:
        try:
            content = self._source.read(number, memory)
        except InputFault as exc:
            if not self._skip:
                raise SourceError(f"{self._source.shown(number)}: {exc}; {SKIP_HINT}") from exc
            self._faults[number] = str(exc)
            return None
        self._formats.look(record, self._source.inputs.paths[number], bytes(content[0][:HEAD_SIZE]))
        return content

    def _value(self, content: Content, number: int, size: int, label: int) -> Value:
        first, more = content
        before, after = wrap(size, label) if self._wrapped else (b"", b"")
        if more is NO_MORE:
            return (before, first, after) if self._wrapped else (first,)
        return self._streamed(before, first, more, after, number)

    def _streamed(
        self, before: bytes, first: bytes | memoryview, more: Iterable[bytes], after: bytes, number: int
    ) -> Iterator[bytes | memoryview]:
        """Yield the parts of a value that is too large to hold; a fault in its midst cannot be skipped any more."""
        yield before
        yield first
        try:
            yield from more
        except InputFault as exc:
            raise SourceError(f"{self._source.shown(number)}: {exc}: let it rest, and convert again") from exc
        yield after


def cut_batches(records: NDArray[np.int64], sizes: NDArray[np.uint32]) -> tuple[list[NDArray[np.int64]], list[int]]:
    """Return records in batches for one thread each, and the bytes of each batch.

    Parameters
    ----------
    records
        Record numbers, int64, shape (n_records,).
    sizes
        Bytes of their inputs, uint32, shape (n_records,).
    """
    if not len(records):
        return [], []
    before = np.cumsum(sizes, dtype=np.int64) - sizes
    # A batch ends where the bytes before it pass a multiple of its size, and at a multiple of its count.
    steps = (np.diff(before // _BATCH_SIZE) != 0) | (np.diff(np.arange(len(records)) // _BATCH_COUNT) != 0)
    starts = np.concatenate([[0], np.flatnonzero(steps) + 1])
    return np.split(records, starts[1:]), np.add.reduceat(sizes, starts, dtype=np.int64).tolist()
