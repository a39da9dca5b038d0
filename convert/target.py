"""Where a database comes to stand: made under a temporary name beside its goal, locked, and put there by one rename.

Beside a goal ``x.lmdb``: ``x.lmdb.partial`` is what is being written, ``x.lmdb.partial.lock`` says that its writer
lives, and ``x.lmdb.partial.old`` is, for a moment, what ``overwrite`` replaces. Nothing under the goal's own name is
ever half a database, and whatever a killed run left under these names the next one clears away.
"""

import contextlib
import errno
import fcntl
import os
import shutil
from types import TracebackType
from typing import Final, Self

from lmdbio.convert.container import check_parent
from lmdbio.errors import TargetError
from lmdbio.layout.path import DATA_NAME, INDEX_SUFFIX, LOCK_NAMES

_PARTIAL: Final = ".partial"
_LOCK: Final = ".partial.lock"
_OLD: Final = ".partial.old"
_NO_LOCKS: Final = frozenset((errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL))
"""What flock reports on a file system without locks; there the directory alone tells of another writer."""


class Target:
    """A database directory to be made, as a context: locked and empty inside, gone after it unless published.

    Parameters
    ----------
    path
        The database's directory.
    overwrite
        Whether a database that stands there is replaced.

    Raises
    ------
    TargetError
        If the goal cannot be written, or something stands there already: see :meth:`check`.
    """

    def __init__(self, path: str, *, overwrite: bool) -> None:
        self.path = path
        self._goal = os.path.realpath(path)
        self._overwrite = overwrite
        self._lock = -1

    @property
    def partial(self) -> str:
        """Directory to write in, until it is published."""
        return self._goal + _PARTIAL

    @property
    def data(self) -> str:
        """Data file to write."""
        return os.path.join(self.partial, DATA_NAME)

    def check(self) -> None:
        """Refuse a goal that cannot be written; change nothing.

        Raises
        ------
        TargetError
            If the parent is missing or cannot be written in, if the goal is a file, a mount point, or a directory that
            is no database, or if it is a database and ``overwrite`` is false.
        """
        check_parent(self.path)
        if not os.path.lexists(self._goal):
            return
        if not os.path.isdir(self._goal):
            raise TargetError(f"{self.path}: expected nothing or a directory, found a file: name another target")
        if os.path.ismount(self._goal):
            raise TargetError(
                f"{self.path}: expected a directory that can be renamed, found a mount point: name a new one inside it"
            )
        try:
            entries = os.listdir(self._goal)
        except OSError as exc:
            raise self._failure("list what stands in place of", exc) from exc
        if not entries:
            return
        strangers = sorted(name for name in entries if not _is_ours(name))
        if strangers or DATA_NAME not in entries:
            found = strangers[0] if strangers else entries[0]
            raise TargetError(
                f"{self.path}: expected nothing, found a directory that is no database (it holds {found}): "
                "name another target"
            )
        if not self._overwrite:
            raise TargetError(f"{self.path}: expected nothing, found a database: --overwrite replaces it")

    def __enter__(self) -> Self:
        self.check()
        self._take_lock()
        try:
            self._clear()
            self.check()  # what stood aside may be back, and another writer may have been faster
            os.mkdir(self.partial)
        except TargetError:
            self._give_lock()
            raise
        except OSError as exc:
            self._give_lock()
            raise self._failure("make a directory beside", exc) from exc
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock >= 0:
            shutil.rmtree(self.partial, ignore_errors=True)
            self._give_lock()

    def publish(self) -> None:
        """Put what was written in the goal's place, by one rename.

        Raises
        ------
        TargetError
            If something took the place meanwhile, or the system refuses.
        """
        self.check()
        try:
            _sync_directory(self.partial)
            replaces = os.path.isdir(self._goal) and bool(os.listdir(self._goal))
            if replaces:
                os.rename(self._goal, self._goal + _OLD)
            try:
                os.rename(self.partial, self._goal)
            except OSError:
                if replaces:
                    os.rename(self._goal + _OLD, self._goal)
                raise
            _sync_directory(os.path.dirname(self._goal))
        except OSError as exc:
            raise self._failure("put the database in place of", exc) from exc
        if replaces:
            shutil.rmtree(self._goal + _OLD, ignore_errors=True)
        self._give_lock()

    def _take_lock(self) -> None:
        lock = self._goal + _LOCK
        while True:
            try:
                fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
            except OSError as exc:
                raise self._failure("make a lock file beside", exc) from exc
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as exc:
                if exc.errno not in _NO_LOCKS:
                    os.close(fd)
                    raise TargetError(
                        f"{self.path}: expected no other converter at work on it, found one (it holds {lock})"
                    ) from exc
                self._refuse_partial(fd)
            if _is_same_file(fd, lock):
                self._lock = fd
                return
            os.close(fd)  # its holder has just finished and removed it: try again with a new one

    def _refuse_partial(self, fd: int) -> None:
        """Without locks nobody can tell whether the writer of a partial directory lives: leave that to a person."""
        if os.path.lexists(self.partial):
            os.close(fd)
            raise TargetError(
                f"{self.path}: expected no other converter at work on it, found {self.partial}: "
                "remove that directory if its converter is dead"
            )

    def _give_lock(self) -> None:
        if self._lock >= 0:
            with contextlib.suppress(OSError):  # the lock itself ends with its descriptor
                os.unlink(self._goal + _LOCK)
            os.close(self._lock)
            self._lock = -1

    def _clear(self) -> None:
        """Clear away what a killed run left; a database that it had put aside comes back if nothing replaced it."""
        if os.path.lexists(self.partial):
            shutil.rmtree(self.partial)
        old = self._goal + _OLD
        if not os.path.isdir(old):
            return
        if not os.path.lexists(self._goal):
            os.rename(old, self._goal)
            return
        try:
            shutil.rmtree(old)
        except OSError as exc:
            reason = (exc.strerror or str(exc)).lower()
            raise TargetError(
                f"{old}: cannot remove what was replaced before: {reason}: remove it, then try again"
            ) from exc

    def _failure(self, what: str, error: OSError) -> TargetError:
        return TargetError(f"{self.path}: cannot {what} it: {(error.strerror or str(error)).lower()}")


def _is_ours(name: str) -> bool:
    is_index = name.startswith(DATA_NAME) and (name.endswith(INDEX_SUFFIX) or f"{INDEX_SUFFIX}." in name)
    return name == DATA_NAME or name in LOCK_NAMES or is_index  # an index half-written by a killed run counts


def _is_same_file(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def _sync_directory(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
