"""Direct reads in tests: whether a folder's file system takes them, and a record of those that are asked for."""

import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest

from lmdbio.reader.direct import DirectFile
from lmdbio.reader.file_state import memory_address


def skip_unless_direct(folder: Path) -> None:
    """Skip the test, and say why, where direct reads are refused."""
    path = folder / "probe"
    path.write_bytes(bytes(8192))
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    except (OSError, AttributeError) as exc:
        pytest.skip(f"{folder}: its file system takes no direct reads: {exc}")
    try:
        os.preadv(fd, [mmap.mmap(-1, 8192)], 0)
    except OSError as exc:
        pytest.skip(f"{folder}: its file system takes no direct reads: {exc}")
    finally:
        os.close(fd)
        path.unlink()


class DirectReads:
    """Watches the direct reads of all files, and answers in the system's stead where told; a context manager.

    Parameters
    ----------
    answer
        Given (number of the read, offset, length) it returns None to let it pass, an errno to raise, or the most bytes
        that the system may bring, negated.
    cached
        What the kernel is taken to say of all ranges: whether they are in the page cache.
    """

    def __init__(
        self, answer: Callable[[int, int, int], int | None] = lambda *_: None, *, cached: bool | None = False
    ) -> None:
        self._answer = answer
        self._cached = cached
        self.extents: list[tuple[int, int]] = []
        self.addresses: list[int] = []
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> Self:
        whole = DirectFile._open_direct
        preadv = os.preadv
        fds: set[int] = set()  # one may be closed, and its number used again, but not in these tests

        def open_direct(file: DirectFile) -> None:
            try:
                whole(file)
            finally:
                fds.add(file._direct_fd)

        def read(fd: int, views: list[memoryview], offset: int, *flags: int) -> int:
            if fd not in fds:
                return preadv(fd, views, offset, *flags)
            (view,) = views
            answer = self._answer(len(self.extents), offset, view.nbytes)
            self.extents.append((offset, view.nbytes))
            self.addresses.append(memory_address(view))
            if answer is None:
                return preadv(fd, views, offset)
            if answer > 0:
                raise OSError(answer, os.strerror(answer))
            with open(f"/proc/self/fd/{fd}", "rb") as file:
                part = os.pread(file.fileno(), min(view.nbytes, -answer), offset)
            view[: len(part)] = part
            return len(part)

        self._patch.setattr(DirectFile, "_open_direct", open_direct)
        self._patch.setattr(os, "preadv", read)
        self._patch.setattr("lmdbio.reader.direct.is_cached", lambda *_: self._cached)
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.undo()
