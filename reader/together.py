"""The units of an epoch that all ranks read together: as many on every rank, each needed first at the same step. Pure.

Runs of whole steps are so by themselves. In block order a unit is what the rank takes of a round: consecutive groups in
the order in which the ranks together first need them, whole partitions that all ranks together read once.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmdbio.reader.options import ReadOptions
from lmdbio.reader.plan import plan_reads
from lmdbio.reader.unit import Unit, UnitPlanner

_UNCUT: Final = 1 << 40
"""Bytes of one range at most: as many as may be said."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """Groups of a block order that are read together, in order of first need; a struct of arrays."""

    round_of: NDArray[np.int64]
    """Round of each group, by the group's number, shape (n_groups,); n_rounds for groups of which nothing is read."""
    firsts: NDArray[np.int64]
    """First position of each round, ascending, shape (n_rounds,)."""
    lasts: NDArray[np.int64]
    """Last position of each round, shape (n_rounds,)."""

    def __len__(self) -> int:
        return len(self.firsts)


def plan_rounds(
    firsts: NDArray[np.int64],
    lasts: NDArray[np.int64],
    *,
    streams: int,
    n_positions: int,
    round_records: int,
    start: int = 0,
) -> Rounds:
    """Return rounds of up to ``round_records`` records, or one group.

    Parameters
    ----------
    firsts, lasts
        First and last position of each group, shape (n_groups,); it has every ``streams``-th position between them.
    streams
        How many streams the epoch has.
    n_positions
        Positions of the epoch that are read; groups that begin behind them are in no round.
    round_records
        Records of one round at most, of all ranks together.
    start
        The first position that is read; of groups that began before, only what comes from there on.
    """
    turns_before = np.maximum(0, -((firsts - start) // streams))
    firsts = firsts + turns_before * streams
    order = np.argsort(firsts, kind="stable")
    order = order[(firsts[order] < n_positions) & (firsts[order] <= lasts[order])]
    # ends: (n_groups read + 1,), records of all groups up to each, in order of first need
    ends = np.concatenate(([0], np.cumsum((lasts[order] - firsts[order]) // streams + 1)))
    cuts = [0]
    while cuts[-1] < len(order):
        fitting = int(np.searchsorted(ends, ends[cuts[-1]] + round_records, side="right")) - 1
        cuts.append(max(cuts[-1] + 1, fitting))
    n_rounds = len(cuts) - 1
    round_of = np.full(len(firsts), n_rounds, np.int64)
    round_of[order] = np.repeat(np.arange(n_rounds), np.diff(cuts))
    members = [order[first:end] for first, end in pairwise(cuts)]
    last = np.fromiter((lasts[groups].max() for groups in members), np.int64, n_rounds)
    return Rounds(round_of, firsts[order[np.array(cuts[:-1], np.int64)]], np.minimum(last, n_positions - 1))


def options_together(options: ReadOptions, *, page_size: int, record_size: int, prefetch_bytes: int) -> ReadOptions:
    """Return the options as collective reads want them.

    Where another rank's record lies between two of this rank's, MPI reads it anyway, and only what is asked for
    travels. So ranges are merged across gaps that hold no record, as where a partition begins; and they are not cut.
    """
    gap = min(options.gap, max(page_size, record_size // 2))
    return replace(options, gap=gap, read_size=_UNCUT, coalesce=min(options.coalesce, prefetch_bytes))


class TogetherPlanner(UnitPlanner):
    """The units of one rank's epoch, in step with those of all other ranks."""

    def units_together(self, round_records: int) -> Iterator[Unit]:
        """Yield the units in order of first need by any rank; a unit may hold nothing of this one.

        Parameters
        ----------
        round_records
            As in :func:`plan_rounds`.
        """
        if self._group_span is None:
            yield from self._runs()
        else:
            yield from self._rounds(round_records)

    def _rounds(self, round_records: int) -> Iterator[Unit]:
        start, n_records, n_steps = self._steps.start, len(self._sequence), self._steps.n_steps
        end = self._steps.first_position(n_steps)
        rounds = plan_rounds(
            *self._sequence.group_positions(),
            streams=self._sequence.streams,
            n_positions=min(n_records, end),
            round_records=round_records,
            start=start,
        )
        held: defaultdict[int, list[_Part]] = defaultdict(list)
        number = 0
        for scan in self._scans(0):
            assert scan.groups is not None
            steps = scan.first_step + np.repeat(np.arange(len(scan.bounds) - 1), np.diff(scan.bounds))
            # What pads the last step was read long ago: it is read again, as one more round.
            is_padding = scan.positions < start + steps * self._global_batch
            of_rounds = np.where(is_padding, len(rounds), rounds.round_of[scan.groups])
            for round_, taken in _runs_of(of_rounds):
                held[round_].append(_Part(steps[taken], scan.slots[taken], scan.records[taken]))
            while number < len(rounds) and rounds.lasts[number] < scan.end_position:
                first_step = (int(rounds.firsts[number]) - start) // self._global_batch
                yield self._round_unit(first_step, held.pop(number, []))
                number += 1
        is_padded = n_records < end and (n_records - start) % (self._global_batch // self._batch_size)
        if is_padded and (n_steps > 1 or start):
            yield self._round_unit(n_steps - 1, held.pop(len(rounds), []))

    def _round_unit(self, first_step: int, parts: "list[_Part]") -> Unit:
        steps, slots, records = (
            np.concatenate([np.zeros(0, np.int64), *columns])
            for columns in (zip(*parts, strict=True) if parts else ([], [], []))
        )
        last_step = int(steps[-1]) if len(steps) else first_step
        bounds = np.searchsorted(steps, np.arange(first_step, last_step + 2)).astype(np.int64)
        offsets, lengths = self._extents(records)
        plan = plan_reads(offsets, lengths, gap=self._options.gap, read_size=self._options.read_size, align=1)
        return self._unit(first_step, bounds, slots, records, offsets, plan)


class _Part(NamedTuple):
    """What the rank takes of a round in one scan, in order of (step, slot); each shape (n_elements,)."""

    steps: NDArray[np.int64]
    slots: NDArray[np.int64]
    records: NDArray[np.int64]


def _runs_of(numbers: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield each number that occurs with the places where it stands, ascending."""
    order = np.argsort(numbers, kind="stable")
    cuts = np.flatnonzero(np.diff(numbers[order], prepend=-1)).tolist()
    for first, end in pairwise([*cuts, len(order)]):
        yield int(numbers[order[first]]), order[first:end]
