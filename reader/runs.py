"""The runs that measure how fast a database can be read, planned: which way, when, for how long. Pure: no I/O."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

from lmdbio.reader.nodes import Nodes
from lmdbio.reader.ways import State, Way, choose_ways

_READING_SHARE: Final = 0.6
"""Part of the time that is for reading; the rest goes to opening, emptying the page cache, and waiting."""
_DEFAULT_S: Final = 60.0
_LEAST_RUN_S: Final = 0.1
_GOOD_RUN_S: Final = 0.25
PATIENCE: Final = 6
"""How many times as long as planned a run may go on until it is steady."""
_PAST_PERIOD: Final = 1.05
"""Periods that make a run steady: what is read at once does not begin at the very same step in all streams."""
_STRIDES: Final = 8
"""Strides, about, after which a run's time is up: ranks agree after each on whether to go on."""


@dataclass(frozen=True, slots=True)
class Run:
    """One way, to be read for a while."""

    state: State
    """Of the page cache."""
    round: int
    """Number of the round, from 0: all ways take part in each."""
    n_nodes: int
    """The ranks of so many nodes, the first, read."""
    way: Way
    """How."""
    seconds: float
    """How long it reads, about; in state ``warm`` it reads as long before that, at most, to fill the memory."""


def plan_runs(
    *,
    states: Sequence[State],
    node_counts: Sequence[int],
    nodes: Nodes,
    has_direct: bool,
    rounds: int,
    time_limit_s: float | None,
) -> list[Run]:
    """Return the runs in the order in which they are to be done; each state is done with before the next begins.

    The ways of a round take turns, in the opposite order in every second round, so that what changes with time touches
    all alike. Without a limit all takes a minute, or as much more as so many runs need.

    Raises
    ------
    ValueError
        If there is no time for so many runs.
    """
    drawn = [
        (state, number, n_nodes, way)
        for state in states
        for number in range(rounds)
        for n_nodes in node_counts
        for way in _in_turn(choose_ways(state, n_ranks=len(nodes.ranks(n_nodes)), has_direct=has_direct), number)
    ]
    n_readings = sum(_n_readings(state) for state, *_ in drawn)
    if time_limit_s is None:
        seconds = max(_READING_SHARE * _DEFAULT_S / n_readings, _GOOD_RUN_S)
    else:
        seconds = _READING_SHARE * time_limit_s / n_readings
    if seconds < _LEAST_RUN_S:
        least = n_readings * _LEAST_RUN_S / _READING_SHARE
        raise ValueError(
            f"time-limit: expected {math.ceil(least)} s or more for {len(drawn)} runs, found {time_limit_s:g} s: "
            "raise it, or ask for fewer rounds, states or numbers of nodes"
        )
    return [Run(state, number, n_nodes, way, seconds) for state, number, n_nodes, way in drawn]


def _n_readings(state: State) -> int:
    """Return how often a run reads: once before, where the memory is to be filled."""
    return 2 if state == "warm" else 1


def _in_turn(ways: list[Way], number: int) -> list[Way]:
    return ways[::-1] if number % 2 else ways


def ends_of_states(runs: Sequence[Run]) -> dict[State, float]:
    """Return the second by which each state's runs should be done, from the beginning of the first.

    >>> way = Way("plain", "file", "independent")
    >>> ends_of_states([Run("warm", 0, 1, way, 0.75)] + [Run("cold", 0, 1, way, 0.75)] * 2)
    {'warm': 2.5, 'cold': 5.0}
    """
    ends = accumulate(_n_readings(run.state) * run.seconds / _READING_SHARE for run in runs)
    return {run.state: end for run, end in zip(runs, ends, strict=True)}


def next_stride(done: int, elapsed_s: float, *, budget_s: float) -> int:
    """Return how many steps to do before the time is looked at again.

    One at first, since nothing is known of the speed; later about an eighth of the time, and never more than what is
    left of it at the speed so far.
    """
    left_s = min(budget_s / _STRIDES, budget_s - elapsed_s)
    return max(1, min(3 * done, int(done * left_s / max(elapsed_s, 1e-9))))


class PassPlan(NamedTuple):
    """Which steps of a pass count."""

    lead: int
    """Steps that are not counted."""
    least: int
    """Steps that must be read and counted for the speed to be steady."""
    end: int
    """End of the steps that count."""


def plan_pass(period: int, n_steps: int) -> PassPlan:
    """Return which of the first steps count, where much is read at once before the first of them, and every ``period``.

    What is read at once is read ahead of its steps. So the clock starts after the first step, the second time must be
    waited for, and the last steps, for which nothing more is read, do not count. Where there are too few steps for
    that all of them count, and must be read.

    >>> plan_pass(1, 1000), plan_pass(100, 150)
    (PassPlan(lead=0, least=1, end=1000), PassPlan(lead=0, least=150, end=150))
    >>> plan_pass(100, 1000)
    PassPlan(lead=1, least=105, end=900)
    """
    least = math.ceil(_PAST_PERIOD * period)
    if period == 1:
        return PassPlan(0, 1, n_steps)
    if n_steps < 1 + least + period:
        return PassPlan(0, n_steps, n_steps)
    return PassPlan(1, least, n_steps - period)
