"""What a contestant is: how it stores a data set, and in which ways it reads it. Standard library alone, no I/O.

Every contestant lives in a file of its own in :mod:`tools.compare.contestants`, as a module that holds one object named
``CONTESTANT``. It runs in a virtual environment of its own, so such a module imports its peer inside functions.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
"""The bytes of a value."""
Order: TypeAlias = Literal["sequential", "shuffled"]
"""What is asked for: all records once in whatever order is natural on disk, or once in an order fit for training."""
Epoch: TypeAlias = Callable[[int], Iterator[Sequence[Buffer]]]
"""Gives the values that this rank reads in an epoch, from 0, batch by batch, as bytes-like objects."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """Which of the processes that read together this one is."""

    rank: int
    """From 0."""
    size: int
    """Processes in all."""
    batch_size: int
    """Records of a batch on each rank."""
    seed: int
    """Of the shuffle."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way in which a contestant reads."""

    name: str
    """Short, unique within the contestant: a column of the table."""
    order: Order
    """Which question it answers."""
    shuffle: str
    """How well it shuffles, in a few words: "none", "global", "64 shards and a buffer of 1,000 records"."""
    uses_mpi: bool = False
    """Whether its ranks are launched by mpiexec; otherwise they are plain processes."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a source."""

    name: str
    """Path relative to the source, ``<class>/<name>.JPEG``: unique."""
    label: int
    """Number of the class, from 0."""
    value: bytes
    """The bytes to store as they are."""


class Source(Protocol):
    """The data set to store."""

    @property
    def folder(self) -> Path | None:
        """The folder of class folders that it is; None for records that are made on demand."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Record]:
        """Yield all records, reading each file as it comes, in sorted order of names."""

    def names(self) -> Iterable[tuple[str, int]]:
        """Yield (name, label) of all records in the same order, reading nothing else."""


class Contestant(Protocol):
    """A way to store a data set, and the ways to read it."""

    name: str
    """Unique: a row of the table."""
    requirements: tuple[str, ...]
    """Pinned requirements of its virtual environment beside numpy, pillow and xxhash; none: the environment at hand."""
    ways: tuple[Way, ...]
    """How it reads."""

    def convert(self, source: Source, target: Path) -> None:
        """Store the source's bytes as they are in the folder ``target``, which is not there yet, as its users would.

        The driver times it from the call to the end of a sync of the file system.
        """

    def open(self, target: Path, way: Way, ranks: Ranks) -> AbstractContextManager[Epoch]:
        """Open what :meth:`convert` made for reading by one rank.

        All ranks together give every record of an epoch at least once; which were given twice or left out the driver
        finds out from the count and the checksums.
        """
