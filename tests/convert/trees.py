"""Directory trees for the tests: small files whose first bytes are those of a JPEG."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from lmdbio.convert.folder import FolderSource
from lmdbio.convert.scan import sort_names

JPEG = b"\xff\xd8\xff\xe0"
LARGE = 1 << 30


def make_tree(root: Path, files: Mapping[str | bytes, bytes] | Iterable[str | bytes]) -> Path:
    """Write files at paths below the root; without contents each holds its own path after a JPEG's first bytes."""
    contents = files if isinstance(files, Mapping) else {name: JPEG + os.fsencode(name) for name in files}
    root.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        path = os.path.join(os.fsencode(root), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
    return root


def make_classes(root: Path, *, classes: int = 3, files: int = 5, size: int = 5000) -> Path:
    """Write class folders ``c0``, ``c1``, ... with files of various sizes around the one given."""
    return make_tree(
        root,
        {
            f"c{label}/{number}.jpg": JPEG + bytes([label, number]) * ((size + 97 * number) // 2)
            for label in range(classes)
            for number in range(files)
        },
    )


def open_folder(root: Path, *names: bytes) -> FolderSource:
    """Return the source of a tree; its class folders, unless given, are all its folders."""
    found = names or tuple(os.fsencode(entry.name) for entry in root.iterdir() if entry.is_dir())
    return FolderSource(os.fsencode(root), sort_names(found), split=None, max_size=LARGE, workers=2)
