"""Plain files in class folders, read one after the other in the order of torchvision's ImageFolder."""

import os
import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from tools.compare.contestant import Epoch, Ranks, Source, Way
from tools.compare.data import Folder

_SEQUENTIAL = Way("sequential", "sequential", "none")
_SHUFFLED = Way("shuffled", "shuffled", "global")


class Files:
    """Every record is a file; what ImageFolder and a sampler do, without their decoding."""

    name = "files"
    requirements: tuple[str, ...] = ()
    ways = (_SEQUENTIAL, _SHUFFLED)

    def convert(self, source: Source, target: Path) -> None:
        """Write each record to a file of its name."""
        made: set[str] = set()
        for record in source:
            folder, _, _ = record.name.rpartition("/")
            if folder not in made:
                os.makedirs(target / folder, exist_ok=True)
                made.add(folder)
            with open(target / record.name, "wb", buffering=0) as file:
                file.write(record.value)

    def open(self, target: Path, way: Way, ranks: Ranks) -> AbstractContextManager[Epoch]:
        """List the files; each rank takes every n-th, as DistributedSampler deals them."""
        paths = [os.fspath(target / name) for name, _ in Folder(target).names()]

        def epoch(number: int) -> Iterator[list[bytes]]:
            order = list(range(len(paths)))
            if way == _SHUFFLED:
                random.Random(f"{ranks.seed} {number}").shuffle(order)
            mine = order[ranks.rank :: ranks.size]
            for first in range(0, len(mine), ranks.batch_size):
                yield [_read(paths[place]) for place in mine[first : first + ranks.batch_size]]

        return nullcontext(epoch)


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


CONTESTANT = Files()
