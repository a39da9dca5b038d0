"""What is read to measure it: the database, what a way of reading it must offer, and work done. No I/O."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import xxhash

from lmdbio.layout.index import Index
from lmdbio.layout.path import PathLike


class Work(NamedTuple):
    """What has been read."""

    n_records: int
    n_bytes: int


@dataclass(frozen=True, slots=True)
class Subject:
    """The database that is read, and in what steps."""

    database: PathLike
    """As it was named."""
    data: str
    """Its data file."""
    file_size: int
    """Bytes of the data file."""
    index: Index
    """Where the records are."""
    index_path: PathLike | None
    """The index's file, where it does not lie beside the data file."""
    batch_size: int
    """Records of a step on each rank."""
    streams: int
    """Streams of ``block`` order."""
    shuffle_window: int
    """How many partition pieces of a stream ``block`` order shuffles together."""

    @property
    def shuffled_together(self) -> int:
        """Records that ``block`` order shuffles at a time, in all streams together, about."""
        n_partitions = max(1, len(self.index.partitions) - 1)
        return min(len(self.index), self.streams * self.shuffle_window * len(self.index) // n_partitions)

    def step_size(self, n_ranks: int) -> int:
        """Return the bytes of a step of so many ranks, about, and rather too many: of the file for each record."""
        return max(1, self.file_size * self.batch_size * n_ranks // max(1, len(self.index)))


class Passes(Protocol):
    """One way of reading, open on one rank of those that read together."""

    n_steps: int
    """Steps of a pass, the same on every rank."""
    step_size: int
    """Bytes of a step of all ranks, about."""
    period: int
    """Steps from one time that much is read at once to the next, where a reader does so; 1 where it does not."""

    def prepare(self, steps: range) -> None:
        """Make ready what a program would have at hand before these steps."""

    def begin(self) -> Iterator[Work]:
        """Begin a pass; what is given for each step is this rank's part of it."""


def hashed(values: Iterable[memoryview]) -> Work:
    """Take the XXH3-64 of each value, so that every byte is touched, and return what that was."""
    n_records = n_bytes = 0
    for value in values:
        xxhash.xxh3_64_intdigest(value)
        n_bytes += len(value)
        n_records += 1
    return Work(n_records, n_bytes)
