"""The sequence of an epoch: which record stands at which position, and which positions make up a rank's step. Pure.

Both are pure functions of few numbers, the same on every rank, specified in ``docs/format.md``. A sequence knows
nothing of ranks and batches, steps know nothing of records: so every world size sees the same epoch.
"""

from collections import OrderedDict
from itertools import pairwise
from typing import Final, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.permutation import Permutation

Order: TypeAlias = Literal["sequential", "block", "global"]
ORDERS: Final[tuple[Order, ...]] = get_args(Order)

_CACHED_RECORDS: Final = 1 << 21  # 16 MiB of record numbers in all
_CACHED_GROUPS_PER_STREAM: Final = 2  # the one being read, and the next


class Sequence:
    """The records of one epoch, by position; any position by itself.

    ``sequential`` is layout order. ``global`` is one permutation of all records. ``block`` permutes the partitions,
    lays them end to end, cuts them by record count into ``streams`` equal streams, shuffles each ``shuffle_window``
    consecutive partition pieces of a stream together, and takes one record of each stream in turn.

    Memory is O(partitions), and at most 16 MiB for what is kept of shuffled groups. Not for use by two threads at once.

    Parameters
    ----------
    n_records
        Records of the epoch.
    layout_order
        Record numbers in the order of the file, int64, shape (n_records,); None where that is key order.
    partitions
        Bounds of the partitions in layout order, int64, shape (n_partitions + 1,), from 0 to n_records.
    order
        ``"sequential"``, ``"block"`` or ``"global"``.
    seed
        Any integer; the same on every rank.
    epoch
        Number of the epoch, from 0.
    streams
        How many streams ``block`` has; the other orders have one.
    shuffle_window
        How many partition pieces ``block`` shuffles together.

    Raises
    ------
    ValueError
        If an argument is out of its range, or the bounds are not those of n_records records.
    """

    def __init__(
        self,
        n_records: int,
        layout_order: NDArray[np.int64] | None,
        partitions: NDArray[np.int64],
        *,
        order: Order,
        seed: int,
        epoch: int,
        streams: int,
        shuffle_window: int,
    ) -> None:
        _check_at_least(0, n_records=n_records, epoch=epoch)
        _check_at_least(1, streams=streams, shuffle_window=shuffle_window)
        if order not in ORDERS:
            raise ValueError(f"order: expected one of {', '.join(ORDERS)}, found {order!r}")
        if layout_order is not None and len(layout_order) != n_records:
            raise ValueError(f"layout_order: expected {n_records} records, found {len(layout_order)}")
        self.streams = streams if order == "block" else 1
        self._n_records = n_records
        self._layout_order = layout_order
        self._order = order
        self._seed = seed
        self._epoch = epoch
        if order == "global":
            self._all = Permutation(n_records, seed=seed, purpose="global", numbers=(epoch,))
        elif order == "block":
            self._plan_blocks(partitions, shuffle_window)

    def __len__(self) -> int:
        return self._n_records

    def records(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the record number at each position of the epoch, int64, shape (n_positions,).

        Raises
        ------
        IndexError
            If a position is not in the epoch.
        """
        positions = self._checked(positions)
        if self._order == "global":
            return self._all(positions)
        if self._order == "sequential":
            return self._in_layout(positions)
        laid = self._laid(positions)
        units = np.searchsorted(self._group_bounds, laid, side="right") - 1
        records = np.empty(len(positions), np.int64)
        by_unit = np.argsort(units, kind="stable")
        firsts = np.flatnonzero(np.diff(units[by_unit], prepend=-1)).tolist()
        for first, last in pairwise([*firsts, len(by_unit)]):
            members = by_unit[first:last]
            unit = int(units[members[0]])
            records[members] = self._group_records(unit, laid[members] - self._group_bounds[unit])
        return records

    def units(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what each position is read with, int64, shape (n_positions,).

        In ``block`` order it is the number of its group, counted through the streams from 0; in the others -1.

        Raises
        ------
        IndexError
            If a position is not in the epoch.
        """
        positions = self._checked(positions)
        if self._order != "block":
            return np.full(len(positions), -1, np.int64)
        return np.searchsorted(self._group_bounds, self._laid(positions), side="right") - 1

    def group_positions(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return (first, last) position of each group of ``block`` order, int64, shape (n_groups,), by its number.

        All positions of a group's stream between the two are the group's, and no others. The other orders have none.
        """
        if self._order != "block":
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        # turns: how far into its stream each group begins, and ends
        shifts = self._stream_bounds[self._group_streams]
        firsts, lasts = self._group_bounds[:-1] - shifts, self._group_bounds[1:] - 1 - shifts
        return firsts * self.streams + self._group_streams, lasts * self.streams + self._group_streams

    def _plan_blocks(self, partitions: NDArray[np.int64], shuffle_window: int) -> None:
        """Lay the permuted partitions end to end; "laid" numbers count records in that row."""
        bounds = np.unique(np.asarray(partitions, np.int64))  # an empty partition is none
        if np.any(np.diff(partitions) < 0) or (len(bounds) < 1 or bounds[0] != 0 or bounds[-1] != self._n_records):
            raise ValueError(f"partitions: expected ascending bounds from 0 to {self._n_records}, found {partitions}")
        n_partitions = len(bounds) - 1
        shuffled = Permutation(n_partitions, seed=self._seed, purpose="partitions", numbers=(self._epoch,))
        drawn = shuffled(np.arange(n_partitions))
        # laid_bounds: (n_partitions + 1,); shifts: (n_partitions,), from a laid number to one in layout order
        laid_bounds = np.zeros(n_partitions + 1, np.int64)
        np.cumsum(np.diff(bounds)[drawn], out=laid_bounds[1:])
        self._laid_bounds = laid_bounds
        self._shifts = bounds[drawn] - laid_bounds[:-1]
        numbers = np.arange(self.streams + 1)
        share, rest = divmod(self._n_records, self.streams)
        self._stream_bounds = numbers * share + np.minimum(numbers, rest)
        # pieces: where a piece begins; groups: each stream's pieces, every shuffle_window-th
        pieces = np.union1d(laid_bounds, self._stream_bounds)[:-1]
        piece_streams = np.searchsorted(self._stream_bounds, pieces, side="right") - 1
        first_pieces = np.searchsorted(pieces, self._stream_bounds[:-1])
        in_stream = np.arange(len(pieces)) - first_pieces[piece_streams]
        opens_group = in_stream % shuffle_window == 0
        self._group_bounds = np.append(pieces[opens_group], self._n_records)
        self._group_streams = piece_streams[opens_group]
        self._groups_in_stream = in_stream[opens_group] // shuffle_window
        self._cached: OrderedDict[int, NDArray[np.int64]] = OrderedDict()

    def _laid(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where each position's stream has got to, before groups are shuffled, in laid numbers."""
        turns, streams = np.divmod(positions, self.streams)
        laid: NDArray[np.int64] = self._stream_bounds[streams] + turns
        return laid

    def _group_records(self, unit: int, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the records at offsets of a group: from the whole group, kept, unless it is large."""
        size = int(self._group_bounds[unit + 1] - self._group_bounds[unit])
        max_groups = _CACHED_GROUPS_PER_STREAM * self.streams
        if size > max(1, _CACHED_RECORDS // max_groups):
            return self._drawn(unit, size, offsets)
        group = self._cached.pop(unit, None)
        if group is None:
            group = self._drawn(unit, size, np.arange(size))
        self._cached[unit] = group
        if len(self._cached) > max_groups:
            self._cached.popitem(last=False)
        return group[offsets]

    def _drawn(self, unit: int, size: int, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the records at offsets of a group."""
        numbers = (self._epoch, int(self._group_streams[unit]), int(self._groups_in_stream[unit]))
        shuffled = Permutation(size, seed=self._seed, purpose="group", numbers=numbers)
        laid = self._group_bounds[unit] + shuffled(offsets)
        partition = np.searchsorted(self._laid_bounds, laid, side="right") - 1
        return self._in_layout(laid + self._shifts[partition])

    def _in_layout(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        return numbers if self._layout_order is None else self._layout_order[numbers]

    def _checked(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        positions = np.array(positions, np.int64)
        if positions.size and not 0 <= int(positions.min()) <= int(positions.max()) < self._n_records:
            raise IndexError(
                f"position: expected 0 to {self._n_records - 1}, found {positions.min()} to {positions.max()}"
            )
        return positions


class Steps:
    """The steps of an epoch, or of its rest: which positions each rank takes in each; every rank has equally many.

    A step is the next ``batch_size * world_size`` positions, stably sorted by stream, and rank r takes the r-th slice.
    Without ``drop_last`` the last step is padded to a multiple of the world size with the epoch's first positions,
    again from the first where the epoch is shorter than that; they sort by their own stream like the others.

    Parameters
    ----------
    n_records
        Records of the epoch.
    streams
        The sequence's streams: position p is of stream p mod streams.
    world_size
        How many ranks share a step.
    batch_size
        Positions of one rank in a step.
    drop_last
        Whether positions that do not fill a step are left out.
    start
        The position with which step 0 begins, from 0 to n_records: those before it were read already.

    Raises
    ------
    ValueError
        If an argument is out of its range.
    """

    def __init__(
        self, n_records: int, *, streams: int, world_size: int, batch_size: int, drop_last: bool, start: int = 0
    ) -> None:
        _check_at_least(0, n_records=n_records, start=start)
        _check_at_least(1, streams=streams, world_size=world_size, batch_size=batch_size)
        if start > n_records:
            raise ValueError(f"start: expected {n_records} or less, found {start}")
        self.n_records = n_records
        self._streams = streams
        self._world_size = world_size
        self._global_batch = batch_size * world_size
        left = n_records - start
        self.n_steps = left // self._global_batch if drop_last else -(-left // self._global_batch)
        self.start = start

    def __len__(self) -> int:
        return self.n_steps

    def first_position(self, step: int) -> int:
        """Return the position with which a step begins; of step n_steps, the end of the positions, or more."""
        return self.start + step * self._global_batch

    def positions(self, step: int, rank: int) -> NDArray[np.int64]:
        """Return the positions of a rank in a step, int64, shape (n_positions,), sorted by stream.

        Raises
        ------
        IndexError
            If the step or the rank is none.
        """
        if not (0 <= step < self.n_steps and 0 <= rank < self._world_size):
            raise IndexError(f"step {step}, rank {rank}: expected 0 to {self.n_steps - 1}, 0 to {self._world_size - 1}")
        first = self.first_position(step)
        positions = np.arange(first, min(first + self._global_batch, self.n_records))
        padding = -len(positions) % self._world_size
        if padding:
            positions = np.append(positions, np.arange(padding) % self.n_records)
        if self._streams > 1:
            positions = positions[np.argsort(positions % self._streams, kind="stable")]
        size = len(positions) // self._world_size
        return positions[rank * size : (rank + 1) * size]


def _check_at_least(least: int, **numbers: int) -> None:
    for name, number in numbers.items():
        if number < least:
            raise ValueError(f"{name}: expected {least} or more, found {number}")
