"""An arranged ImageNet tree as sources: ``train/`` and ``val/``, or either, each a directory of class folders."""

import os
from contextlib import ExitStack
from typing import Final

from lmdbio.convert.folder import FolderSource, class_folders, list_root
from lmdbio.convert.scan import sort_names
from lmdbio.errors import SourceError
from lmdbio.layout.printable import printable

SPLITS: Final = ("train", "val")
_MEANT: Final = {"training": "train", "valid": "val", "validation": "val"}
"""Names of splits that other tools take; here they would be left out without a word."""


def find_splits(root: bytes) -> tuple[list[str], list[str]]:
    """Return which splits a directory has, ``train`` first, and its other folders' names, printable, sorted.

    Raises
    ------
    SourceError
        If there is no such directory, neither split in it, or a split under another name.
    """
    folders = sort_names(list_root(root).folders)
    found = [split for split in SPLITS if split.encode() in folders]
    others = [printable(name) for name in folders if name.decode("ascii", "replace") not in SPLITS]
    expected = f"{printable(root)}: expected train/ or val/ with class folders inside"
    for name in others:
        meant = _MEANT.get(name.lower(), name.lower())
        if meant in SPLITS and meant not in found:
            raise SourceError(f"{expected}, found {name}/: rename it to {meant}/, or make a link of that name to it")
    if found:
        return found, others
    if not others:
        raise SourceError(f"{expected}, found no folder at all")
    shown = ", ".join(f"{name}/" for name in others[:3]) + (", …" if len(others) > 3 else "")
    raise SourceError(f"{expected}, found {shown}: if these are classes, use lmdbio-convert folder")


def open_splits(root: bytes, splits: list[str], *, max_size: int, workers: int) -> list[FolderSource]:
    """Return one source for each split, with one numbering of the classes for all.

    The classes are the sorted union of the splits' class folders, empty ones kept: a class that is missing or empty in
    one split shifts no label of another.

    Raises
    ------
    SourceError
        If a split has no class folders, or links form a cycle.
    """
    roots = [os.path.join(root, split.encode()) for split in splits]
    class_names = sort_names({name for path in roots for name in class_folders(path)})
    with ExitStack() as stack:
        sources = []
        for path, split in zip(roots, splits, strict=True):
            sources.append(FolderSource(path, class_names, split=split, max_size=max_size, workers=workers))
            stack.callback(sources[-1].close)
        stack.pop_all()  # from here on the caller closes them
    return sources
