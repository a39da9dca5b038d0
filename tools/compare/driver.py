"""Asking all questions: makes the data, the stores and the caches' states, and runs the rounds."""

import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from tools.compare import caches, ceilings, data, places
from tools.compare.contestant import Source
from tools.compare.data import DataSet
from tools.compare.dd_ways import Condition, dd_ways
from tools.compare.digests import expect
from tools.compare.entrants import Conditions, Cp, Dd, Entrant, Reading, Storing
from tools.compare.members import Member
from tools.compare.questions import Place, Question
from tools.compare.ranks import RankFailure
from tools.compare.results import Results, Run, describe_folder
from tools.compare.rounds import Clock, order_of

_MOST_FILES = 100_000


@dataclass(frozen=True, slots=True)
class Settings:
    """How to ask."""

    cache: Path
    """Where data sets and environments are kept."""
    stores: Path
    """Where stores are made, and removed in the end."""
    results: Path
    """The JSON file, written after every question of every round."""
    n_rounds: int
    n_records: int | None
    """Of each data set; None: as many as its kind has."""
    batch_size: int
    seed: int
    timeout_s: float
    """For one run."""


@dataclass(slots=True)
class Driver:
    """Asks questions and notes the answers."""

    settings: Settings
    members: list[Member]
    results: Results
    clock: Clock
    _failed: set[str] = field(default_factory=set)
    """Contestants that have no store of the data set at hand."""
    _struck: set[tuple[str, str, str]] = field(default_factory=set)
    """Question, contestant and way of rows that have failed."""

    def ask(self, questions: Sequence[Question]) -> None:
        """Ask all, data set by data set, place by place."""
        for kind, of_kind in groupby(questions, key=lambda question: question.data):
            self._ask_of_data(kind, list(of_kind))

    def _ask_of_data(self, kind: str, questions: list[Question]) -> None:
        data_set = data_set_of(kind, self.settings)
        self._say(f"making {data_set.name}")
        source = data.prepare(data_set, self.settings.cache)
        expected = expect(source, self.settings.cache / "data" / f"{data_set.name}.npz")
        settings = self.settings
        conditions = Conditions(
            data_set, expected, settings.cache, settings.batch_size, settings.seed, settings.timeout_s
        )
        self._failed = set()
        folder = settings.stores / data_set.name
        try:
            stores = places.local(folder)
            self._note_place("local", folder)
            self._convert([one for one in questions if one.work == "convert"], conditions, source, stores)
            reading = [one for one in questions if one.work != "convert"]
            if reading:
                self._make_stores(conditions, source, stores)
            self._read([one for one in reading if one.place == "local"], conditions, stores)
            remote = [one for one in reading if one.place == "testbed"]
            if remote:
                self._read_remotely(remote, conditions, stores)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _convert(self, questions: list[Question], conditions: Conditions, source: Source, stores: places.Roots) -> None:
        entrants: list[tuple[Entrant, str]] = [
            (Storing(member.contestant, member.name, member.python, self.results.versions), member.store)
            for member in self._storing(source)
        ]
        if source.folder is not None:
            entrants.append((Cp(source.folder), "cp"))
        folder = source.folder
        assert folder is not None or not questions, "records made on demand are never cold"
        for number, question in self._rounds(questions, n_entrants=len(entrants)):
            for entrant, store in order_of(entrants, number=number):
                stores.remove(store)
                made = stores.folders(store, n_ranks=1)
                self._run(entrant, question, number, conditions, made, [folder] if folder else [])
        stores.remove("cp")
        if questions:
            self._check_stores(conditions, source, stores)

    def _check_stores(self, conditions: Conditions, source: Source, stores: places.Roots) -> None:
        """Read what the last round has stored; a store that does not hold all of it takes its times along."""
        question = Question("read", conditions.data.kind, "local", "warm", "sequential")
        for member in self._storing(source):
            folders = stores.folders(member.store, n_ranks=1)
            way = member.contestant.ways[0]
            reading = Reading(member.contestant, member.name, way, member.python, self.results.versions)
            self._say(f"checking what {member.contestant.name} has stored")
            try:
                reading.run(question, conditions, folders, lambda: None)
            except RankFailure as exc:
                stores.remove(member.store)
                self.results.fail(member.contestant.name, work="convert", reason=f"what it stored: {exc}")

    def _storing(self, source: Source) -> list[Member]:
        """Return who stores a data set: a file for each of a million records is not what anybody does."""
        if len(source) <= _MOST_FILES:
            return self.members
        self._note(f"files: left out where there are more than {_MOST_FILES:,} records")
        return [member for member in self.members if member.name != "files"]

    def _make_stores(self, conditions: Conditions, source: Source, stores: places.Roots) -> None:
        """Store the data set where that is not done yet, untimed."""
        flat = stores.folders(ceilings.FLAT, n_ranks=1)[0]
        ceilings.store_flat(source, flat)
        question = Question("convert", conditions.data.kind, "local", "warm")
        self._failed = {member.name for member in self.members} - {member.name for member in self._storing(source)}
        for member in self._storing(source):
            folders = stores.folders(member.store, n_ranks=1)
            if folders[0].exists():
                continue
            self._say(f"storing {conditions.data.name}: {member.contestant.name}")
            entrant = Storing(member.contestant, member.name, member.python, self.results.versions)
            try:
                entrant.run(question, conditions, folders, lambda: None)
            except RankFailure as exc:
                self._failed.add(member.name)
                self._note(f"{member.contestant.name}: {conditions.data.kind} could not be stored: {exc}")

    def _read_remotely(self, questions: list[Question], conditions: Conditions, stores: places.Roots) -> None:
        with places.testbed(self.settings.stores / "testbed") as mounts:
            self._note_place("testbed", mounts.nodes[0])
            for folder in sorted(stores.nodes[0].iterdir()):
                self._say(f"copying {folder.name} to the testbed")
                mounts.put(folder)
                stores.remove(folder.name)
            self._read(questions, conditions, mounts)

    def _read(self, questions: list[Question], conditions: Conditions, roots: places.Roots) -> None:
        if not questions:
            return
        self._say(f"choosing the fastest ways of dd for {conditions.data.name}")
        dd = dd_ways(questions, roots, timeout_s=conditions.timeout_s)
        for number, question in self._rounds(questions, n_entrants=self._n_readers(questions)):
            for entrant, store in order_of(self._readers(question, dd), number=number):
                folders = roots.folders(store, n_ranks=question.processes)
                self._run(entrant, question, number, conditions, folders, folders)

    def _readers(self, question: Question, dd: dict[Condition, list[ceilings.DdWay]]) -> list[tuple[Entrant, str]]:
        found: list[tuple[Entrant, str]] = [
            (Reading(member.contestant, member.name, way, member.python, self.results.versions), member.store)
            for member in self.members
            if member.name not in self._failed
            for way in member.ways
            if way.order == question.order
        ]
        if question.work == "read":
            found += [(Dd(way), ceilings.FLAT) for way in dd[question.cache, question.processes]]
        return found

    def _n_readers(self, questions: Sequence[Question]) -> int:
        ways = [
            sum(way.order == question.order for member in self.members for way in member.ways) for question in questions
        ]
        return max(ways, default=0)

    def _rounds(self, questions: Sequence[Question], *, n_entrants: int) -> Iterator[tuple[int, Question]]:
        """Yield what to ask when, and keep the time: whole rounds of a question, or none of it."""
        self.clock.begin_stage(n_entrants * len(questions) * self.settings.n_rounds)
        left = list(questions)
        for number in range(self.settings.n_rounds):
            for question in list(left):
                if not self.clock.has_time_for(question.name):
                    self._note(f"{question.name}: time was up after {number} rounds")
                    self.clock.drop(n_entrants * (self.settings.n_rounds - number))
                    left.remove(question)
                    continue
                self.clock.tell(f"round {number + 1} of {self.settings.n_rounds}: {question.title}")
                begun = time.monotonic()
                yield number, question
                self.clock.took(question.name, time.monotonic() - begun, n_runs=n_entrants)
                self.results.save(self.settings.results)

    def _run(
        self,
        entrant: Entrant,
        question: Question,
        number: int,
        conditions: Conditions,
        folders: Sequence[Path],
        read_from: Sequence[Path],
    ) -> None:
        """Run one entrant once and note the result, or why there is none; one that has failed does not run again."""
        if (question.name, entrant.contestant, entrant.way) in self._struck:
            return
        facts: dict[str, Any] = {
            "question": question.name,
            "round": number,
            "contestant": entrant.contestant,
            "way": entrant.way,
            "shuffle": entrant.shuffle,
        }
        try:
            epochs = entrant.run(question, conditions, folders, lambda: caches.prepare(question.cache, read_from))
        except (RankFailure, caches.NotCold) as exc:
            self._struck.add((question.name, entrant.contestant, entrant.way))
            self.results.runs.append(Run(**facts, failure=str(exc)))
            self._say(f"failed: {entrant.contestant} {entrant.way}: {exc}")
            return
        expected = conditions.expected
        for epoch, found in enumerate(epochs):
            self.results.runs.append(
                Run(
                    **facts,
                    epoch=epoch,
                    seconds=found["end"] - found["start"],
                    open_s=found.get("open_s"),
                    n_records=expected.n_records,
                    n_bytes=expected.n_bytes,
                    n_repeated=found.get("n_repeated", 0),
                    cpu_s=found["cpu_s"],
                    peak_memory=found["peak_memory"],
                )
            )

    def _note_place(self, place: Place, folder: Path) -> None:
        self.results.machine["file_systems"][place] = describe_folder(folder)

    def _note(self, text: str) -> None:
        if text not in self.results.notes:
            self.results.notes.append(text)
            self._say(text)

    def _say(self, text: str) -> None:
        print(f"compare: {text}", file=sys.stderr, flush=True)


def data_set_of(kind: str, settings: Settings) -> DataSet:
    """Return the data set of a kind."""
    n_records = data.KINDS[kind].n_records
    return DataSet(kind, min(n_records, settings.n_records or n_records), settings.seed)
