"""Prefetch units: what is planned and read together into one buffer, in order of first need. Pure: no I/O.

In sequential and global order a unit is a run of this rank's whole steps; in block order it is what this rank takes of
one shuffled group of partition pieces of one stream, so that whole partitions are read once with large reads. As long
as all bytes are in memory anyway, runs of steps serve block order, too: they need far less memory.
"""

import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lmdbio.errors import ReadError
from lmdbio.reader.joined_index import RecordIndex
from lmdbio.reader.options import ReadOptions
from lmdbio.reader.plan import ReadPlan, part_repeats, plan_reads, plan_runs
from lmdbio.reader.sequence import Sequence, Steps
from lmdbio.reader.space import Space

_SCAN_SIZE: Final = 1 << 14
"""Elements that are looked at together, about; bounds the planner's memory and spreads the cost of numpy's calls."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Elements of consecutive steps that are read together; a struct of arrays in order of (step, slot)."""

    first_step: int
    """The step that needs it first."""
    bounds: NDArray[np.int64]
    """Bounds of each step's elements, shape (n_steps + 1,)."""
    slots: NDArray[np.int64]
    """Place of each element in its step's batch, shape (n_elements,)."""
    records: NDArray[np.int64]
    """Record number of each element, shape (n_elements,)."""
    offsets: NDArray[np.int64]
    """First byte of each value in the file, shape (n_elements,)."""
    plan: ReadPlan
    """The reads, and the place of each value in the buffer."""

    @property
    def last_step(self) -> int:
        """The last step that needs it."""
        return self.first_step + len(self.bounds) - 2

    def elements(self, step: int) -> slice:
        """Return which elements the step takes."""
        first, end = self.bounds[step - self.first_step : step - self.first_step + 2].tolist()
        return slice(first, end)


class UnitPlanner:
    """The units of one rank's epoch.

    Parameters
    ----------
    index
        Where the records are.
    sequence, steps
        The epoch, and how it is dealt.
    rank, world_size, batch_size
        This rank, and what makes up a step.
    space
        Of the data file, or files: an extent beyond the end of one is an error that names the record.
    options
        How reads are merged.
    align
        What reads must be multiples of; 1: nothing.
    record_size
        Bytes that a value takes in a buffer, on average.
    group_span
        The most elements that one group of a stream has, in block order; None otherwise.
    """

    def __init__(
        self,
        index: RecordIndex,
        sequence: Sequence,
        steps: Steps,
        *,
        rank: int,
        world_size: int,
        batch_size: int,
        space: Space,
        options: ReadOptions,
        align: int,
        record_size: int,
        group_span: int | None,
    ) -> None:
        self._index = index
        self._sequence = sequence
        self._steps = steps
        self._rank = rank
        self._batch_size = batch_size
        self._global_batch = batch_size * world_size
        self._space = space
        self._options = options
        self._align = align
        self._record_size = max(1, record_size)
        self._group_span = group_span
        self._has_waits = False

    def expect_waits(self) -> None:
        """Learn that bytes are not in memory: from the next unit on, groups are kept together. Any thread may call."""
        self._has_waits = True

    def units(self) -> Iterator[Unit]:
        """Yield the units in order of first need."""
        if self._group_span is None:
            yield from self._runs()
            return
        step = 0
        runs = self._runs()
        while not self._has_waits and (unit := next(runs, None)) is not None:
            step = unit.last_step + 1
            yield unit
        yield from self._groups(step, self._group_span)

    def _runs(self) -> Iterator[Unit]:
        """Yield runs of whole steps of about ``coalesce`` bytes."""
        unit_elements = max(1, self._options.coalesce // self._record_size)
        for scan in self._scans(0):
            offsets, lengths = self._extents(scan.records)
            cuts = _cut_steps(scan.bounds, unit_elements)
            plans = plan_runs(
                offsets,
                lengths,
                scan.bounds[cuts],
                gap=self._options.gap,
                read_size=self._options.read_size,
                align=self._align,
            )
            for (first, end), plan in zip(pairwise(cuts), plans, strict=True):
                bounds = scan.bounds[first : end + 1]
                taken = slice(int(bounds[0]), int(bounds[-1]))
                yield self._unit(
                    scan.first_step + first,
                    bounds - bounds[0],
                    scan.slots[taken],
                    scan.records[taken],
                    offsets[taken],
                    plan,
                )

    def _groups(self, first_step: int, group_span: int) -> Iterator[Unit]:
        """Yield what this rank takes of each group from a step on, once all of it was seen."""
        n_streams = self._sequence.streams
        reach = n_streams * (group_span + 1)
        open_groups: dict[int, _Group] = {}
        waiting: list[_Group] = []  # a heap: groups, open or closed, by first need
        for scan in self._scans(first_step):
            for group in _split(scan, n_streams):
                held = open_groups.get(group.stream)
                if held is not None and held.number == group.number:
                    held.extend(group)
                    continue
                if held is not None:
                    held.is_open = False
                open_groups[group.stream] = group
                heapq.heappush(waiting, group)
            for stream, group in list(open_groups.items()):
                if scan.end_position >= group.first_position + reach:
                    group.is_open = False
                    del open_groups[stream]
            while waiting and not waiting[0].is_open:
                yield self._group_unit(heapq.heappop(waiting))
        while waiting:
            yield self._group_unit(heapq.heappop(waiting))

    def _scans(self, first_step: int) -> Iterator["_Scan"]:
        """Yield the rank's elements from a step on, many whole steps at a time."""
        steps, n_steps, rank, global_batch = self._steps, self._steps.n_steps, self._rank, self._global_batch
        per_scan = max(1, _SCAN_SIZE // self._batch_size)
        # pattern: (period, batch_size), the positions of a full step less its first; which stream a step begins with
        # recurs with the period, and with it the order. Only the last step may not be full.
        period = self._sequence.streams // math.gcd(self._sequence.streams, global_batch)
        full = [steps.positions(step, rank) - step * global_batch for step in range(min(period, n_steps - 1))]
        pattern = np.stack(full) if len(full) == period else None
        for first in range(first_step, n_steps, per_scan):
            end = min(first + per_scan, n_steps)
            if pattern is None:
                parts = [steps.positions(step, rank) for step in range(first, end)]
            else:
                numbers = np.arange(first, min(end, n_steps - 1))
                parts = list(pattern[numbers % period] + numbers[:, None] * global_batch)
                if end == n_steps:
                    parts.append(steps.positions(end - 1, rank))
            sizes = np.fromiter(map(len, parts), np.int64, len(parts))
            bounds = np.zeros(len(parts) + 1, np.int64)
            np.cumsum(sizes, out=bounds[1:])
            positions = np.concatenate(parts)
            yield _Scan(
                first_step=first,
                bounds=bounds,
                slots=np.arange(len(positions)) - np.repeat(bounds[:-1], sizes),
                positions=positions,
                records=self._sequence.records(positions),
                groups=None if self._group_span is None else self._sequence.units(positions),
                end_position=steps.first_position(end),
            )

    def _group_unit(self, group: "_Group") -> Unit:
        steps = np.concatenate(group.steps)
        first = int(steps[0])
        bounds = np.searchsorted(steps, np.arange(first, int(steps[-1]) + 2)).astype(np.int64)
        records = np.concatenate(group.records)
        offsets, lengths = self._extents(records)
        plan = plan_reads(offsets, lengths, gap=self._options.gap, read_size=self._options.read_size, align=self._align)
        return self._unit(first, bounds, np.concatenate(group.slots), records, offsets, plan)

    def _unit(
        self,
        first_step: int,
        bounds: NDArray[np.int64],
        slots: NDArray[np.int64],
        records: NDArray[np.int64],
        offsets: NDArray[np.int64],
        plan: ReadPlan,
    ) -> Unit:
        """Return the unit; where it holds a padded step's elements, which repeat others, each gets its own bytes."""
        if first_step + len(bounds) > self._steps.n_steps:
            plan = part_repeats(plan, records, offsets, align=self._align)
        return Unit(first_step, bounds, slots, records, offsets, plan)

    def _extents(self, records: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the records' checked extents."""
        offsets, lengths = self._index.extents(records)
        check_extents(offsets, lengths, space=self._space, key_of=lambda i: self._index.keys[int(records[i])])
        return offsets.astype(np.int64), lengths


def _cut_steps(bounds: NDArray[np.int64], unit_elements: int) -> list[int]:
    """Return bounds of runs of steps of up to ``unit_elements`` elements, or one step, given the steps' own bounds."""
    n_steps = len(bounds) - 1
    cuts = [0]
    while cuts[-1] < n_steps:
        last = int(np.searchsorted(bounds, bounds[cuts[-1]] + unit_elements, side="right")) - 1
        cuts.append(min(max(cuts[-1] + 1, last), n_steps))
    return cuts


def check_extents(
    offsets: NDArray[np.uint64],
    lengths: NDArray[np.int64],
    *,
    space: Space,
    key_of: Callable[[int], bytes],
) -> None:
    """Raise ReadError for the first extent that does not lie in its file.

    ``key_of`` gives the key of a record by its place in the arrays, shape (n_records,) each.
    """
    limit = space.ends(offsets)
    fits = (offsets <= limit) & (lengths >= 0) & (lengths.astype(np.uint64) <= limit - np.minimum(offsets, limit))
    if fits.all():
        return
    place = int(np.argmin(fits))
    path, offset = space.place(int(offsets[place]))
    size = int(limit[place]) - (int(offsets[place]) - offset)
    raise ReadError(path, offset, int(lengths[place]), f"found a file of {size} bytes: is it cut short?", key_of(place))


@dataclass(frozen=True, slots=True)
class _Scan:
    """The rank's elements of some whole steps, in order of (step, slot)."""

    first_step: int
    bounds: NDArray[np.int64]
    slots: NDArray[np.int64]
    positions: NDArray[np.int64]
    records: NDArray[np.int64]
    groups: NDArray[np.int64] | None
    end_position: int


@dataclass(slots=True)
class _Group:
    """What the rank takes of one group, as far as it was scanned."""

    stream: int
    number: int
    first_position: int
    steps: list[NDArray[np.int64]]
    slots: list[NDArray[np.int64]]
    records: list[NDArray[np.int64]]
    first_step: int
    is_open: bool = field(default=True)

    def extend(self, other: "_Group") -> None:
        """Take in what the next scan holds of the same group."""
        self.steps += other.steps
        self.slots += other.slots
        self.records += other.records

    def __lt__(self, other: "_Group") -> bool:
        return (self.first_step, self.stream) < (other.first_step, other.stream)


def _split(scan: _Scan, n_streams: int) -> Iterator[_Group]:
    """Yield the runs of one stream's elements that belong to one group, stream by stream."""
    assert scan.groups is not None
    streams = scan.positions % n_streams
    order = np.argsort(streams, kind="stable")
    streams, groups = streams[order], scan.groups[order]
    steps = scan.first_step + np.searchsorted(scan.bounds, order, side="right") - 1
    changes = np.flatnonzero((np.diff(streams) != 0) | (np.diff(groups) != 0)) + 1
    edges = [0, *changes.tolist(), len(order)]
    for a, b in pairwise(edges):
        taken = order[a:b]
        yield _Group(
            stream=int(streams[a]),
            number=int(groups[a]),
            first_position=int(scan.positions[taken[0]]),
            steps=[steps[a:b]],
            slots=[scan.slots[taken]],
            records=[scan.records[taken]],
            first_step=int(steps[a]),
        )
