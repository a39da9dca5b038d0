"""Which files below a class folder are inputs, in which order, and what else lies there. Reads directories only."""

import os
import stat
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lmdbio.convert.source import BadInput, fault, text
from lmdbio.errors import SourceError
from lmdbio.layout.keys import Keys
from lmdbio.layout.printable import printable

EXTENSIONS: Final = (b".jpg", b".jpeg", b".png", b".ppm", b".bmp", b".pgm", b".tif", b".tiff", b".webp")
"""Endings of the files that are inputs, in lower case: torchvision's ``IMG_EXTENSIONS``."""
NOT_AN_IMAGE: Final = "files without an image's extension"

_LITTER_FILES: Final = {b".ds_store": ".DS_Store", b"thumbs.db": "Thumbs.db", b"desktop.ini": "desktop.ini"}
_LITTER_FOLDERS: Final = frozenset((b"__MACOSX", b".AppleDouble", b"@eaDir", b".ipynb_checkpoints", b"lost+found"))
_APPLE_DOUBLE: Final = b"._"
_BETWEEN_NAMES: Final = b"\0"
_ALL_MAY_READ: Final = 0o444


@dataclass(frozen=True, slots=True)
class ClassFiles:
    """The inputs of one class, and what was found beside them."""

    paths: Keys
    """Each file's path relative to the root."""
    sizes: NDArray[np.uint32]
    """Bytes of each file, uint32, shape (n_files,); none is 0."""
    bad: tuple[BadInput, ...]
    """Files and folders that look like inputs and cannot be."""
    ignored: Counter[str]
    """How many things of each kind were passed over on purpose."""


@dataclass(slots=True)
class Directory:
    """The entries of one directory by kind, links followed; in no order."""

    folders: set[bytes] = field(default_factory=set)
    files: list[bytes] = field(default_factory=list)
    litter: Counter[str] = field(default_factory=Counter)


def is_image(name: bytes) -> bool:
    """Return whether a file name has an image's extension, in any case."""
    return name.lower().endswith(EXTENSIONS)


def sort_names(names: Iterable[bytes]) -> list[bytes]:
    """Return names in the order in which Python sorts them as text, whatever the locale."""
    held = list(names)
    if all(map(bytes.isascii, held)):  # then bytes sort as text does, and no text is made
        return sorted(held)
    return sorted(held, key=text)


def list_directory(path: bytes) -> Directory:
    """Return the entries of a directory.

    Raises
    ------
    OSError
        If the directory cannot be listed.
    SourceError
        If an entry is a link to itself.
    """
    found = Directory()
    with os.scandir(path) as entries:
        for entry in entries:
            try:
                is_folder = entry.is_dir()
            except OSError as exc:
                raise SourceError(f"{printable(entry.path)}: expected a file or folder, {fault(exc)}") from exc
            litter = _litter(entry.name, is_folder=is_folder)
            if litter is not None:
                found.litter[litter] += 1
            elif is_folder:
                found.folders.add(entry.name)
            else:
                found.files.append(entry.name)
    return found


def scan_class(root: bytes, name: bytes, *, max_size: int) -> ClassFiles:
    """Return the files below one class folder, in the order of their folders' paths and then of their names.

    Files larger than ``max_size`` bytes, or empty, or that cannot be read are bad inputs.

    Raises
    ------
    SourceError
        If a link leads to a folder that holds it.
    """
    found = _Found()
    for folder, names in sorted(_walk(root, name, found), key=lambda pair: text(pair[0])):
        for file in names.split(_BETWEEN_NAMES) if names else ():
            _examine(root, os.path.join(folder, file), found, max_size=max_size)
    return found.packed()


@dataclass(slots=True)
class _Found:
    """What a walk has found so far, held in as few bytes as the arrays it becomes."""

    blob: bytearray = field(default_factory=bytearray)
    ends: "array[int]" = field(default_factory=lambda: array("q", [0]))
    sizes: "array[int]" = field(default_factory=lambda: array("I"))
    bad: list[BadInput] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)

    def add(self, path: bytes, size: int) -> None:
        self.blob += path
        self.ends.append(len(self.blob))
        self.sizes.append(size)

    def packed(self) -> ClassFiles:
        paths = Keys(np.frombuffer(self.blob, np.uint8), np.frombuffer(self.ends, np.int64))
        return ClassFiles(paths, np.frombuffer(self.sizes, np.uint32), tuple(self.bad), self.ignored)


def _walk(root: bytes, name: bytes, found: _Found) -> Iterator[tuple[bytes, bytes]]:
    """Yield each folder of a class, as a path below the root, with the sorted names of its images.

    They come end to end: as objects of their own they would take three times the memory until their turn comes.
    """
    try:
        top = os.stat(root)
    except OSError as exc:
        found.bad.append(BadInput(printable(root), fault(exc)))
        return
    waiting = [(name, frozenset(((top.st_dev, top.st_ino),)))]
    while waiting:
        folder, above = waiting.pop()
        path = os.path.join(root, folder)
        try:
            status = os.stat(path)
            entries = list_directory(path)
        except OSError as exc:
            found.bad.append(BadInput(printable(path), fault(exc)))
            continue
        identity = (status.st_dev, status.st_ino)
        if identity in above:
            raise SourceError(f"{printable(path)}: expected a folder of images, found a link to a folder that holds it")
        found.ignored += entries.litter
        images = [file for file in entries.files if is_image(file)]
        if len(images) < len(entries.files):
            found.ignored[NOT_AN_IMAGE] += len(entries.files) - len(images)
        yield folder, _BETWEEN_NAMES.join(sort_names(images))
        waiting += [(os.path.join(folder, inner), above | {identity}) for inner in entries.folders]


def _examine(root: bytes, path: bytes, found: _Found, *, max_size: int) -> None:
    """Add a file to the inputs, or to the bad ones."""
    full = os.path.join(root, path)
    try:
        status = os.stat(full)
    except OSError as exc:
        found.bad.append(BadInput(printable(full), fault(exc)))
        return
    reason = _refusal(full, status, max_size=max_size)
    if reason is None:
        found.add(path, status.st_size)
    else:
        found.bad.append(BadInput(printable(full), reason))


def _refusal(path: bytes, status: os.stat_result, *, max_size: int) -> str | None:
    """Return why a file cannot be an input, or None."""
    if not stat.S_ISREG(status.st_mode):
        return "expected a regular file, found another kind"
    if status.st_size == 0:
        return "expected an image, found an empty file"
    if status.st_size > max_size:
        return f"expected at most {max_size} bytes, found {status.st_size}"
    if status.st_mode & _ALL_MAY_READ != _ALL_MAY_READ and not os.access(path, os.R_OK):
        return "cannot be read: permission denied"
    return None


def _litter(name: bytes, *, is_folder: bool) -> str | None:
    """Return what kind of a desktop system's litter a name is, or None."""
    if is_folder:
        return f"{text(name)}/" if name in _LITTER_FOLDERS else None
    if name.startswith(_APPLE_DOUBLE):
        return "._* (AppleDouble)"
    return _LITTER_FILES.get(name.lower())
