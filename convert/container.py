"""The directory in which databases come to stand."""

import contextlib
import os
from types import TracebackType
from typing import Self

from lmdbio.errors import TargetError
from lmdbio.layout.path import DATA_NAME


class Container:
    """A directory that holds the databases of several splits, as a context: made if missing, gone again if left empty.

    Parameters
    ----------
    path
        The directory.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._made = False

    def check(self) -> bool:
        """Return whether the directory exists already; change nothing.

        Raises
        ------
        TargetError
            If it can neither be used nor made.
        """
        check_parent(self.path)
        goal = os.path.realpath(self.path)
        if not os.path.lexists(goal):
            return False
        if not os.path.isdir(goal):
            raise TargetError(f"{self.path}: expected nothing or a directory, found a file: name another target")
        if os.path.lexists(os.path.join(goal, DATA_NAME)):
            raise TargetError(
                f"{self.path}: expected a directory that will hold one database for each split, found a database: "
                "name another target"
            )
        return True

    def __enter__(self) -> Self:
        if not self.check():
            try:
                os.mkdir(os.path.realpath(self.path))
            except OSError as exc:
                raise TargetError(
                    f"{self.path}: cannot make the directory: {(exc.strerror or str(exc)).lower()}"
                ) from exc
            self._made = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._made:
            with contextlib.suppress(OSError):  # it holds something, so it stays
                os.rmdir(os.path.realpath(self.path))


def check_parent(path: str) -> None:
    """Refuse a path whose parent directory is missing or cannot be written in.

    Raises
    ------
    TargetError
        With what to do.
    """
    parent = os.path.dirname(os.path.realpath(path))
    if os.path.lexists(parent) and not os.path.isdir(parent):
        raise TargetError(
            f"{path}: expected its parent to be a directory, found the file {parent}: name another target"
        )
    if not os.path.isdir(parent):
        raise TargetError(f"{path}: expected its parent directory, found none: mkdir -p {parent}")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise TargetError(f"{path}: expected a parent directory that can be written in, found {parent}")
