"""Which reads bring the bytes of many records, and where each record lies in the buffer then. Pure: no I/O."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

TASK_SIZE: Final = 128 << 10
"""Small reads are handed out together until they come to this many bytes, so that handing out costs little."""
MAX_WASTE: Final = 3
"""Bytes read in vain across gaps, at most, for each byte of a record: what bounds the buffer's size."""


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """Reads that fill one buffer, and the place of every record in it: a struct of arrays."""

    offsets: NDArray[np.int64]
    """First byte of each read in the file, ascending, shape (n_reads,)."""
    lengths: NDArray[np.int64]
    """Bytes of each read, from 1, shape (n_reads,)."""
    places: NDArray[np.int64]
    """First byte of each read in the buffer, ascending without holes, shape (n_reads,)."""
    tasks: NDArray[np.int64]
    """Bounds of the runs of reads that are handed out together, shape (n_tasks + 1,)."""
    record_places: NDArray[np.int64]
    """First byte of each record in the buffer, in the order asked, shape (n_records,)."""
    record_lengths: NDArray[np.int64]
    """Bytes of each record, shape (n_records,)."""
    size: int
    """Bytes of the buffer."""

    @property
    def n_tasks(self) -> int:
        """Number of runs of reads that are handed out together."""
        return len(self.tasks) - 1


def plan_reads(
    offsets: NDArray[np.uint64] | NDArray[np.int64], lengths: NDArray[np.int64], *, gap: int, read_size: int
) -> ReadPlan:
    """Return the reads that bring the extents given, in any order, overlapping or not, into one buffer.

    Extents are merged across gaps of up to ``gap`` bytes, the smallest gaps first while the bytes read in vain stay
    within ``MAX_WASTE`` times the records' own; a merged range of over ``read_size`` bytes is cut at multiples of
    ``read_size`` in the file, so that the cuts fall on pages and stripes.

    Parameters
    ----------
    offsets, lengths
        Extent of each record, shape (n_records,), inside a file of under 2**63 bytes.
    gap, read_size
        See :class:`lmdbio.reader.options.ReadOptions`.
    """
    lengths = np.asarray(lengths, np.int64)
    starts = np.asarray(offsets).astype(np.int64)
    return _plan_one_range(starts, lengths, gap, read_size) or _plan_ranges(starts, lengths, gap, read_size)


def _plan_one_range(starts: NDArray[np.int64], lengths: NDArray[np.int64], gap: int, read_size: int) -> ReadPlan | None:
    """Return the plan of records that lie one after the other without wide gaps, else None.

    That is what :func:`_plan_ranges` comes to, known from a few sums: the way of sequential reading.
    """
    if not len(lengths) or int(lengths.min()) < 1:
        return None
    ends = starts + lengths
    gaps = starts[1:] - ends[:-1]
    first, end = int(starts[0]), int(ends[-1])
    if len(gaps) and (int(gaps.min()) < 0 or int(gaps.max()) > gap):
        return None
    payload = int(lengths.sum())
    if end - first > (MAX_WASTE + 1) * payload:
        return None
    if end - first <= read_size:
        reads = np.array([[first], [end - first], [0]])
    else:
        cuts = np.arange(first // read_size, -(-end // read_size) + 1) * read_size
        cuts[0], cuts[-1] = first, end
        reads = np.stack((cuts[:-1], np.diff(cuts), cuts[:-1] - first))
    tasks = _tasks(reads[2] + reads[1])
    return ReadPlan(reads[0], reads[1], reads[2], tasks, starts - first, lengths, end - first)


def _plan_ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64], gap: int, read_size: int) -> ReadPlan:
    """Return the plan of any records."""
    # order: the records that have bytes, by offset
    order = np.flatnonzero(lengths)
    if len(order) > 1 and (np.diff(starts[order]) < 0).any():
        order = order[np.argsort(starts[order], kind="stable")]
    record_places = np.zeros(len(lengths), np.int64)
    if not len(order):
        none = np.zeros(0, np.int64)
        return ReadPlan(none, none, none, np.zeros(1, np.int64), record_places, lengths, 0)
    sorted_starts = starts[order]
    reach = np.maximum.accumulate(sorted_starts + lengths[order])
    # cut[i]: a range ends before the i-th extent; range_of: the range of each extent
    gaps = sorted_starts[1:] - reach[:-1]
    cut = gaps > _widest_gap(gaps, int(lengths.sum()), gap)
    first = np.concatenate(([0], np.flatnonzero(cut) + 1))
    range_starts = sorted_starts[first]
    range_ends = np.append(reach[first[1:] - 1], reach[-1])
    sizes = range_ends - range_starts
    range_places = np.cumsum(sizes) - sizes
    range_of = np.zeros(len(order), np.int64)
    np.cumsum(cut, out=range_of[1:])
    record_places[order] = sorted_starts + (range_places - range_starts)[range_of]
    read_starts, read_ends = _cut(range_starts, range_ends, read_size)
    read_lengths = read_ends - read_starts
    ends = np.cumsum(read_lengths)
    return ReadPlan(read_starts, read_lengths, ends - read_lengths, _tasks(ends), record_places, lengths, int(ends[-1]))


def _widest_gap(gaps: NDArray[np.int64], payload: int, gap: int) -> int:
    """Return the widest gap to merge across: all gaps of up to that many bytes together fit the waste allowed."""
    wasted = gaps[(gaps > 0) & (gaps <= gap)]
    if int(wasted.sum()) <= MAX_WASTE * payload:
        return gap
    wasted.sort()
    fitting = int(np.searchsorted(np.cumsum(wasted), MAX_WASTE * payload, side="right"))
    # the first gap that no longer fits bounds the others: all gaps of its width stay unmerged
    return int(wasted[fitting]) - 1


def _cut(
    starts: NDArray[np.int64], ends: NDArray[np.int64], read_size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return starts and ends of the reads of ranges: whole where they fit, else cut at multiples of ``read_size``."""
    whole = ends - starts <= read_size
    if whole.all():
        return starts, ends
    blocks = starts // read_size
    pieces = np.where(whole, 1, (ends - 1) // read_size - blocks + 1)
    # owner: the range of each read; piece: its number in the range
    owner = np.repeat(np.arange(len(starts)), pieces)
    piece = np.arange(len(owner)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    edges = (blocks[owner] + piece) * read_size
    is_whole = whole[owner]
    read_starts = np.where(is_whole, starts[owner], np.maximum(starts[owner], edges))
    read_ends = np.where(is_whole, ends[owner], np.minimum(ends[owner], edges + read_size))
    return read_starts, read_ends


def _tasks(ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return bounds of runs of reads: one ends with the read that reaches or crosses a multiple of ``TASK_SIZE``."""
    crossed = ends // TASK_SIZE
    bounds = np.flatnonzero(np.diff(crossed, prepend=0)) + 1
    if len(bounds) and bounds[-1] == len(ends):
        return np.concatenate(([0], bounds))
    return np.concatenate(([0], bounds, [len(ends)]))
