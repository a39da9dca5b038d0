"""Two ways of putting a run of parts on the disk: gathered without copying, or copied into aligned buffers.

Both take the parts of a contiguous range of a file one by one. Gathering is as fast as the page cache and does not
touch the bytes; aligned direct writes are the faster way on a disk, and overlap with the copying.
"""

import mmap
import threading
from collections import deque
from concurrent.futures import Executor, Future, wait
from queue import SimpleQueue
from typing import Final, Protocol

from lmdbio.layout.target import BLOCK_SIZE, MAX_PARTS, Part, TargetFile

_GATHER_SIZE: Final = 16 << 20
_ZEROS: Final = memoryview(bytes(1 << 16))


class Sink(Protocol):
    """Where the parts of a contiguous range go, in order."""

    def write(self, parts: list[Part], size: int) -> None:
        """Take parts of ``size`` bytes in all; they may not change until :meth:`settle` or :meth:`finish` returns."""

    def skip(self, size: int) -> None:
        """Leave zeros."""

    def settle(self) -> None:
        """Return once the parts that were given may change."""

    def finish(self) -> None:
        """Return once everything is written."""

    def abandon(self) -> None:
        """Give up the rest; for use after an error."""


class GatherSink:
    """Parts gathered into few large system calls, none copied.

    Parameters
    ----------
    file
        Where they go.
    offset
        Where the first one goes.
    """

    def __init__(self, file: TargetFile, offset: int) -> None:
        self._file = file
        self._offset = offset
        self._parts: list[Part] = []
        self._size = 0

    def write(self, parts: list[Part], size: int) -> None:
        """See :class:`Sink`."""
        if len(self._parts) + len(parts) > MAX_PARTS:
            self.settle()
        self._parts += parts
        self._size += size
        if self._size >= _GATHER_SIZE:
            self.settle()

    def skip(self, size: int) -> None:
        """See :class:`Sink`."""
        self.settle()
        self._offset += size

    def settle(self) -> None:
        """See :class:`Sink`."""
        self._file.write(self._offset, self._parts)
        self._offset += self._size
        self._parts, self._size = [], 0

    def finish(self) -> None:
        """See :class:`Sink`."""
        self.settle()

    def abandon(self) -> None:
        """See :class:`Sink`."""
        self._parts = []


class WriteBuffers:
    """A bounded number of page-aligned buffers, made when first wanted; a taker waits while all are taken.

    Parameters
    ----------
    n_buffers
        The most buffers.
    size
        Bytes of each, a multiple of ``BLOCK_SIZE``.
    """

    def __init__(self, n_buffers: int, size: int) -> None:
        self.size = size
        self._left = n_buffers
        self._lock = threading.Lock()
        self._free: SimpleQueue[memoryview] = SimpleQueue()

    def take(self) -> memoryview:
        """Return a buffer of any content."""
        with self._lock:
            make = self._left > 0 and self._free.empty()
            self._left -= make
        return memoryview(mmap.mmap(-1, self.size)) if make else self._free.get()

    def give_back(self, buffer: memoryview) -> None:
        """Return a buffer for others to take."""
        self._free.put(buffer)


class DirectSink:
    """Parts copied into aligned buffers, each written by another thread while the next is filled.

    The range begins at a multiple of ``BLOCK_SIZE``; zeros fill its last block.

    Parameters
    ----------
    file
        Where they go.
    offset
        Where the first one goes.
    pool
        The buffers; one is held at a time, beside those being written.
    executor
        Who writes.
    """

    def __init__(self, file: TargetFile, offset: int, *, pool: WriteBuffers, executor: Executor) -> None:
        self._file = file
        self._offset = offset
        self._pool = pool
        self._executor = executor
        self._buffer: memoryview | None = None
        self._filled = 0
        self._writes: deque[Future[None]] = deque()

    def write(self, parts: list[Part], size: int) -> None:
        """See :class:`Sink`."""
        for part in parts:
            if self._buffer is not None and self._filled + len(part) < self._pool.size:
                self._buffer[self._filled : self._filled + len(part)] = part
                self._filled += len(part)
            else:
                self._write_across(memoryview(part))

    def _write_across(self, part: memoryview) -> None:
        """Copy a part that fills one buffer or more."""
        while len(part):
            if self._buffer is None:
                self._buffer = self._pool.take()
            count = min(len(part), self._pool.size - self._filled)
            self._buffer[self._filled : self._filled + count] = part[:count]
            self._filled += count
            part = part[count:]
            if self._filled == self._pool.size:
                self._submit()

    def skip(self, size: int) -> None:
        """See :class:`Sink`."""
        to_block = min(size, -self._filled % BLOCK_SIZE)
        self._write_zeros(to_block)
        whole = (size - to_block) // BLOCK_SIZE * BLOCK_SIZE
        if whole > 0:
            self._submit()
            self._offset += whole
        self._write_zeros(size - to_block - whole)

    def settle(self) -> None:
        """See :class:`Sink`."""

    def finish(self) -> None:
        """See :class:`Sink`."""
        self._write_zeros(-self._filled % BLOCK_SIZE)
        self._submit()
        while self._writes:
            self._writes.popleft().result()

    def abandon(self) -> None:
        """See :class:`Sink`."""
        if self._buffer is not None:
            self._pool.give_back(self._buffer)
            self._buffer = None
        wait(self._writes)

    def _write_zeros(self, size: int) -> None:
        for begin in range(0, size, len(_ZEROS)):
            self._write_across(_ZEROS[: size - begin])

    def _submit(self) -> None:
        buffer, filled = self._buffer, self._filled
        if buffer is None:
            return
        while self._writes and self._writes[0].done():
            self._writes.popleft().result()  # where it raises, the buffer is still this sink's to give back
        self._buffer, self._filled = None, 0
        self._writes.append(self._executor.submit(self._write_block, self._offset, buffer, filled))
        self._offset += filled

    def _write_block(self, offset: int, buffer: memoryview, filled: int) -> None:
        try:
            self._file.write_direct(offset, buffer[:filled])
        finally:
            self._pool.give_back(buffer)
