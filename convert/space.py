"""Whether there is room for what is to be written."""

import os
from collections.abc import Sequence

from lmdbio.errors import TargetError


def check_space(needs: Sequence[tuple[str, int]]) -> None:
    """Refuse to begin where the file systems lack the space.

    Parameters
    ----------
    needs
        For each database its directory's path, and the bytes that it will take.

    Raises
    ------
    TargetError
        With the space that is needed and the space there is.
    """
    wanted: dict[int, int] = {}
    for path, size in needs:
        parent = existing_parent(path)
        device = os.stat(parent).st_dev
        wanted[device] = wanted.get(device, 0) + size
        free = free_space(path)
        if wanted[device] > free:
            raise TargetError(
                f"{path}: expected {wanted[device]} bytes free for what is to be written, found {free}: "
                "make room, or name a target on another file system"
            )


def free_space(path: str) -> int:
    """Return the bytes that a user may still write on the file system where a path is, or will be."""
    status = os.statvfs(existing_parent(path))
    return status.f_bavail * status.f_frsize


def existing_parent(path: str) -> str:
    """Return the nearest directory above a path that exists."""
    parent = os.path.dirname(os.path.realpath(path))
    while not os.path.isdir(parent):
        parent = os.path.dirname(parent)
    return parent
