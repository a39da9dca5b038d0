"""A file that is not one: bytes in memory, with what a real file does to a reader: it waits, it fails, it is slow."""

import threading
import time
from collections.abc import Callable

from lmdbio.errors import ReadError
from lmdbio.reader.space import Space


class FakeSource:
    """A record source over bytes that records its calls.

    Parameters
    ----------
    content
        The file.
    cached
        Says of an offset whether its bytes are in memory; None: the system cannot tell.
    delay_s
        Seconds that a read that waits takes.
    broken
        Offset of a byte that cannot be read.
    """

    path = "fake"

    def __init__(
        self,
        content: bytes,
        *,
        cached: Callable[[int], bool] | None = lambda offset: False,
        delay_s: float = 0.0,
        broken: int | None = None,
    ) -> None:
        self.space = Space.of([self.path], [len(content)])
        self._content = content
        self._cached = cached
        self._delay_s = delay_s
        self._broken = broken
        self._lock = threading.Lock()
        self._in_flight = 0
        self.most_in_flight = 0
        self.waits: list[tuple[int, int]] = []  # (offset, length) of reads that waited
        self.hits: list[tuple[int, int]] = []  # (offset, length) of reads from memory
        self.threads: set[str] = set()

    def read_cached(self, offset: int, buffer: memoryview) -> int | None:
        if self._cached is None:
            return None
        if self._broken is not None or not self._cached(offset):
            return 0
        with self._lock:
            self.hits.append((offset, buffer.nbytes))
        buffer[:] = self._content[offset : offset + buffer.nbytes]
        return buffer.nbytes

    def read_into(self, offset: int, buffer: memoryview) -> None:
        with self._lock:
            self.waits.append((offset, buffer.nbytes))
            self.threads.add(threading.current_thread().name)
            self._in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self._in_flight)
        time.sleep(self._delay_s)
        with self._lock:
            self._in_flight -= 1
        if self._broken is not None and offset <= self._broken < offset + buffer.nbytes:
            raise ReadError(self.path, offset, buffer.nbytes, "EIO: Input/output error")
        buffer[:] = self._content[offset : offset + buffer.nbytes]
