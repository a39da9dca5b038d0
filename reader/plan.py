"""Which reads bring the bytes of many records, and where each record lies in the buffer then. Pure: no I/O."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

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
    bounds = np.array([0, len(lengths)])
    return next(_plan_together(starts, lengths, bounds, gap=gap, read_size=read_size, align=align))


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
    scattered = np.repeat(~is_range, np.diff(bounds))
    others = _plan_together(
        offsets[scattered],
        lengths[scattered],
        np.concatenate(([0], np.cumsum(np.diff(bounds)[~is_range]))),
        gap=gap,
        read_size=read_size,
        align=align,
    )
    read_starts, read_ends, pieces = _cut(
        range_starts, np.where(is_range, range_ends, range_starts), _read_cap(read_size, align)
    )
    read_lengths = read_ends - read_starts
    places = read_starts - np.repeat(range_starts, pieces)
    record_places = offsets - np.repeat(range_starts, np.diff(bounds))
    read_bounds = np.concatenate(([0], np.cumsum(pieces))).tolist()
    sizes = (range_ends - range_starts).tolist()
    for run, (begin, end) in enumerate(pairwise(bounds.tolist())):
        if not is_range[run]:
            yield next(others)
            continue
        reads = slice(read_bounds[run], read_bounds[run + 1])
        yield ReadPlan(
            read_starts[reads],
            read_lengths[reads],
            places[reads],
            record_places[begin:end],
            lengths[begin:end],
            sizes[run],
        )


def _plan_together(
    offsets: NDArray[np.int64],
    lengths: NDArray[np.int64],
    bounds: NDArray[np.int64],
    *,
    gap: int,
    read_size: int,
    align: int,
) -> Iterator[ReadPlan]:
    """Yield the plan of each run of records, in any order, all worked out at once; see :func:`plan_runs`."""
    n_runs = len(bounds) - 1
    sizes_of_runs = np.diff(bounds)
    # order: the records that have bytes, by run, then by offset
    run_of = np.repeat(np.arange(n_runs), sizes_of_runs)
    order = np.flatnonzero(lengths)
    order = order[np.lexsort((offsets[order], run_of[order]))]
    runs, starts = run_of[order], offsets[order]
    edges, ends = _widen(starts, starts + lengths[order], align)
    reach = _reach(ends, runs)
    # cut[i]: a range ends before the i-th extent; range_of: the range of each extent
    gaps = edges[1:] - reach[:-1]
    begins_run = runs[1:] != runs[:-1]
    payloads = np.bincount(run_of, lengths, n_runs)
    cut = begins_run | (gaps > _widest_gaps(gaps, begins_run, runs, payloads, gap)[runs[1:]])
    first = np.concatenate(([0], np.flatnonzero(cut) + 1))[: len(order)]
    range_starts, range_runs = edges[first], runs[first]
    range_ends = np.append(reach[first[1:] - 1], reach[-1:])
    sizes = range_ends - range_starts
    # run_places: where each run's buffer begins if all were one
    run_places = np.zeros(n_runs + 1, np.int64)
    np.cumsum(np.bincount(range_runs, sizes, n_runs).astype(np.int64), out=run_places[1:])
    range_places = np.cumsum(sizes) - sizes - run_places[range_runs]
    range_of = np.zeros(len(order), np.int64)
    np.cumsum(cut, out=range_of[1:])
    record_places = np.zeros(len(lengths), np.int64)
    record_places[order] = starts + (range_places - range_starts)[range_of]
    read_starts, read_ends, pieces = _cut(range_starts, range_ends, _read_cap(read_size, align))
    read_lengths = read_ends - read_starts
    read_runs = np.repeat(range_runs, pieces)
    places = np.cumsum(read_lengths) - read_lengths - run_places[read_runs]
    read_bounds = np.searchsorted(read_runs, np.arange(n_runs + 1)).tolist()
    for run, (begin, end) in enumerate(pairwise(bounds.tolist())):
        reads = slice(read_bounds[run], read_bounds[run + 1])
        yield ReadPlan(
            read_starts[reads],
            read_lengths[reads],
            places[reads],
            record_places[begin:end],
            lengths[begin:end],
            int(run_places[run + 1] - run_places[run]),
        )


def _reach(ends: NDArray[np.int64], runs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the furthest end of each extent and those before it in its run."""
    # Each run is lifted above all before it, so that one running maximum serves all: by ranks, which never overflow.
    values, ranks = np.unique(ends, return_inverse=True)
    lifted = np.maximum.accumulate(ranks + runs * len(values))
    reach: NDArray[np.int64] = values[lifted - runs * len(values)]
    return reach


def _widest_gaps(
    gaps: NDArray[np.int64],
    begins_run: NDArray[np.bool_],
    runs: NDArray[np.int64],
    payloads: NDArray[np.number[Any]],
    gap: int,
) -> NDArray[np.int64]:
    """Return the widest gap to merge across of each run: all its gaps of up to that fit the waste that is allowed."""
    widest = np.full(len(payloads), gap)
    is_wasted = (gaps > 0) & (gaps <= gap) & ~begins_run
    wasted = np.bincount(runs[1:][is_wasted], gaps[is_wasted], len(payloads))
    for run in np.flatnonzero(wasted > MAX_WASTE * payloads).tolist():
        own = np.sort(gaps[is_wasted & (runs[1:] == run)])
        fitting = int(np.searchsorted(np.cumsum(own), MAX_WASTE * payloads[run], side="right"))
        # the first gap that no longer fits bounds the others: all gaps of its width stay unmerged
        widest[run] = own[fitting] - 1
    return widest


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
