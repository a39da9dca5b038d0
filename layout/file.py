"""A file open for positioned reads: whole ranges or a named error, never a short read. Nothing is mapped."""

import errno
import os
import stat
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from lmdbio.errors import FormatError, MissingDatabaseError, ReadError

_NOWAIT: Final[int] = getattr(os, "RWF_NOWAIT", 0)
_NO_NOWAIT: Final = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
_MAX_READ = 1 << 30  # Linux reads at most 2 GiB - 4 KiB in one call
_REMEDIES: Final = {
    errno.EACCES: "have its owner let you read it, and search the folders above it",
    errno.EMFILE: "raise the number of files that a process may have open (ulimit -n)",
}
_KINDS: Final = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def read_nowait(fd: int, buffers: Sequence[bytearray | memoryview], offset: int) -> int | None:
    """Fill buffers one after the other as far as that needs no waiting, since the bytes are in memory.

    Returns
    -------
    int or None
        The bytes filled, 0 also where the system reports an error: the read that waits will say what is wrong. None
        where it cannot promise not to wait.
    """
    if not _NOWAIT:
        return None
    try:
        return os.preadv(fd, buffers, offset, _NOWAIT)
    except OSError as exc:
        return None if exc.errno in _NO_NOWAIT else 0


class DataFile:
    """A file open for reading by offset. Safe to share between threads; not between a process and its fork's parent.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    MissingDatabaseError
        If there is no such file.
    ReadError
        If it cannot be opened.
    FormatError
        If it is no regular file but a directory, a device or the like.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        try:
            # A FIFO that nobody writes to would be waited for without O_NONBLOCK.
            self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError as exc:
            raise MissingDatabaseError(f"{self.path}: expected a file, found none") from exc
        except OSError as exc:
            remedy = _REMEDIES.get(exc.errno or 0, "mend that, or name another file")
            reason = (exc.strerror or str(exc)).lower()
            raise ReadError(self.path, 0, 0, f"cannot open: {reason}: {remedy}") from exc
        status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode):
            self.close()
            kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
            raise FormatError(f"{self.path}: expected a regular file, found {kind}: name the file itself")
        os.set_blocking(self._fd, True)
        self.size = status.st_size

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._fd

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill the buffer (writable bytes) with the bytes from ``offset`` on.

        Raises
        ------
        ReadError
            If the file ends before the buffer is full, or the system reports an error.
        """
        length = buffer.nbytes
        done = 0
        while done < length:
            try:
                count = os.preadv(self._fd, [buffer[done : done + _MAX_READ]], offset + done)
            except OSError as exc:
                name = errno.errorcode.get(exc.errno or 0, "error")
                raise ReadError(self.path, offset, length, f"{name}: {exc.strerror}") from exc
            if count == 0:
                found = max(0, os.fstat(self._fd).st_size - offset)
                raise ReadError(self.path, offset, length, f"found {found} before the file ends: is it cut short?")
            done += count

    def read(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes from ``offset`` on; see :meth:`read_into` for the errors."""
        return self.read_array(offset, length).tobytes()

    def read_array(self, offset: int, length: int) -> NDArray[np.uint8]:
        """Return the bytes as a writable array, uint8, shape (length,)."""
        array = np.empty(length, np.uint8)
        self.read_into(offset, array.data)
        return array

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
