"""Reading into buffers by offset: from the page cache without waiting where the system can, and the errors' cause."""

import errno
import logging
import os
from collections.abc import Callable
from threading import Event, Lock
from time import perf_counter
from typing import Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lmdbio.errors import ReadError
from lmdbio.layout.file import DataFile, read_nowait
from lmdbio.layout.path import PathLike
from lmdbio.reader.file_state import cached_share
from lmdbio.reader.plan import ReadPlan
from lmdbio.reader.space import Space

_CACHED_RATE: Final = 2e9
"""Bytes a second from which a read is taken to come from memory, where the system cannot say. A copy within memory is
several times faster; a single read from a fast disk is slower, since other reads are in flight beside it."""
WARM_SHARE: Final = 0.5
"""A file with less of it in memory is cold: most reads will have to wait."""
TASK_SIZE: Final = 128 << 10
"""Small reads are handed out together until they come to this many bytes, so that handing out costs little."""

_PASSING: Final = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT)
"""Errors that may be gone a moment later."""
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 5.0
_log = logging.getLogger("lmdbio.reader")

Read: TypeAlias = tuple[int, int, int]
"""First byte in the file, bytes, first byte in the buffer."""


class RecordSource(Protocol):
    """What the reader reads from."""

    @property
    def space(self) -> Space:
        """Where the bytes of the file, or files, are."""

    def read_cached(self, offset: int, buffer: memoryview) -> int | None:
        """Fill the buffer as far as that needs no waiting and return the bytes filled; None if that cannot be known."""

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill the buffer, or raise ReadError."""


class RecordFile(DataFile):
    """A data file read by plan. Reads that fail for a while are tried again.

    It closes with the last reference to it, so that a thread that still reads never meets another file's descriptor.

    Parameters
    ----------
    path
        The file.
    in_order
        Whether this machine reads the file from end to end, so that what the kernel reads ahead is needed, too, and
        comes in large folios, which are faster to copy. Otherwise the kernel is told not to guess.
    retries
        See :class:`lmdbio.reader.options.ReadOptions`.
    """

    def __init__(self, path: PathLike, *, in_order: bool = False, retries: int = 0) -> None:
        self._lock = Lock()
        self._gives_up = Event()
        super().__init__(path)
        status = os.fstat(self.fileno())
        self._identity = (status.st_ino, status.st_size)
        self._retries = retries
        self._n_retries = 0
        self.space = Space.of([self.path], [self.size])
        self._tells_cached = True
        if not in_order and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self.fileno(), 0, 0, os.POSIX_FADV_RANDOM)

    @property
    def align(self) -> int:
        """What offset, length and place of reads should be multiples of; 1: nothing."""
        return 1

    def is_cold(self) -> bool:
        """Return whether most of the file's bytes are known not to be in memory, so that reads will have to wait."""
        share = cached_share(self.fileno(), self.size)
        return share is not None and share < WARM_SHARE

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            self.close()

    @property
    def n_retries(self) -> int:
        """How many reads were tried again so far."""
        return self._n_retries

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill the buffer, or raise ReadError once it was tried again as often as is allowed."""
        n_failed = 0
        while True:
            try:
                self._read_once(offset, buffer)
                return
            except ReadError as exc:
                cause = exc.__cause__
                code = cause.errno if isinstance(cause, OSError) else None
                if code not in _PASSING:
                    raise
                if n_failed == self._retries or self._gives_up.is_set():
                    reason = f"{exc.reason}, {n_failed + 1} times" if n_failed else exc.reason
                    raise ReadError(exc.path, exc.offset, exc.length, reason) from cause
                n_failed += 1
                self._note_retry(exc, n_failed)
                if code == errno.ESTALE:
                    try:
                        self._reopen()
                    except ReadError as gone:
                        raise ReadError(exc.path, exc.offset, exc.length, gone.reason) from gone

    def _read_once(self, offset: int, buffer: memoryview) -> None:
        super().read_into(offset, buffer)

    def _note_retry(self, error: ReadError, n_failed: int) -> None:
        """Count, log and wait."""
        pause = min(_FIRST_PAUSE_S * 4 ** (n_failed - 1), _LONGEST_PAUSE_S)
        with self._lock:
            self._n_retries += 1
        _log.warning("%s; trying again in %.2f s (%d of %d)", error, pause, n_failed, self._retries)
        self._gives_up.wait(pause)

    def stop_retrying(self) -> None:
        """Let reads that are under way fail at once where they fail; any thread may call."""
        self._gives_up.set()

    def _reopen(self) -> None:
        """Open the same file anew, under the same descriptor: a server has forgotten the handle that it gave before.

        Raises
        ------
        ReadError
            If the file is not there any more, or is another one.
        """
        self._replace(self.fileno(), os.O_RDONLY)

    def _replace(self, fd: int, flags: int) -> None:
        """Make a descriptor one of the same file, opened anew, unless it was closed meanwhile; threads may read by it.

        Of a stale handle nothing can be asked: what the file was is known from when it was opened first.
        """
        with self._lock:
            if fd < 0:
                return
            try:
                new = os.open(self.path, flags | os.O_CLOEXEC)
            except OSError as exc:
                reason = f"the file cannot be opened again: {exc.strerror}: was it removed?"
                raise ReadError(self.path, 0, 0, reason) from exc
            try:
                after = os.fstat(new)
                if self._identity != (after.st_ino, after.st_size):
                    reason = "expected the file that was opened, found another: was it replaced?"
                    raise ReadError(self.path, 0, 0, reason)
                os.dup2(new, fd, inheritable=False)
            finally:
                os.close(new)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        with self._lock:
            super().close()

    def read_cached(self, offset: int, buffer: memoryview) -> int | None:
        """Fill the buffer from the page cache and return the bytes filled; None where the file system cannot."""
        done = 0
        while self._tells_cached and done < buffer.nbytes:
            count = read_nowait(self.fileno(), [buffer[done:]], offset + done)
            if count is None:
                self._tells_cached = False
            elif count == 0:
                return done
            else:
                done += count
        return done if self._tells_cached else None


def reads_of(plan: ReadPlan) -> list[Read]:
    """Return the plan's reads one by one."""
    return list(zip(plan.offsets.tolist(), plan.lengths.tolist(), plan.places.tolist(), strict=True))


def end_of_task(reads: list[Read], first: int) -> int:
    """Return the end of what one thread takes at once: a read, or small ones until they come to ``TASK_SIZE``."""
    size, end = 0, first
    while size < TASK_SIZE and end < len(reads):
        size += reads[end][1]
        end += 1
    return end


def read_cached(source: RecordSource, reads: list[Read], first: int, buffer: memoryview) -> int:
    """Do the reads from ``first`` on while their bytes are in memory; return the first that is not done."""
    for number in range(first, len(reads)):
        offset, length, place = reads[number]
        if source.read_cached(offset, buffer[place : place + length]) != length:
            return number
    return len(reads)


def read_all(source: RecordSource, reads: list[Read], buffer: memoryview, *, on_miss: Callable[[], None]) -> bool:
    """Do the reads and return whether all bytes were in memory.

    ``on_miss`` is called once, before the first wait, as soon as bytes turn out not to be in memory; where the system
    cannot tell beforehand, after it.
    """
    was_cached = True
    for offset, length, place in reads:
        view = buffer[place : place + length]
        done = source.read_cached(offset, view)
        if done == length:
            continue
        if done is None:
            begin = perf_counter()
            source.read_into(offset, view)
            is_cached = length >= _CACHED_RATE * (perf_counter() - begin)
        else:
            is_cached = False
        if was_cached and not is_cached:
            was_cached = False
            on_miss()
        if done is not None:
            source.read_into(offset + done, view[done:])
    return was_cached


def find_unreadable(
    source: RecordSource,
    error: ReadError,
    offsets: NDArray[np.int64],
    lengths: NDArray[np.int64],
    key_of: Callable[[int], bytes],
) -> ReadError:
    """Return the error of the first record, in order of offsets, that cannot be read, with its key and extent.

    A read may have brought many records; they are read once more, one by one. Where all can be read now, the first
    record of the failed read is named with the reason found then.

    Parameters
    ----------
    offsets, lengths
        Extents of the records that were read together, shape (n_records,).
    key_of
        Gives the key of a record by its place in them.
    """
    ends = offsets + lengths
    hit = np.flatnonzero((offsets < error.offset + error.length) & (ends > error.offset))
    named = ReadError(error.path, source.space.place(error.offset)[1], error.length, error.reason, error.key)
    for place in hit[np.argsort(offsets[hit], kind="stable")].tolist():
        offset, length = int(offsets[place]), int(lengths[place])
        try:
            source.read_into(offset, memoryview(bytearray(length)))
        except ReadError as exc:
            return ReadError(*source.space.place(offset), length, exc.reason, key_of(place))
        if named.key is None:
            named = ReadError(*source.space.place(offset), length, error.reason, key_of(place))
    return named
