"""When each read and each wait was, as a trace that browsers show (``chrome://tracing``, Perfetto)."""

import json
import os
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lmdbio.layout.path import PathLike

DEFAULT_SPANS: Final = 1_000_000
"""Spans that are kept, the latest: about 200 MB."""


@dataclass(frozen=True, slots=True)
class Span:
    """What a thread did for some time."""

    name: str
    """``next`` and ``decode`` of the consumer, ``wait`` and ``verify`` within ``next``, ``read`` of any thread."""
    begin_s: float
    end_s: float
    """By ``time.perf_counter()``."""
    thread: int
    """The thread's identifier."""
    facts: Mapping[str, int]
    """Of a read: ``bytes`` and ``reads``."""


@dataclass(slots=True)
class Timeline:
    """Spans in the order in which they ended. Any thread may add.

    Parameters
    ----------
    n_spans
        How many are kept at most, the latest.
    """

    n_spans: int = DEFAULT_SPANS
    _spans: deque[Span] = field(init=False)
    _consumer: int = field(init=False)

    def __post_init__(self) -> None:
        self._spans = deque(maxlen=self.n_spans)
        self._consumer = threading.get_ident()

    def add(self, name: str, begin_s: float, end_s: float, thread: int, facts: Mapping[str, int]) -> None:
        """Note a span that ends now."""
        self._spans.append(Span(name, begin_s, end_s, thread, facts))

    @property
    def spans(self) -> list[Span]:
        """What was noted so far."""
        return list(self._spans)

    def to_fields(self, *, rank: int = 0) -> dict[str, Any]:
        """Return the trace in the Trace Event Format's JSON object form, times in microseconds; a rank is a process.

        Source: "Trace Event Format", by the Chromium project: complete events (``"ph": "X"``) and metadata (``"M"``).
        """
        spans = self.spans
        begin = min((span.begin_s for span in spans), default=0.0)
        numbers = {self._consumer: 0}
        for span in spans:
            numbers.setdefault(span.thread, len(numbers))
        names = [
            {"name": "thread_name", "ph": "M", "pid": rank, "tid": number, "args": {"name": _thread_name(number)}}
            for number in numbers.values()
        ]
        events = [
            {
                "name": span.name,
                "cat": "lmdbio",
                "ph": "X",
                "ts": round((span.begin_s - begin) * 1e6, 3),
                "dur": round((span.end_s - span.begin_s) * 1e6, 3),
                "pid": rank,
                "tid": numbers[span.thread],
                "args": dict(span.facts),
            }
            for span in spans
        ]
        process = {"name": "process_name", "ph": "M", "pid": rank, "args": {"name": f"rank {rank}"}}
        return {"traceEvents": [process, *names, *events], "displayTimeUnit": "ms"}

    def save(self, path: PathLike, *, rank: int = 0) -> None:
        """Write the trace; it appears whole, by a rename.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        part = Path(f"{os.fspath(path)}.partial-{os.getpid()}")
        try:
            part.write_text(json.dumps(self.to_fields(rank=rank), separators=(",", ":")))
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def _thread_name(number: int) -> str:
    return f"reads ahead {number}" if number else "consumer"
