"""The order of work: rounds of all entrants, forwards and backwards in turn, until they are done or time is up."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

Item = TypeVar("Item")


def order_of(entrants: Sequence[Item], *, number: int) -> list[Item]:
    """Return the entrants in the order of a round, so that none always comes first, or always after the same.

    >>> [order_of("abcd", number=number) for number in range(4)]
    [['a', 'b', 'c', 'd'], ['d', 'c', 'b', 'a'], ['b', 'c', 'd', 'a'], ['a', 'd', 'c', 'b']]
    """
    shift = number // 2 % max(1, len(entrants))
    shifted = [*entrants[shift:], *entrants[:shift]]
    return shifted[::-1] if number % 2 else shifted


@dataclass(slots=True)
class Clock:
    """Tells how long it will take, from how long it took; and when time is up."""

    n_all: int
    """Runs in all."""
    limit_s: float | None
    """Seconds for all; None: as long as it takes."""
    begun: float = field(default_factory=time.monotonic)
    n_done: int = 0
    spent_s: float = 0.0
    """Seconds of the runs alone, without what is prepared."""
    _last: dict[str, float] = field(default_factory=dict)
    _stage_end: float = float("inf")

    @property
    def left_s(self) -> float | None:
        """Seconds until time is up."""
        return None if self.limit_s is None else self.begun + self.limit_s - time.monotonic()

    def begin_stage(self, n_runs: int) -> None:
        """Give the next so many runs their share of the time that is left, so that those after them get theirs."""
        left = self.left_s
        if left is not None:
            share = min(1.0, n_runs / max(1, self.n_all - self.n_done))
            self._stage_end = time.monotonic() + left * share

    def has_time_for(self, question: str) -> bool:
        """Return whether another round of a question fits, if it takes as long as the last one did.

        The first round of each question needs no more than that time is not up altogether.
        """
        left = self.left_s
        if left is None or question not in self._last:
            return left is None or left > 0
        return min(left, self._stage_end - time.monotonic()) > self._last[question]

    def took(self, question: str, seconds: float, *, n_runs: int) -> None:
        """Note what a round of a question took."""
        self._last[question] = seconds
        self.n_done += n_runs
        self.spent_s += seconds

    def drop(self, n_runs: int) -> None:
        """Note that runs will not be made."""
        self.n_all -= n_runs

    def tell(self, what: str) -> None:
        """Print a line of progress, with the time that is left, about."""
        line = f"compare: {self.n_done} of {self.n_all} runs, {time.monotonic() - self.begun:.0f} s"
        if self.n_done:
            left = self.spent_s / self.n_done * max(0, self.n_all - self.n_done)
            limit = self.left_s
            line += f", about {left if limit is None else min(left, max(0.0, limit)):.0f} s left"
        print(f"{line}: {what}", file=sys.stderr, flush=True)
