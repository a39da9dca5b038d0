"""A new file open for positioned writes: whole ranges or a named error. It knows two ways: buffered and O_DIRECT."""

import errno
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias

from lmdbio.errors import TargetError

BLOCK_SIZE: Final = 4096
"""What O_DIRECT wants offsets, sizes and memory to be multiples of; no block device asks for more."""
Part: TypeAlias = bytes | memoryview
"""Bytes to be written; a memoryview is one of bytes."""
MAX_PARTS: Final = 1024
"""Buffers that one system call takes (IOV_MAX of Linux)."""

_MEMORY_FILE_SYSTEMS: Final = ("tmpfs", "ramfs", "hugetlbfs")
_REFUSALS: Final = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP)
_REMEDIES: Final = {
    errno.ENOSPC: "make room there, or choose another place",
    errno.EDQUOT: "your quota there is used up: make room, or choose another place",
    errno.EFBIG: "that file system, or the limit of this process, allows no file of this size",
    errno.EIO: "the device reports an error: look at the system's log",
    errno.EACCES: "choose a place that you may write to",
    errno.EROFS: "choose a place that can be written to",
}


class TargetFile:
    """A file made by this object, exclusively. Safe to share between threads that write different ranges.

    Parameters
    ----------
    path
        The file to make.
    direct
        Whether :meth:`write_direct` goes past the page cache; None: unless the file system lives in memory. Where the
        system refuses, it does not.

    Raises
    ------
    TargetError
        If the file exists, its directory does not, or it cannot be made.
    """

    def __init__(self, path: str | os.PathLike[str], *, direct: bool | None) -> None:
        self.path = os.fspath(path)
        with self._translated("make"):
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self._direct_fd = -1
        self._takes_direct = True
        if direct or (direct is None and _file_system(self.path) not in _MEMORY_FILE_SYSTEMS):
            try:
                self._direct_fd = os.open(self.path, os.O_WRONLY | os.O_DIRECT | os.O_CLOEXEC)
            except OSError as exc:
                if exc.errno not in _REFUSALS:
                    self.close()
                    raise TargetError(self._message("open", exc)) from exc

    @property
    def is_direct(self) -> bool:
        """Whether the system takes direct writes, as far as is known."""
        return self._direct_fd >= 0 and self._takes_direct

    def write(self, offset: int, parts: Sequence[Part]) -> None:
        """Write buffers of bytes end to end from ``offset`` on, without copying them.

        Raises
        ------
        TargetError
            If they cannot be written; part of them may have been.
        """
        with self._translated("write"):
            _write_all(self._fd, offset, parts)

    def write_direct(self, offset: int, block: memoryview) -> None:
        """Write one buffer, its memory, size and offset multiples of ``BLOCK_SIZE``, past the page cache if allowed.

        Raises
        ------
        TargetError
            As :meth:`write`.
        """
        with self._translated("write"):
            if self.is_direct:
                try:
                    _write_all(self._direct_fd, offset, [block])
                except OSError as exc:
                    if exc.errno not in _REFUSALS:
                        raise
                    self._takes_direct = False
                else:
                    return
            _write_all(self._fd, offset, [block])

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes written before; fewer where the file ends."""
        with self._translated("read"):
            return os.pread(self._fd, length, offset)

    def resize(self, size: int) -> None:
        """Make the file ``size`` bytes long; what was never written is zeros.

        Raises
        ------
        TargetError
            If the system does not allow it.
        """
        with self._translated("write"):
            os.ftruncate(self._fd, size)

    def sync(self) -> None:
        """Return once everything written is on the device.

        Raises
        ------
        TargetError
            If it did not get there.
        """
        with self._translated("write"):
            os.fsync(self._fd)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        for fd in (self._fd, self._direct_fd):
            if fd >= 0:
                os.close(fd)
        self._fd = self._direct_fd = -1

    @contextmanager
    def _translated(self, verb: str) -> Generator[None]:
        try:
            yield
        except FileExistsError as exc:
            raise TargetError(f"{self.path}: expected no file, found one: remove it or choose another name") from exc
        except FileNotFoundError as exc:
            parent = os.path.dirname(self.path) or "."
            raise TargetError(f"{self.path}: expected the directory {parent}, found none: make it first") from exc
        except OSError as exc:
            raise TargetError(self._message(verb, exc)) from exc

    def _message(self, verb: str, exc: OSError) -> str:
        remedy = _REMEDIES.get(exc.errno or 0)
        reason = f"cannot {verb}: {(exc.strerror or str(exc)).lower()}"
        return f"{self.path}: {reason}: {remedy}" if remedy else f"{self.path}: {reason}"


def _write_all(fd: int, offset: int, parts: Sequence[Part]) -> None:
    size = sum(map(len, parts))
    begin = 0
    while size:
        count = os.pwritev(fd, parts[begin : begin + MAX_PARTS], offset)
        if count == 0:
            raise OSError(errno.EIO, "nothing was written")
        offset += count
        size -= count
        while size and count >= len(parts[begin]):
            count -= len(parts[begin])
            begin += 1
        if size and count:
            parts = [memoryview(parts[begin])[count:], *parts[begin + 1 :]]
            begin = 0


def _file_system(path: str) -> str:
    """Return the type of the file system that holds the path, '' where that cannot be told."""
    device = os.stat(path).st_dev
    name = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
            for line in lines:
                fields = line.split()
                if fields[2] == name:
                    return fields[fields.index("-") + 1]
    except (OSError, ValueError, IndexError):
        pass  # no procfs: the way of writing is a matter of speed alone
    return ""
