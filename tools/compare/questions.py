"""What can be asked of the contestants. Pure: no I/O."""

import fnmatch
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from tools.compare.contestant import Order

Work: TypeAlias = Literal["convert", "read", "decode"]
"""Store a data set; read every byte; read and decode every photograph as well."""
Place: TypeAlias = Literal["local", "testbed"]
"""This machine's disk, or a distributed file system on it."""
Cache: TypeAlias = Literal["cold", "warm"]
"""Whether the page cache holds nothing or all of what is read at the start."""

PLACES: Final[tuple[Place, ...]] = ("local", "testbed")
CACHES: Final[tuple[Cache, ...]] = ("cold", "warm")
ORDERS: Final[tuple[Order, ...]] = ("sequential", "shuffled")
PROCESSES: Final = (1, 2, 4)
_TWICE: Final = 2
"""Processes of the questions in which a second epoch is read: one number of them must do."""


@dataclass(frozen=True, slots=True)
class Question:
    """One kind of work under one set of conditions."""

    work: Work
    data: str
    """Kind of the data set."""
    place: Place
    cache: Cache
    order: Order | None = None
    """None where a data set is stored."""
    processes: int = 1
    """Ranks; on the testbed each has a node of its own."""

    @property
    def name(self) -> str:
        """What it is called on the command line, in files and in tables."""
        parts = [self.work, self.data, self.place, self.cache]
        return "-".join(parts if self.order is None else [*parts, self.order, str(self.processes)])

    @property
    def n_epochs(self) -> int:
        """Epochs that are read, one after the other."""
        return 2 if self.work == "read" and self.cache == "cold" and self.processes == _TWICE else 1

    @property
    def title(self) -> str:
        """What is asked, for a person."""
        where = f"{self.data}, {self.place}, {self.cache}"
        if self.order is None:
            return f"Convert {where}"
        whom = "process" if self.processes == 1 else "processes"
        verb = "Read" if self.work == "read" else "Read and decode"
        return f"{verb} {where}, {self.order}, {self.processes} {whom}"


def all_questions() -> list[Question]:
    """Return everything that can be asked, in the order in which it is asked."""
    questions: list[Question] = [Question("convert", "photos", "local", cache) for cache in CACHES]
    for data in ("photos", "few_photos", "lognormal", "cifar", "fixed", "tiny"):
        work: Work = "decode" if data == "few_photos" else "read"
        # What the photographs have shown of warm reading holds for other values; small ones differ.
        caches = CACHES if data in ("photos", "cifar") else CACHES[:1]
        for place, cache, processes, order in itertools.product(PLACES, caches, PROCESSES, ORDERS):
            questions.append(Question(work, data, place, cache, order, processes))
    return questions


SHORT: Final = (
    "convert-photos-local-*",
    "read-photos-local-*-2",
)
"""The questions of the short form."""


def select(patterns: Sequence[str], *, places: Sequence[Place]) -> list[Question]:
    """Return the questions whose names match one of the patterns, at these places.

    >>> [question.name for question in select(["convert-*"], places=["local"])]
    ['convert-photos-local-cold', 'convert-photos-local-warm']

    Raises
    ------
    ValueError
        If a pattern matches no question at all, or none at these places.
    """
    questions = all_questions()
    for pattern in patterns:
        found = {question.place for question in questions if fnmatch.fnmatch(question.name, pattern)}
        if not found:
            raise ValueError(f"questions: expected the name of one, or a pattern, found {pattern!r}: see --list")
        if not found & set(places):
            raise ValueError(
                f"questions: expected some that are asked at {' or '.join(places)}, found {pattern!r}, "
                f"which is asked at {' and '.join(sorted(found))}: see --place"
            )
    return [
        question
        for question in questions
        if question.place in places and any(fnmatch.fnmatch(question.name, pattern) for pattern in patterns)
    ]
