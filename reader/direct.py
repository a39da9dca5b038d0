"""Reading past the page cache: O_DIRECT where the file system takes it, and the rule that says where it pays."""

import errno
import logging
import mmap
import os
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lmdbio.errors import ReadError
from lmdbio.layout.path import PathLike
from lmdbio.reader.fetch import WARM_SHARE, RecordFile
from lmdbio.reader.file_state import cached_share, direct_align, is_cached, memory_address, network_file_system
from lmdbio.reader.memory import available_memory
from lmdbio.reader.options import Direct

_O_DIRECT: Final[int] = getattr(os, "O_DIRECT", 0)
_REFUSALS: Final = {errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS}
_WORTH_ASKING: Final = 0.01
"""Part of a file in memory from which reads ask for their bytes there."""
_log = logging.getLogger("lmdbio.reader")


class DirectFile(RecordFile):
    """A data file that is read past the page cache, by a second descriptor, as long as the system takes that.

    Reads must be multiples of ``align``: offset, length, and address of the buffer. They may reach beyond the end of
    the file by less than that: what lies there counts as filled. Other reads, and all once the system has refused one,
    go through the page cache; so do those whose bytes are there already, where the kernel tells.

    Parameters
    ----------
    path, in_order, retries
        See :class:`lmdbio.reader.fetch.RecordFile`; ``in_order`` concerns what goes through the page cache.
    """

    _direct_fd = -1
    _direct_align = 1
    _is_direct = False

    def __init__(self, path: PathLike, *, in_order: bool, retries: int = 0) -> None:
        super().__init__(path, in_order=in_order, retries=retries)
        self._asks_cached = True
        self._is_direct = True
        try:
            self._open_direct()
        except OSError as exc:
            self._refuse(exc.strerror or str(exc))

    @property
    def align(self) -> int:
        """What offset, length and place of reads to come should be multiples of; 1 once direct reads are refused."""
        return self._direct_align if self._is_direct else 1

    def is_cold(self) -> bool:
        """See :meth:`lmdbio.reader.fetch.RecordFile.is_cold`; what is read directly is never in memory later.

        Where next to nothing is in memory, or the kernel does not tell, reads to come do not ask any more.
        """
        if not self._is_direct:
            return super().is_cold()
        share = cached_share(self.fileno(), self.size)
        self._asks_cached = share is not None and share > _WORTH_ASKING
        return share is None or share < WARM_SHARE

    def read_cached(self, offset: int, buffer: memoryview) -> int | None:
        """Fill the buffer if all of its bytes are in the page cache, and return the bytes filled: all or none."""
        if not self._is_direct:
            return self._read_cached_within(offset, buffer)
        inside = self._within(offset, buffer)
        if not (self._asks_cached and inside.nbytes and is_cached(self.fileno(), offset, inside.nbytes)):
            return 0
        done = super().read_cached(offset, inside)
        if done is None:  # it is there, but this file system cannot promise not to wait
            try:
                super()._read_once(offset, inside)
            except ReadError:
                return 0  # the read that waits will say what is wrong
            done = inside.nbytes
        return buffer.nbytes if done == inside.nbytes else 0

    def _read_once(self, offset: int, buffer: memoryview) -> None:
        """Fill the buffer as far as the file reached when it was opened, or raise ReadError."""
        inside = self._within(offset, buffer)
        done = self._read_direct(offset, buffer, inside.nbytes) if self._takes(offset, buffer) else 0
        if done < inside.nbytes:
            super()._read_once(offset + done, inside[done:])

    def _reopen(self) -> None:
        super()._reopen()
        if self._is_direct:
            self._replace(self._direct_fd, os.O_RDONLY | _O_DIRECT)

    def read_array(self, offset: int, length: int) -> NDArray[np.uint8]:
        """Return the bytes as a writable array, uint8, shape (length,), through the page cache: all of them exist."""
        array = np.empty(length, np.uint8)
        super()._read_once(offset, array.data)
        return array

    def close(self) -> None:
        """Close both descriptors; a second call does nothing."""
        super().close()
        with self._lock:
            fd, self._direct_fd = self._direct_fd, -1
            if fd >= 0:
                os.close(fd)

    def _open_direct(self) -> None:
        align = direct_align(self.fileno())
        if not (_O_DIRECT and align):
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        self._direct_fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | _O_DIRECT)
        if not os.path.samestat(os.fstat(self._direct_fd), os.fstat(self.fileno())):
            raise OSError(errno.ESTALE, "the file was replaced meanwhile")
        os.set_blocking(self._direct_fd, True)
        self._direct_align = align

    def _takes(self, offset: int, buffer: memoryview) -> bool:
        """Return whether the system may be asked to read this directly."""
        if not self._is_direct or not buffer.nbytes or (offset | buffer.nbytes) % self._direct_align:
            return False
        return memory_address(buffer) % min(self._direct_align, mmap.PAGESIZE) == 0

    def _read_direct(self, offset: int, buffer: memoryview, size: int) -> int:
        """Return the bytes filled: at least ``size``, or as many as came before it could not go on so.

        What came short goes on from the last multiple of the alignment.
        """
        done = 0
        while done < size:
            begin = done - done % self._direct_align
            try:
                count = os.preadv(self._direct_fd, [buffer[begin:]], offset + begin)
            except OSError as exc:
                if exc.errno in _REFUSALS:
                    self._refuse(exc.strerror or str(exc))
                    return done
                name = errno.errorcode.get(exc.errno or 0, "error")
                raise ReadError(self.path, offset, size, f"{name}: {exc.strerror}") from exc
            if begin + count <= done:  # no further so: what was there may be written over
                return begin
            done = begin + count
            if done < begin + self._direct_align:
                return done  # the same would be asked again
        return done

    def _refuse(self, reason: str) -> None:
        """Read through the page cache from now on, and say so once."""
        with self._lock:
            is_first, self._is_direct = self._is_direct, False
        if is_first:
            _log.warning("%s: direct reads are refused (%s): reading through the page cache", self.path, reason)

    def _within(self, offset: int, buffer: memoryview) -> memoryview:
        """Return the part of the buffer that the file's bytes fill, where alignment alone reaches beyond them."""
        size = self.size - offset
        return buffer[:size] if 0 < size < buffer.nbytes < size + self._direct_align else buffer

    def _read_cached_within(self, offset: int, buffer: memoryview) -> int | None:
        inside = self._within(offset, buffer)
        done = super().read_cached(offset, inside)
        return buffer.nbytes if done == inside.nbytes else done


def pays_direct(file_system: str | None, *, file_size: int, memory_size: int) -> bool:
    """Return whether direct reads are worth it; see :class:`lmdbio.reader.options.ReadOptions` for the rule.

    Parameters
    ----------
    file_system
        Name of the network's file system that the file is on, or FUSE; None: a local one.
    file_size
        Bytes of the data file.
    memory_size
        Bytes of memory that are there for processes and page cache together.
    """
    return file_system is not None and file_size > memory_size // 2


def open_records(
    path: PathLike, *, direct: Direct, in_order: bool, size: int | None = None, retries: int = 0
) -> RecordFile:
    """Return the data file, open for reading as wanted.

    Parameters
    ----------
    path, in_order, retries
        See :class:`lmdbio.reader.fetch.RecordFile`.
    direct
        See :class:`lmdbio.reader.options.ReadOptions`.
    size
        Bytes of all files that are read together; None: of this one.
    """
    if direct == "auto":
        file = RecordFile(path, in_order=in_order, retries=retries)
        file_system = network_file_system(file.fileno())
        if not pays_direct(file_system, file_size=size or file.size, memory_size=available_memory()):
            return file
        file.close()
    return (DirectFile if direct else RecordFile)(path, in_order=in_order, retries=retries)
