"""How fast a database can be read, in every way: the planned runs are done in turn, and what they came to is data.

Of each way a run reads only as much as its share of the time allows, so that a database of any size can be measured:
what counts is bytes per second.
"""

import inspect
import itertools
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from lmdbio.comm import Comm, agreement
from lmdbio.errors import MissingIndexError
from lmdbio.layout.build import build_index
from lmdbio.layout.index import Index
from lmdbio.layout.path import PathLike
from lmdbio.reader import page_cache
from lmdbio.reader.nodes import Nodes, PatientComm
from lmdbio.reader.parallel import ParallelReader
from lmdbio.reader.passes import open_way
from lmdbio.reader.runs import Run, ends_of_states
from lmdbio.reader.settings import DEFAULT_STREAMS
from lmdbio.reader.subject import Passes, Subject
from lmdbio.reader.survey import Survey
from lmdbio.reader.tally import read_passes

_MEMORY_SHARE: Final = 0.5
"""Part of a machine's available memory that a file, or else the samples of all ways together, may take in ``warm``."""
_SHUFFLE_WINDOW: Final[int] = inspect.signature(ParallelReader).parameters["shuffle_window"].default

Progress: TypeAlias = Callable[[int, Run], None]
"""Called before each run, on every rank, with its number."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one run came to; the ranks' parts added up."""

    run: Run
    """What was to be done."""
    n_ranks: int
    """Ranks that read."""
    n_records: int
    """Records read; 0 in plain reads."""
    n_bytes: int
    """Bytes of values, or of the file in plain reads."""
    seconds: float
    """From the common start to the end of the slowest rank."""
    cpu_s: float
    """Processor time of all ranks and their threads."""
    is_steady: bool
    """Whether it went on for long enough to be what it would be in the long run, and no less."""
    cached_share: float | None
    """What part of the file was in memory before a cold run, on the node where it was most; None if not known."""


@contextmanager
def open_subject(
    survey: Survey, index: PathLike | None, *, comm: Comm, batch_size: int
) -> Generator[tuple[Subject, float | None]]:
    """Collective. Give the database, and the seconds that an index took to make in memory; None where one lies there.

    It is made once, by rank 0, and kept in a temporary file, since every run opens it.
    """
    made_s = None
    streams = max(DEFAULT_STREAMS, survey.nodes.n_nodes)
    with ExitStack() as made:
        try:
            held = Index.open(survey.database, index, comm=comm)
        except MissingIndexError:
            if index is not None:
                raise
            begun = time.monotonic()
            held = build_index(survey.database, comm=comm)
            with agreement(comm):
                if comm.Get_rank() == 0:
                    index = Path(made.enter_context(tempfile.TemporaryDirectory(prefix="lmdbio-"))) / "index"
                    held.save(index)
            index = comm.bcast(index)
            made_s = time.monotonic() - begun
        yield (
            Subject(survey.database, survey.data, survey.file_size, held, index, batch_size, streams, _SHUFFLE_WINDOW),
            made_s,
        )


def measure(subject: Subject, survey: Survey, runs: list[Run], *, comm: Comm, progress: Progress) -> list[Measurement]:
    """Collective. Return what the runs came to, on every rank.

    Rounds for which no time is left are not begun, but for the first of each state. Where the page cache
    turns out not to be emptied in a cold run, all of that state are said to be as found.
    """
    world = PatientComm(comm)
    ends = ends_of_states(runs)
    begun, last_s, number = time.monotonic(), 0.0, 0
    measurements: list[Measurement] = []
    with _first_nodes(comm, survey.nodes, {run.n_nodes for run in runs}) as comms:
        warm = {(run.n_nodes, run.way) for run in runs if run.state == "warm"}
        bench = _Bench(subject, survey, rank=comm.Get_rank(), n_warm_ways=len(warm))
        for (state, _), members in itertools.groupby(runs, lambda run: (run.state, run.round)):
            planned = list(members)
            round_begun = time.monotonic()
            is_first = not any(done.run.state == state for done in measurements)
            if is_first or world.bcast(round_begun - begun + last_s <= ends[state]):
                for place, run in enumerate(planned):
                    progress(number + place, run)
                    measurements.append(_do(run, bench, comms[run.n_nodes], world))
            number += len(planned)
            last_s = time.monotonic() - round_begun
    return _named_by_what_was_found(measurements)


def _do(run: Run, bench: "_Bench", comm: Comm | None, world: PatientComm) -> Measurement:
    """Do a run; ranks that have no part in it wait asleep, and learn what it came to."""
    done = None
    with agreement(world):
        if comm is not None:
            done = bench.do(run, comm)
    measured: Measurement = world.bcast(done)
    return measured


def _named_by_what_was_found(measurements: list[Measurement]) -> list[Measurement]:
    cold = [done for done in measurements if done.run.state == "cold"]
    if all(done.cached_share is not None and done.cached_share <= page_cache.COLD_SHARE for done in cold):
        return measurements
    return [
        replace(done, run=replace(done.run, state="as found")) if done.run.state == "cold" else done
        for done in measurements
    ]


@contextmanager
def _first_nodes(comm: Comm, nodes: Nodes, counts: set[int]) -> Generator[dict[int, Comm | None]]:
    """Collective. Give a communicator of the ranks of the first nodes, for each number of nodes; None elsewhere."""
    comms: dict[int, Comm | None] = {}
    made: list[Any] = []
    for n_nodes in sorted(counts):
        if n_nodes == nodes.n_nodes:
            comms[n_nodes] = comm
            continue
        from mpi4py import MPI

        assert isinstance(comm, MPI.Intracomm)
        is_member = nodes.node_of[comm.Get_rank()] < n_nodes
        part = comm.Split(0 if is_member else MPI.UNDEFINED, comm.Get_rank())
        comms[n_nodes] = part if is_member else None
        made += [part] if is_member else []
    try:
        yield comms
    finally:
        for part in made:
            part.Free()


class _Bench:
    """Where the runs are done, on one rank of those that take part."""

    def __init__(self, subject: Subject, survey: Survey, *, rank: int, n_warm_ways: int) -> None:
        self._subject = subject
        self._is_first = survey.nodes.is_first(rank)
        fits = survey.file_size <= survey.memory * _MEMORY_SHARE
        self._sample_size = survey.file_size if fits else int(survey.memory * _MEMORY_SHARE / max(1, n_warm_ways))

    def do(self, run: Run, comm: Comm) -> Measurement:
        """Collective. Return what the run came to, on each of the ranks that take part."""
        patient = PatientComm(comm)
        share = self._empty(patient) if run.state == "cold" else None
        # Cold runs read other records each time where they can: what lies below may have a memory of its own.
        seed = 0 if run.state == "warm" else run.round
        with ExitStack() as opened:
            with agreement(patient):
                passes = opened.enter_context(open_way(run.way, self._subject, comm, seed=seed))
            n_steps = passes.n_steps
            if run.state == "warm":
                most = max(1, self._sample_size // passes.step_size)
                n_steps = self._fill_memory(passes, patient, min(most, n_steps), budget_s=run.seconds)
            repeats = run.state == "warm"
            tally = read_passes(passes, patient, n_steps=n_steps, budget_s=run.seconds, repeats=repeats)
        return Measurement(
            run,
            comm.Get_size(),
            tally.n_records,
            tally.n_bytes,
            tally.seconds,
            tally.cpu_s,
            is_steady=tally.is_steady,
            cached_share=share,
        )

    def _fill_memory(self, passes: Passes, comm: PatientComm, n_steps: int, *, budget_s: float) -> int:
        """Collective. Read the first steps, and return how many of them that were before the time was up."""
        return read_passes(passes, comm, n_steps=n_steps, budget_s=budget_s, repeats=False).n_steps

    def _empty(self, comm: PatientComm) -> float | None:
        """Collective. Empty the page cache of the file on each node; return the largest share that stayed."""
        path = self._subject.data
        share: float | None = 0.0
        with agreement(comm):
            if self._is_first:
                page_cache.empty(path)
                share = page_cache.cached_share(path)
        shares = comm.allgather(share)
        known = [share for share in shares if share is not None]
        return max(known) if len(known) == len(shares) else None
