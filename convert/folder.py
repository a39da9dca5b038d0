"""A directory of class folders as a source: which folders are classes, and how their files are read.

The rules are those of torchvision's ``DatasetFolder`` (class names sorted, links followed, folders inside a class
walked, extensions compared without case), so that labels and order are the ones a training script already knows. Beyond
them: the litter that desktop systems leave is passed over, a cycle of links is an error, nothing is lost in silence.
"""

import errno
import mmap
import os
import stat
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from lmdbio.convert.image_format import HEAD_SIZE, UNKNOWN, image_format
from lmdbio.convert.scan import NOT_AN_IMAGE, ClassFiles, Directory, is_image, list_directory, scan_class, sort_names
from lmdbio.convert.source import BadInput, InputFault, Inputs, fault, text
from lmdbio.errors import SourceError
from lmdbio.layout.file import read_nowait
from lmdbio.layout.keys import Keys
from lmdbio.layout.printable import printable

_SPLITS: Final = frozenset((b"train", b"training", b"val", b"valid", b"validation", b"test"))
_NO_CLASS: Final = "images outside of class folders"
_PIECE_SIZE: Final = 4 << 20
_KINDS: Final = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a FIFO"}
_OUR_OWN_LIMITS: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class FolderSource:
    """A directory of class folders, listed: the inputs of one database.

    Parameters
    ----------
    root
        The directory.
    class_names
        Name of each class, by label; one without a folder here is an empty class.
    split
        Name of the split that the directory holds.
    max_size
        Bytes that a file may have at most.
    workers
        How many threads list class folders at the same time.

    Raises
    ------
    SourceError
        If links form a cycle, or the directory cannot be opened.
    """

    def __init__(
        self, root: bytes, class_names: Sequence[bytes], *, split: str | None, max_size: int, workers: int
    ) -> None:
        self.root = root
        self.name = printable(root)
        self.split = split
        self.class_names = tuple(text(name) for name in class_names)
        top = list_root(root)
        try:
            self._fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as exc:
            raise SourceError(f"{self.name}: expected a directory of class folders, which {fault(exc)}") from exc
        present = [(label, name) for label, name in enumerate(class_names) if name in top.folders]
        listing = _Listing(ignored=_ignored_at_top(top))
        try:
            with ThreadPoolExecutor(workers) as pool:
                classes = pool.map(lambda labelled: scan_class(root, labelled[1], max_size=max_size), present)
                for (label, _), found in zip(present, classes, strict=True):
                    listing.add(found, label)
        except BaseException:
            os.close(self._fd)
            raise
        self.inputs = listing.inputs()
        self.bad = tuple(listing.bad)
        self.ignored = dict(sorted(listing.ignored.items()))

    def shown(self, number: int) -> str:
        """Return the path of an input for messages."""
        return printable(os.path.join(self.root, self.inputs.paths[number]))

    def read_into(self, number: int, memory: memoryview, *, on_wait: Callable[[], None]) -> None:
        """Fill memory with the bytes of a file; see :meth:`lmdbio.convert.source.Source.read_into`."""
        try:
            fd = self._open(number)
            try:
                _fill(fd, memory, on_wait)
                _expect_image(bytes(memory[:HEAD_SIZE]))
            except OSError:
                _expect_file(os.fstat(fd))
                raise
            finally:
                os.close(fd)
        except OSError as exc:
            raise InputFault(fault(exc)) from exc

    def pieces(self, number: int) -> Iterator[bytes]:
        """Yield the bytes of a file; see :meth:`lmdbio.convert.source.Source.pieces`."""
        size = int(self.inputs.sizes[number])
        try:
            fd = self._open(number)
            try:
                yield from _pieces(fd, size)
            finally:
                os.close(fd)
        except OSError as exc:
            raise InputFault(fault(exc)) from exc

    def _open(self, number: int) -> int:
        # By a path relative to the root: shorter to look up, and the root may be renamed meanwhile.
        # O_NONBLOCK: a pipe that took the file's place must not hang the run.
        try:
            return os.open(self.inputs.paths[number], os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=self._fd)
        except OSError as exc:
            if exc.errno not in _OUR_OWN_LIMITS:
                raise
            # nothing is wrong with the file: it must not be left out
            raise SourceError(
                f"{self.shown(number)}: expected to open it, found a limit of this process ({exc.strerror}): raise it "
                "(ulimit -n), or lower --workers"
            ) from exc

    def close(self) -> None:
        """Close the directory and forget the inputs; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self.inputs = _Listing().inputs()


def list_root(root: bytes) -> Directory:
    """Return the entries of the directory that a source is made of.

    Raises
    ------
    SourceError
        If it cannot be listed.
    """
    expected = f"{printable(root)}: expected a directory of class folders"
    try:
        return list_directory(root)
    except FileNotFoundError as exc:
        raise SourceError(f"{expected}, found nothing") from exc
    except NotADirectoryError as exc:
        raise SourceError(f"{expected}, found a file") from exc
    except OSError as exc:
        raise SourceError(f"{expected}, which {fault(exc)}") from exc


def class_folders(root: bytes) -> list[bytes]:
    """Return the names of a directory's class folders, sorted as torchvision sorts them.

    Raises
    ------
    SourceError
        If there is no such directory, or no class folder in it; the message says what lies there instead.
    """
    top = list_root(root)
    if top.folders:
        return sort_names(top.folders)
    shown = printable(root)
    images = sum(map(is_image, top.files))
    if images:
        raise SourceError(
            f"{shown}: expected class folders, found {images} image(s) lying directly in it: "
            "move each into a folder named for its class"
        )
    found = "no folder but other files" if top.files else "an empty directory"
    raise SourceError(f"{shown}: expected class folders with images, found {found}")


def refuse_splits(root: bytes, folders: Iterable[bytes]) -> None:
    """Refuse a directory whose folders are splits that hold the class folders.

    Raises
    ------
    SourceError
        With the command that takes such a directory.
    """
    names = set(folders)
    if not names <= _SPLITS:
        return
    if any(list_root(os.path.join(root, name)).folders for name in names):
        found = " and ".join(f"{text(name)}/" for name in sort_names(names))
        raise SourceError(
            f"{printable(root)}: expected class folders, found {found} with folders inside: "
            "use lmdbio-convert imagenet, which takes train/ and val/"
        )


def _ignored_at_top(top: Directory) -> Counter[str]:
    images = sum(map(is_image, top.files))
    return top.litter + Counter({_NO_CLASS: images, NOT_AN_IMAGE: len(top.files) - images})


@dataclass(slots=True)
class _Listing:
    """The files of all classes, added in the order of their labels; held in as few bytes as the arrays it becomes."""

    blob: bytearray = field(default_factory=bytearray)
    ends: "array[int]" = field(default_factory=lambda: array("q", [0]))
    sizes: "array[int]" = field(default_factory=lambda: array("I"))
    labels: "array[int]" = field(default_factory=lambda: array("i"))
    bad: list[BadInput] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)

    def add(self, found: ClassFiles, label: int) -> None:
        self.ends.frombytes((found.paths.offsets[1:] + len(self.blob)).tobytes())
        self.blob += found.paths.blob.data
        self.sizes.frombytes(found.sizes.tobytes())
        self.labels.frombytes(np.full(len(found.sizes), label, np.int32).tobytes())
        self.bad += found.bad
        self.ignored += found.ignored

    def inputs(self) -> Inputs:
        paths = Keys(np.frombuffer(self.blob, np.uint8), np.frombuffer(self.ends, np.int64))
        return Inputs(paths, np.frombuffer(self.sizes, np.uint32), np.frombuffer(self.labels, np.int32))


def _fill(fd: int, memory: memoryview, on_wait: Callable[[], None]) -> None:
    """Fill memory with a file's bytes; one more is asked for, so that growth is noticed without another call."""
    size, one_more = memory.nbytes, bytearray(1)
    done = read_nowait(fd, [memory, one_more], 0) or 0
    if done < size:
        on_wait()
    while done < size:
        more = os.preadv(fd, [memory[done:], one_more], done)
        if not more:
            break
        done += more
    if done == size and size % mmap.PAGESIZE == 0:
        # A read may end with the last page in memory, and tells nothing of the pages after it then.
        done = max(done, os.fstat(fd).st_size)
    if done != size:
        raise _changed(size, "more" if done > size else str(done))


def _pieces(fd: int, size: int) -> Iterator[bytes]:
    """Yield a file's bytes piece by piece; that takes time, so a file written to meanwhile is noticed by its time."""
    before = os.fstat(fd)
    _expect_file(before)
    done = 0
    while done < size:
        piece = os.read(fd, min(_PIECE_SIZE, size - done))
        if not piece:
            raise _changed(size, str(done))
        if not done:
            _expect_image(piece[:HEAD_SIZE])
        done += len(piece)
        yield piece
    if os.read(fd, 1):
        raise _changed(size, "more")
    if os.fstat(fd).st_mtime_ns != before.st_mtime_ns:
        raise InputFault("expected a file at rest, found one that was written to while it was read")


def _expect_image(head: bytes) -> None:
    if image_format(head) == UNKNOWN:
        raise InputFault(f"expected an image, found another content, which begins with {head!r}")


def _expect_file(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        found = _KINDS.get(stat.S_IFMT(status.st_mode), "another kind")
        raise InputFault(f"changed since it was listed: expected a regular file, found {found}")


def _changed(size: int, found: str) -> InputFault:
    return InputFault(f"changed since it was listed: expected {size} bytes, found {found}")
