"""Which directories of a source become which databases."""

import os
from contextlib import ExitStack
from dataclasses import dataclass

from lmdbio.convert.container import Container
from lmdbio.convert.folder import FolderSource, class_folders, refuse_splits
from lmdbio.convert.imagenet import find_splits, open_splits
from lmdbio.convert.options import Options
from lmdbio.convert.target import Target
from lmdbio.errors import TargetError
from lmdbio.layout.printable import printable


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Which directories of the source become which databases."""

    root: bytes
    splits: list[str]
    """Names of the splits, one for each target; empty where the source has none."""
    class_names: list[bytes]
    """Names of the classes where the source has no splits."""
    others: list[str]
    """Names of the folders beside the splits, which are passed over."""
    container: Container | None
    """What holds the databases where there are splits."""
    targets: list[Target]

    def check(self) -> None:
        """Refuse targets that cannot be written; change nothing."""
        for target in self.targets:
            for inner in [os.path.join(self.root, split.encode()) for split in self.splits] or [self.root]:
                _refuse_inside(target.path, inner)
        if self.container is None or self.container.check():
            for target in self.targets:
                target.check()

    def enter(self, stack: ExitStack) -> None:
        """Lock all targets."""
        if self.container is not None:
            stack.enter_context(self.container)
        for target in self.targets:
            stack.enter_context(target)

    def open(self, options: Options, *, workers: int) -> list[FolderSource]:
        """Return the source of each target."""
        if self.splits:
            return open_splits(self.root, self.splits, max_size=options.max_input_size, workers=workers)
        return [FolderSource(self.root, self.class_names, split=None, max_size=options.max_input_size, workers=workers)]


def arrange(root: bytes, dst: str, kind: str, *, overwrite: bool) -> Arrangement:
    """Return what a source's directories become.

    Raises
    ------
    SourceError
        If the source is missing, empty or of another kind.
    """
    dst = dst.rstrip("/") or dst
    if kind == "imagenet":
        splits, others = find_splits(root)
        targets = [Target(os.path.join(dst, f"{split}.lmdb"), overwrite=overwrite) for split in splits]
        return Arrangement(root, splits, [], others, Container(dst), targets)
    class_names = class_folders(root)
    refuse_splits(root, class_names)
    return Arrangement(root, [], class_names, [], None, [Target(dst, overwrite=overwrite)])


def _refuse_inside(path: str, directory: bytes) -> None:
    """Refuse a target inside a directory of class folders, where it would be a class from then on."""
    inner, outer = os.path.realpath(path), os.fsdecode(os.path.realpath(directory))
    if os.path.commonpath((inner, outer)) == outer:
        raise TargetError(f"{path}: expected a target outside of {printable(directory)}, which is being converted")
