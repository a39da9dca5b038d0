"""What a reader counts while it works: reads, bytes, waiting; and, where asked, when each read and each wait was."""

import resource
import threading
from dataclasses import dataclass, fields
from time import perf_counter

from lmdbio.reader.timeline import Timeline

_LATEST = ("peak_held_bytes",)


@dataclass(frozen=True, slots=True)
class Stats:
    """What one rank's reader has done since it was opened; the difference of two is what it did between.

    Page faults and context switches are the whole process's (getrusage(2)).
    """

    batches: int = 0
    """Batches handed out."""
    records: int = 0
    """Records of them."""
    useful_bytes: int = 0
    """Bytes of their values."""
    read_bytes: int = 0
    """Bytes that were read: gaps between records and what alignment adds count, and what was read ahead."""
    reads: int = 0
    """Positioned reads, or collective ones."""
    elapsed_s: float = 0.0
    """Seconds since the reader was opened."""
    next_s: float = 0.0
    """Seconds that the consumer has spent in ``next()``: waiting, reading itself, putting batches together."""
    wait_s: float = 0.0
    """Seconds of them in which units were read or waited for."""
    verify_s: float = 0.0
    """Seconds of them in which checksums were compared."""
    decode_s: float = 0.0
    """Seconds of them in which the consumer waited for ``decode=``."""
    read_s: float = 0.0
    """Seconds of all reads, one after the other; many are in flight at a time."""
    busy_s: float = 0.0
    """Seconds in which reads were in flight."""
    retries: int = 0
    """Reads that were tried again."""
    peak_held_bytes: int = 0
    """The most bytes of units that were held at a time: being read, waiting, or not yet given back."""
    minor_faults: int = 0
    """Page faults without I/O."""
    major_faults: int = 0
    """Page faults that waited for I/O."""
    voluntary_switches: int = 0
    """Context switches because a thread waited."""
    involuntary_switches: int = 0
    """Context switches because a thread had run long enough."""

    @property
    def read_size(self) -> float:
        """Bytes of a read, on average."""
        return self.read_bytes / max(1, self.reads)

    @property
    def depth(self) -> float:
        """Reads in flight, on average over the time in which there were any."""
        return self.read_s / self.busy_s if self.busy_s else 0.0

    def __sub__(self, before: "Stats") -> "Stats":
        values = {
            field.name: getattr(self, field.name) - (0 if field.name in _LATEST else getattr(before, field.name))
            for field in fields(self)
        }
        return Stats(**values)


class Meter:
    """Counts for one reader, over all its epochs.

    The methods about reads are called under the lock of whoever reads, the others by the consumer alone.
    """

    def __init__(self) -> None:
        self._opened_at = perf_counter()
        self._usage = resource.getrusage(resource.RUSAGE_SELF)
        self._reads = self._read_bytes = self._peak_held = 0
        self._in_flight = 0
        self._changed_at = 0.0
        self._read_s = self._busy_s = 0.0
        self._batches = self._records = self._useful_bytes = 0
        self._next_s = self._wait_s = self._verify_s = self._decode_s = 0.0
        self.timeline: Timeline | None = None
        """Where spans are noted, if anywhere."""

    def begin_read(self) -> float:
        """Count a task as in flight, and return the time."""
        now = perf_counter()
        self._pass_time(now)
        self._in_flight += 1
        return now

    def end_read(self, begun_at: float, *, n_reads: int, n_bytes: int) -> None:
        """Count a task of some reads as done."""
        now = perf_counter()
        self._pass_time(now)
        self._in_flight -= 1
        self._reads += n_reads
        self._read_bytes += n_bytes
        if self.timeline is not None:
            self.timeline.add("read", begun_at, now, threading.get_ident(), {"bytes": n_bytes, "reads": n_reads})

    def note_held(self, n_bytes: int) -> None:
        """Take notice of how many bytes are held."""
        self._peak_held = max(self._peak_held, n_bytes)

    def note_wait(self, begun_at: float) -> None:
        """Count the time since then as spent on getting a unit."""
        self._wait_s += self._span("wait", begun_at)

    def note_verified(self, begun_at: float) -> None:
        """Count the time since then as spent on checksums."""
        self._verify_s += self._span("verify", begun_at)

    def note_decoded(self, begun_at: float) -> None:
        """Count the time since then as spent on waiting for decoding."""
        self._decode_s += self._span("decode", begun_at)

    def note_batch(self, begun_at: float, *, n_records: int, n_bytes: int) -> None:
        """Count a batch that ``next()``, called at that time, hands out now."""
        self._next_s += self._span("next", begun_at)
        self._batches += 1
        self._records += n_records
        self._useful_bytes += n_bytes

    def stats(self, *, retries: int) -> Stats:
        """Return what was counted so far."""
        usage, before = resource.getrusage(resource.RUSAGE_SELF), self._usage
        now = perf_counter()
        open_s = (now - self._changed_at) if self._in_flight else 0.0
        return Stats(
            batches=self._batches,
            records=self._records,
            useful_bytes=self._useful_bytes,
            read_bytes=self._read_bytes,
            reads=self._reads,
            elapsed_s=now - self._opened_at,
            next_s=self._next_s,
            wait_s=self._wait_s,
            verify_s=self._verify_s,
            decode_s=self._decode_s,
            read_s=self._read_s + self._in_flight * open_s,
            busy_s=self._busy_s + open_s,
            retries=retries,
            peak_held_bytes=self._peak_held,
            minor_faults=usage.ru_minflt - before.ru_minflt,
            major_faults=usage.ru_majflt - before.ru_majflt,
            voluntary_switches=usage.ru_nvcsw - before.ru_nvcsw,
            involuntary_switches=usage.ru_nivcsw - before.ru_nivcsw,
        )

    def _span(self, name: str, begun_at: float) -> float:
        now = perf_counter()
        if self.timeline is not None:
            self.timeline.add(name, begun_at, now, threading.get_ident(), {})
        return now - begun_at

    def _pass_time(self, now: float) -> None:
        if self._in_flight:
            passed = now - self._changed_at
            self._busy_s += passed
            self._read_s += self._in_flight * passed
        self._changed_at = now
