"""Reading into buffers by offset: from the page cache without waiting where the system can, and the errors' cause."""

import errno
import os
from collections.abc import Callable
from time import perf_counter
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from lmdbio.errors import ReadError
from lmdbio.layout.file import DataFile
from lmdbio.layout.path import PathLike
from lmdbio.reader.plan import ReadPlan

_CACHED_RATE: Final = 2e9
"""Bytes a second from which a read is taken to come from memory, where the system cannot say. A copy within memory is
several times faster; a single read from a fast disk is slower, since other reads are in flight beside it."""
_NOWAIT: Final[int] = getattr(os, "RWF_NOWAIT", 0)


class RecordSource(Protocol):
    """What the reader reads from."""

    @property
    def path(self) -> str:
        """The file, for messages."""

    def read_cached(self, offset: int, buffer: memoryview) -> int | None:
        """Fill the buffer as far as that needs no waiting and return the bytes filled; None if that cannot be known."""

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill the buffer, or raise ReadError."""


class RecordFile(DataFile):
    """A data file whose reads are all planned, so that the kernel need not guess what comes next.

    Closed with the last reference to it, so that a thread that still reads never meets another file's descriptor.
    """

    def __init__(self, path: PathLike) -> None:
        super().__init__(path)
        self._nowait = _NOWAIT
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self.fileno(), 0, 0, os.POSIX_FADV_RANDOM)

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            self.close()

    def read_cached(self, offset: int, buffer: memoryview) -> int | None:
        """Fill the buffer from the page cache and return the bytes filled; None where the file system cannot."""
        done = 0
        while self._nowait and done < buffer.nbytes:
            try:
                count = os.preadv(self.fileno(), [buffer[done:]], offset + done, self._nowait)
            except BlockingIOError:
                return done
            except OSError as exc:
                if exc.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                    return done  # the read that waits will say what is wrong
                self._nowait = 0
                return None
            if count == 0:
                return done
            done += count
        return done if self._nowait else None


def read_cached_tasks(source: RecordSource, plan: ReadPlan, first: int, buffer: memoryview) -> int:
    """Do the plan's tasks from ``first`` on while their bytes are in memory; return the first that is not done."""
    end = first
    reads = zip(plan.offsets.tolist(), plan.lengths.tolist(), plan.places.tolist(), strict=True)
    bounds = plan.tasks.tolist()
    for read, (offset, length, place) in enumerate(reads):
        if read < bounds[first]:
            continue
        if source.read_cached(offset, buffer[place : place + length]) != length:
            return end
        if read + 1 == bounds[end + 1]:
            end += 1
    return end


def read_task(
    source: RecordSource, plan: ReadPlan, task: int, buffer: memoryview, *, on_miss: Callable[[], None]
) -> bool:
    """Do the reads of one task of the plan and return whether all bytes were in memory.

    ``on_miss`` is called once, before the first wait, as soon as bytes turn out not to be in memory; where the system
    cannot tell beforehand, after it.
    """
    first, end = plan.tasks[task : task + 2].tolist()
    was_cached = True
    for read in range(first, end):
        offset, length, place = int(plan.offsets[read]), int(plan.lengths[read]), int(plan.places[read])
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
    named = error
    for place in hit[np.argsort(offsets[hit], kind="stable")].tolist():
        offset, length = int(offsets[place]), int(lengths[place])
        try:
            source.read_into(offset, memoryview(bytearray(length)))
        except ReadError as exc:
            return ReadError(source.path, offset, length, exc.reason, key_of(place))
        if named is error:
            named = ReadError(source.path, offset, length, error.reason, key_of(place))
    return named
