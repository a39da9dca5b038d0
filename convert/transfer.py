"""Inputs into a database's pages: threads that each read the files of one region and hand them to the writer."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Final

from lmdbio.convert.image_format import HEAD_SIZE, FormatCount
from lmdbio.convert.planning import ConversionPlan
from lmdbio.convert.source import NO_MORE, BadInput, Content, InputFault, Source
from lmdbio.errors import SourceError
from lmdbio.layout.datum import wrap
from lmdbio.layout.writer import DatabaseWriter, Value

SKIP_HINT: Final = "--on-error skip leaves such files out"
_REPORT_EVERY_S: Final = 0.1


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

    @property
    def skipped(self) -> tuple[BadInput, ...]:
        """The inputs that were left out, in the source's order."""
        return tuple(BadInput(self._source.shown(number), self._faults[number]) for number in sorted(self._faults))

    def misnamed(self) -> dict[str, int]:
        """Return how many inputs hold another format than their name says, by ``<extension> holding <format>``."""
        return self._formats.misnamed(self._source.inputs.paths, self._plan.numbers)

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
        with ThreadPoolExecutor(workers, thread_name_prefix="lmdbio-convert") as pool:
            try:
                futures = [pool.submit(self._work, writer, regions, lock) for _ in range(workers)]
                wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                # Does nothing where all is done; after an error or an interrupt the others stop at their next input.
                self._stop.set()
        errors = [error for error in (future.exception() for future in futures) if error is not None]
        for error in errors:
            if not isinstance(error, Stopped):
                raise error

    def _work(self, writer: DatabaseWriter, regions: Iterator[int], lock: threading.Lock) -> None:
        while True:
            with lock:
                region = next(regions, None)
            if region is None:
                return
            writer.write_region(region, self._values(region))

    def _values(self, region: int) -> Iterator[Value | None]:
        """Yield the value of each record of a region, None for one that is left out."""
        records = self._plan.database.region_records(region)
        numbers = self._plan.numbers[records]
        inputs = self._source.inputs
        facts = (records, numbers, inputs.sizes[numbers], inputs.labels[numbers])
        for record, number, size, label in zip(*(fact.tolist() for fact in facts), strict=True):
            if self._stop.is_set():
                raise Stopped
            content = self._read(record, number)
            self._progress.add(1, size)
            yield None if content is None else self._value(content, number, size, label)

    def _read(self, record: int, number: int) -> Content | None:
        try:
            content = self._source.read(number)
        except InputFault as exc:
            if not self._skip:
                raise SourceError(f"{self._source.shown(number)}: {exc}; {SKIP_HINT}") from exc
            self._faults[number] = str(exc)
            return None
        self._formats.look(record, self._source.inputs.paths[number], content[0][:HEAD_SIZE])
        return content

    def _value(self, content: Content, number: int, size: int, label: int) -> Value:
        first, more = content
        before, after = wrap(size, label) if self._wrapped else (b"", b"")
        if more is NO_MORE:
            return (before, first, after) if self._wrapped else (first,)
        return self._streamed(before, first, more, after, number)

    def _streamed(
        self, before: bytes, first: bytes, more: Iterable[bytes], after: bytes, number: int
    ) -> Iterator[bytes]:
        """Yield the parts of a value that is too large to hold; a fault in its midst cannot be skipped any more."""
        yield before
        yield first
        try:
            yield from more
        except InputFault as exc:
            raise SourceError(f"{self._source.shown(number)}: {exc}: let it rest, and convert again") from exc
        yield after
