"""What takes part in the rounds: a contestant in one of its ways, or a ceiling; each gives the facts of its epochs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tools.compare import caches, ceilings
from tools.compare.contestant import Contestant, Way
from tools.compare.data import DataSet
from tools.compare.digests import Expected, judge
from tools.compare.questions import Question
from tools.compare.ranks import Job, RankFailure, RankGroup


@dataclass(frozen=True, slots=True)
class Conditions:
    """What all entrants of a data set share."""

    data: DataSet
    expected: Expected
    cache: Path
    """Where data sets are cached."""
    batch_size: int
    """Records of a batch on each rank."""
    seed: int
    timeout_s: float
    """For everything that one run does."""

    def arguments(self, contestant: str, targets: Sequence[Path]) -> list[str]:
        """Return the arguments of a rank."""
        data = self.data
        named = {
            "--contestant": contestant,
            "--cache": str(self.cache),
            "--kind": data.kind,
            "--records": str(data.n_records),
            "--data-seed": str(data.seed),
            "--batch-size": str(self.batch_size),
            "--seed": str(self.seed),
        }
        return [
            *(text for pair in named.items() for text in pair),
            *(text for target in targets for text in ("--target", str(target))),
        ]


class Entrant(Protocol):
    """One row of a question's table."""

    @property
    def contestant(self) -> str:
        """Name of the contestant."""

    @property
    def way(self) -> str:
        """How it reads; empty where it stores."""

    @property
    def shuffle(self) -> str:
        """How well it shuffles, in a few words."""

    def run(
        self, question: Question, conditions: Conditions, folders: Sequence[Path], prepare: Callable[[], None]
    ) -> list[dict[str, Any]]:
        """Do the work, and return the facts of each epoch.

        Parameters
        ----------
        question
            What is asked.
        conditions
            What all share.
        folders
            Where the store lies, seen from each node.
        prepare
            Brings the caches into the state asked for; called when all processes are there and have read nothing.

        Raises
        ------
        RankFailure
            If it could not be done, or not rightly.
        """


@dataclass(frozen=True, slots=True)
class Reading:
    """A contestant that reads in one of its ways."""

    peer: Contestant
    name: str
    """What the contestant is loaded by."""
    chosen: Way
    python: str
    versions: dict[str, dict[str, str]]
    """By contestant; what the ranks say is put there."""

    @property
    def contestant(self) -> str:
        """Name of the contestant."""
        return self.peer.name

    @property
    def way(self) -> str:
        """How it reads."""
        return self.chosen.name

    @property
    def shuffle(self) -> str:
        """How well it shuffles."""
        return self.chosen.shuffle

    def run(
        self, question: Question, conditions: Conditions, folders: Sequence[Path], prepare: Callable[[], None]
    ) -> list[dict[str, Any]]:
        """Read all epochs by all ranks; each must give every record."""
        arguments = [*conditions.arguments(self.name, folders), "--way", self.way, *_ask_versions(self)]
        if question.work == "decode":
            arguments.append("--decode")
        n_nodes = question.processes if question.place == "testbed" else 1
        job = Job(self.python, arguments, question.processes, self.chosen.uses_mpi, n_nodes, conditions.timeout_s)
        with RankGroup(job) as group:
            self.versions.setdefault(self.contestant, group.versions)
            prepare()
            opened = max(answer["open_s"] for answer in group.ask("open", "ready"))
            if question.cache == "cold":  # what opening has brought in is not for the epoch, unless it is mapped
                caches.forget(caches.files_below(dict.fromkeys(folders)))
            return [
                self._epoch(group, conditions, epoch, question.processes) | {"open_s": opened}
                for epoch in range(question.n_epochs)
            ]

    @staticmethod
    def _epoch(group: RankGroup, conditions: Conditions, epoch: int, n_ranks: int) -> dict[str, Any]:
        paths = [str(group.folder / f"{rank}.npy") for rank in range(n_ranks)]
        ranks = group.ask("epoch", "done", facts=[{"number": epoch, "digests": path} for path in paths])
        finding = judge(conditions.expected, [np.load(path) for path in paths])
        if finding.reason:
            raise RankFailure(finding.reason)
        return combine(ranks) | {"n_repeated": finding.n_repeated}


@dataclass(frozen=True, slots=True)
class Storing:
    """A contestant that stores the data set."""

    peer: Contestant
    name: str
    """What the contestant is loaded by."""
    python: str
    versions: dict[str, dict[str, str]]
    """By contestant; what the ranks say is put there."""
    way: str = ""
    shuffle: str = ""

    @property
    def contestant(self) -> str:
        """Name of the contestant."""
        return self.peer.name

    def run(
        self, question: Question, conditions: Conditions, folders: Sequence[Path], prepare: Callable[[], None]
    ) -> list[dict[str, Any]]:
        """Store the data set in the first of the folders."""
        arguments = [*conditions.arguments(self.name, folders), *_ask_versions(self)]
        job = Job(self.python, arguments, 1, False, 1, conditions.timeout_s)
        with RankGroup(job) as group:
            self.versions.setdefault(self.contestant, group.versions)
            prepare()
            return [combine(group.ask("convert", "done"))]


@dataclass(frozen=True, slots=True)
class Dd:
    """Parallel dd over a file of all values."""

    chosen: ceilings.DdWay
    contestant: str = ceilings.FLAT
    shuffle: str = "none"

    @property
    def way(self) -> str:
        """How it reads."""
        return self.chosen.name

    def run(
        self, question: Question, conditions: Conditions, folders: Sequence[Path], prepare: Callable[[], None]
    ) -> list[dict[str, Any]]:
        """Read the file once."""
        prepare()
        return [ceilings.run_dd(folders, self.chosen, timeout_s=conditions.timeout_s)]


@dataclass(frozen=True, slots=True)
class Cp:
    """``cp -r`` of the source with a sync."""

    source: Path
    contestant: str = "cp -r"
    way: str = ""
    shuffle: str = ""

    def run(
        self, question: Question, conditions: Conditions, folders: Sequence[Path], prepare: Callable[[], None]
    ) -> list[dict[str, Any]]:
        """Copy the source."""
        prepare()
        return [ceilings.run_cp(self.source, folders[0], timeout_s=conditions.timeout_s)]


def _ask_versions(entrant: Reading | Storing) -> list[str]:
    """Return the argument that makes rank 0 look up versions, unless they are known."""
    return [] if entrant.contestant in entrant.versions else ["--versions"]


def combine(ranks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the facts of all ranks as one: from the first start to the last end, by the clock that all share."""
    return {
        "start": min(rank["start"] for rank in ranks),
        "end": max(rank["end"] for rank in ranks),
        "cpu_s": sum(rank["cpu_s"] for rank in ranks),
        "peak_memory": sum(rank["peak_memory"] for rank in ranks),
    }
