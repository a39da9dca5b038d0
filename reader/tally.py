"""What all ranks read of a way in a given time, and how long it took them."""

import itertools
import time
from typing import NamedTuple

from lmdbio.comm import Comm, agreement
from lmdbio.reader.runs import PATIENCE, next_stride, plan_pass
from lmdbio.reader.subject import Passes


class Tally(NamedTuple):
    """What all ranks have read."""

    n_steps: int
    """The most steps of a pass, those that were not counted among them."""
    n_records: int
    n_bytes: int
    seconds: float
    """From the common start to the end of the slowest rank."""
    cpu_s: float
    """Processor time of all ranks and their threads."""
    is_steady: bool
    """Whether it would go on at that speed; otherwise it would be faster in the long run."""


class _Part(NamedTuple):
    """What one rank has read, and how long it took."""

    n_records: int = 0
    n_bytes: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0

    def plus(self, other: "_Part") -> "_Part":
        return _Part(
            self.n_records + other.n_records,
            self.n_bytes + other.n_bytes,
            self.seconds + other.seconds,
            self.cpu_s + other.cpu_s,
        )


def read_passes(passes: Passes, comm: Comm, *, n_steps: int, budget_s: float, repeats: bool) -> Tally:
    """Collective. Read the first steps of a way until the time is up, on all ranks equally many.

    Where a way reads much at once from time to time, the clock starts after the first time, and the second is waited
    for; where there are too few steps for that they all count, from the start.

    Parameters
    ----------
    passes
        The way.
    comm
        The ranks that read.
    n_steps
        The most steps of a pass.
    budget_s
        Seconds to read, about; up to ``PATIENCE`` times as long until the speed is steady.
    repeats
        Whether to begin again after them while there is time.
    """
    plan = plan_pass(passes.period, n_steps)
    reading = _Reading(passes, comm)
    lead = reading.begin_pass(plan.lead)
    in_pass = most = plan.lead
    counted, done = _Part(), 0
    seconds = 0.0
    while True:
        stride = min(next_stride(done, seconds, budget_s=budget_s), plan.end - in_pass)
        counted = counted.plus(reading.read(range(in_pass, in_pass + stride)))
        done, in_pass = done + stride, in_pass + stride
        most = max(most, in_pass)
        seconds = max(comm.allgather(counted.seconds))
        is_steady = done >= plan.least
        is_over = seconds >= budget_s * (1 if is_steady else PATIENCE)
        if is_over or (in_pass == plan.end and not repeats):
            return _add_up(counted if is_steady else counted.plus(lead), comm, n_steps=most, is_steady=is_steady)
        if in_pass == plan.end:
            reading.begin_pass(plan.lead)
            in_pass = plan.lead


def _add_up(part: _Part, comm: Comm, *, n_steps: int, is_steady: bool) -> Tally:
    """Collective. Return what all ranks have read together."""
    parts = comm.allgather(part)
    return Tally(
        n_steps=n_steps,
        n_records=sum(part.n_records for part in parts),
        n_bytes=sum(part.n_bytes for part in parts),
        seconds=max(part.seconds for part in parts),
        cpu_s=sum(part.cpu_s for part in parts),
        is_steady=is_steady,
    )


class _Reading:
    """The steps of passes on one rank; what is made ready for them does not count."""

    def __init__(self, passes: Passes, comm: Comm) -> None:
        self._passes = passes
        self._comm = comm

    def begin_pass(self, lead: int) -> _Part:
        """Collective. Begin again, all together, at the first step; return what the first ``lead`` steps came to."""
        self._comm.Barrier()
        self._steps = self._passes.begin()
        part = self.read(range(lead))
        self._comm.Barrier()
        return part

    def read(self, steps: range) -> _Part:
        """Collective. Read the next steps of the pass, and return what they came to on this rank.

        That ranks wait for each other at the end of it costs none of them time.
        """
        n_records = n_bytes = 0
        seconds = cpu_s = 0.0
        with agreement(self._comm):
            self._passes.prepare(steps)
            began, cpu_began = time.perf_counter(), time.process_time()
            for work in itertools.islice(self._steps, len(steps)):
                n_records += work.n_records
                n_bytes += work.n_bytes
            seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
        return _Part(n_records, n_bytes, seconds, cpu_s)
