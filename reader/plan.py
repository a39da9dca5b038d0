"""Which reads bring the bytes of many records, and where each record lies in the buffer then. Pure: no I/O."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

MAX_WASTE: Final = 3
"""Bytes read in vain across gaps, at most, for each byte of a record: what bounds the buffer's size."""


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """Reads that fill one buffer, and the place of every record in it: a struct of arrays."""

    offsets: NDArray[np.int64]
    """First byte of each read in the file, ascending, but for records read again, shape (n_reads,)."""
    lengths: NDArray[np.int64]
    """Bytes of each read, from 1, shape (n_reads,); where reads are aligned the last may reach beyond the file."""
    places: NDArray[np.int64]
    """First byte of each read in the buffer, ascending without holes, shape (n_reads,)."""
    record_places: NDArray[np.int64]
    """First byte of each record in the buffer, in the order asked, shape (n_records,)."""
    record_lengths: NDArray[np.int64]
    """Bytes of each record, shape (n_records,)."""
    size: int
    """Bytes of the buffer."""


def plan_reads(
    offsets: NDArray[np.uint64] | NDArray[np.int64], lengths: NDArray[np.int64], *, gap: int, read_size: int, align: int
) -> ReadPlan:
    """Return the reads that bring the extents given, in any order, overlapping or not, into one buffer.

    Extents are widened to multiples of ``align``, then merged across gaps of up to ``gap`` bytes, the smallest gaps
    first while the bytes read in vain there stay within ``MAX_WASTE`` times the records' own; a merged range of over
    ``read_size`` bytes is cut at multiples of ``read_size`` in the file, so that the cuts fall on pages and stripes.
    So reads never overlap, and widening adds less than ``2 * align`` bytes to a merged range.

    Parameters
    ----------
    offsets, lengths
        Extent of each record, shape (n_records,), inside a file of under 2**63 bytes.
    gap, read_size
        See :class:`lmdbio.reader.options.ReadOptions`.
    align
        What every read's offset, length and place in the buffer are multiples of, as direct reads must be; 1: nothing.
    """
    lengths = np.asarray(lengths, np.int64)
    starts = np.asarray(offsets).astype(np.int64)
    if align == 1 and len(lengths) == 1 and 0 < lengths[0] <= read_size:  # one record, asked for by itself
        first = np.zeros(1, np.int64)
        return ReadPlan(starts, lengths, first, first, lengths, int(lengths[0]))
    # order: the records that have bytes, by offset
    order = np.flatnonzero(lengths)
    if len(order) > 1 and (np.diff(starts[order]) < 0).any():
        order = order[np.argsort(starts[order], kind="stable")]
    record_places = np.zeros(len(lengths), np.int64)
    if not len(order):
        none = np.zeros(0, np.int64)
        return ReadPlan(none, none, none, record_places, lengths, 0)
    sorted_starts = starts[order]
    edges, ends = _widen(sorted_starts, sorted_starts + lengths[order], align)
    reach = np.maximum.accumulate(ends)
    # cut[i]: a range ends before the i-th extent; range_of: the range of each extent
    gaps = edges[1:] - reach[:-1]
    cut = gaps > _widest_gap(gaps, int(lengths.sum()), gap)
    first = np.concatenate(([0], np.flatnonzero(cut) + 1))
    range_starts = edges[first]
    range_ends = np.append(reach[first[1:] - 1], reach[-1])
    sizes = range_ends - range_starts
    range_places = np.cumsum(sizes) - sizes
    range_of = np.zeros(len(order), np.int64)
    np.cumsum(cut, out=range_of[1:])
    record_places[order] = sorted_starts + (range_places - range_starts)[range_of]
    read_starts, read_ends, _ = _cut(range_starts, range_ends, _read_cap(read_size, align))
    read_lengths = read_ends - read_starts
    places = np.cumsum(read_lengths) - read_lengths
    return ReadPlan(read_starts, read_lengths, places, record_places, lengths, int(sizes.sum()))


def plan_runs(
    offsets: NDArray[np.int64],
    lengths: NDArray[np.int64],
    bounds: NDArray[np.int64],
    *,
    gap: int,
    read_size: int,
    align: int,
) -> Iterator[ReadPlan]:
    """Yield what :func:`plan_reads` returns for each run of records, planned together.

    Runs whose records lie one after the other without wide gaps, as in sequential reading, are one range each, which a
    few sums over all runs tell; a call of numpy for each run and sum would cost as much as reading does.

    Parameters
    ----------
    offsets, lengths
        Extent of each record, int64, shape (n_records,).
    bounds
        Bounds of the runs, none of them empty, int64, shape (n_runs + 1,), from 0 to n_records.
    gap, read_size, align
        As in :func:`plan_reads`.
    """
    first, last = bounds[:-1], bounds[1:] - 1
    ends = offsets + lengths
    # breaks: (n_records,), whether a record has no bytes, or does not follow the one before it in its run
    breaks = lengths < 1
    gaps = offsets[1:] - ends[:-1]
    follows = (gaps >= 0) & (gaps <= gap)
    follows[first[1:] - 1] = True
    breaks[1:] |= ~follows
    range_starts, range_ends = offsets[first], ends[last]
    is_wasteful = range_ends - range_starts > (MAX_WASTE + 1) * np.add.reduceat(lengths, first)
    is_range = ~(np.logical_or.reduceat(breaks, first) | is_wasteful)
    range_starts, range_ends = _widen(range_starts, range_ends, align)
    read_starts, read_ends, pieces = _cut(
        range_starts, np.where(is_range, range_ends, range_starts), _read_cap(read_size, align)
    )
    read_lengths = read_ends - read_starts
    places = read_starts - np.repeat(range_starts, pieces)
    record_places = offsets - np.repeat(range_starts, np.diff(bounds))
    read_bounds = np.concatenate(([0], np.cumsum(pieces))).tolist()
    sizes = (range_ends - range_starts).tolist()
    for run, (begin, end) in enumerate(pairwise(bounds.tolist())):
        if is_range[run]:
            reads = slice(read_bounds[run], read_bounds[run + 1])
            yield ReadPlan(
                read_starts[reads],
                read_lengths[reads],
                places[reads],
                record_places[begin:end],
                lengths[begin:end],
                sizes[run],
            )
        else:
            yield plan_reads(offsets[begin:end], lengths[begin:end], gap=gap, read_size=read_size, align=align)


def part_repeats(plan: ReadPlan, records: NDArray[np.int64], offsets: NDArray[np.int64], *, align: int) -> ReadPlan:
    """Return the plan with a place of its own for every element, where the same record stands in it more than once.

    The record is read again for that, behind all others.

    Parameters
    ----------
    plan
        The reads of some records' extents.
    records, offsets
        Number and first byte in the file of each record, int64, shape (n_records,).
    align
        As in :func:`plan_reads`, and the one that the plan was made with.
    """
    _, first = np.unique(records, return_index=True)
    if len(first) == len(records):
        return plan
    is_repeat = plan.record_lengths > 0
    is_repeat[first] = False
    repeated = offsets[is_repeat]
    starts, ends = _widen(repeated, repeated + plan.record_lengths[is_repeat], align)
    lengths = ends - starts
    places = plan.size + np.cumsum(lengths) - lengths
    record_places = plan.record_places.copy()
    record_places[is_repeat] = places + (repeated - starts)
    return ReadPlan(
        np.append(plan.offsets, starts),
        np.append(plan.lengths, lengths),
        np.append(plan.places, places),
        record_places,
        plan.record_lengths,
        plan.size + int(lengths.sum()),
    )


def _widen(
    starts: NDArray[np.int64], ends: NDArray[np.int64], align: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (starts, ends) of the ranges outwards to multiples of ``align``."""
    if align == 1:
        return starts, ends
    return starts - starts % align, ends + -ends % align


def _read_cap(read_size: int, align: int) -> int:
    """Return the most bytes of one read: cuts at its multiples must be aligned, too."""
    return max(align, read_size - read_size % align)


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
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return (starts, ends) of the reads of ranges, whole where they fit, else cut at multiples of ``read_size``.

    The third array is the number of reads of each range.
    """
    whole = ends - starts <= read_size
    if whole.all():
        return starts, ends, np.ones(len(starts), np.int64)
    blocks = starts // read_size
    pieces = np.where(whole, 1, (ends - 1) // read_size - blocks + 1)
    # owner: the range of each read; piece: its number in the range
    owner = np.repeat(np.arange(len(starts)), pieces)
    piece = np.arange(len(owner)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    edges = (blocks[owner] + piece) * read_size
    is_whole = whole[owner]
    read_starts = np.where(is_whole, starts[owner], np.maximum(starts[owner], edges))
    read_ends = np.where(is_whole, ends[owner], np.minimum(ends[owner], edges + read_size))
    return read_starts, read_ends, pieces
