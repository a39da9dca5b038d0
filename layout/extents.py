"""Where the values lie: one extent per record, as arrays or as runs where offsets are regular. Pure: no I/O.

Runs nest once. A row ``(first, count, stride, repeats, step)`` stands for ``count * repeats`` consecutive records: the
``j``-th of the ``i``-th repeat begins at ``first + i * step + j * stride``, modulo 2**64: strides may be negative.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.pieces import pieces

RUN_COLUMNS: Final = 5
_FIRST, _COUNT, _STRIDE, _REPEATS, _STEP = range(RUN_COLUMNS)
_MAX_SIZE: Final = 1 << 60  # a sum of four numbers of this size fits int64
_STARTS_AT_A_TIME: Final = 1 << 16
"""Elements among which progressions are looked for together, 2 or more."""


def progression_starts(values: NDArray[np.uint64], begins: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return where each arithmetic progression starts when each takes as many elements as it can, from left to right.

    A progression takes its second element whatever the difference is, goes on as long as the difference stays, and
    never crosses the beginning of a block.

    Parameters
    ----------
    values
        The elements, shape (n,); differences wrap around.
    begins
        Whether a block begins at the element, shape (n,); the first is taken as True.

    Returns
    -------
    starts
        Ascending, int64, shape (number of progressions,).

    Examples
    --------
    >>> values = np.array([0, 1, 2, 10, 11, 12, 13, 50], np.uint64)
    >>> progression_starts(values, np.zeros(8, np.bool_)).tolist()
    [0, 3, 7]
    """
    if len(values) == 0:
        return np.zeros(0, np.int64)
    starts = begins.copy()
    starts[0] = True
    # Difference i lies between elements i and i + 1; a segment is a maximal stretch of equal ones within a block.
    inside = ~starts[1:]
    differences = np.diff(values)
    continues = np.zeros(len(values), np.bool_)
    continues[1:-1] = inside[1:] & inside[:-1] & (differences[1:] == differences[:-1])
    segments = np.flatnonzero(inside & ~continues[:-1])
    # A progression ends with its segment, and the next skips a difference, the first of the next segment. So a segment
    # of one difference is skipped when the one before it in its block was taken; every other segment is taken.
    first = starts[segments]
    number = np.arange(len(segments))
    anchors = np.maximum.accumulate(np.where(first | continues[segments + 1], number, 0))
    taken = (number - anchors) % 2 == 0
    after_taken = np.zeros(len(segments), np.bool_)
    after_taken[1:] = taken[:-1] & ~first[1:]
    starts[segments[after_taken] + 1] = True
    return np.flatnonzero(starts)


def _starts_in_pieces(values: NDArray[np.uint64], begins: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return what :func:`progression_starts` does, in little memory beside it.

    A piece begins where a progression does. What comes later decides of its last one alone: how far it goes.
    """
    n = len(values)
    found = [np.zeros(0, np.int64)]
    start = 0
    while start < n:
        stop = min(start + _STARTS_AT_A_TIME, n)
        starts = start + progression_starts(values[start:stop], begins[start:stop])
        start = int(starts[-1]) if stop < n else n
        if start == stop - 1:  # nothing is known of it but its first element
            starts = starts[:-1]
        elif stop < n:
            start = _progression_end(values, begins, start, stop)
        found.append(starts)
    return np.concatenate(found)


def _progression_end(values: NDArray[np.uint64], begins: NDArray[np.bool_], start: int, known: int) -> int:
    """Return where the progression ends that begins at ``start`` and holds all elements before ``known``."""
    difference = np.diff(values[start : start + 2])  # of an array: a scalar would warn of wrapping around
    for at in range(known, len(values), _STARTS_AT_A_TIME):
        stop = min(at + _STARTS_AT_A_TIME, len(values))
        ends = np.flatnonzero(begins[at:stop] | (np.diff(values[at - 1 : stop]) != difference))
        if len(ends):
            return at + int(ends[0])
    return len(values)


@dataclass(frozen=True, slots=True)
class _Progressions:
    """Offsets as progressions, and which of these make a run together."""

    firsts: NDArray[np.uint64]
    counts: NDArray[np.uint64]
    strides: NDArray[np.uint64]
    runs: NDArray[np.int64]
    """The progression that each run begins with."""

    @classmethod
    def of(cls, offsets: NDArray[np.uint64]) -> "_Progressions":
        n = len(offsets)
        starts = _starts_in_pieces(offsets, np.zeros(n, np.bool_))
        counts = np.diff(starts, append=n).astype(np.uint64)
        firsts = offsets[starts]
        strides = np.where(counts > 1, offsets[np.minimum(starts + 1, n - 1)] - firsts, np.uint64(0))
        begins = np.ones(len(starts), np.bool_)
        begins[1:] = (counts[1:] != counts[:-1]) | (strides[1:] != strides[:-1])
        return cls(firsts, counts, strides, _starts_in_pieces(firsts, begins))

    def rows(self) -> NDArray[np.uint64]:
        n, runs = len(self.firsts), self.runs
        firsts = self.firsts[runs]
        repeats = np.diff(runs, append=n).astype(np.uint64)
        steps = np.where(repeats > 1, self.firsts[np.minimum(runs + 1, n - 1)] - firsts, np.uint64(0))
        return np.stack([firsts, self.counts[runs], self.strides[runs], repeats, steps], axis=1)


def find_runs(offsets: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the rows of runs that stand for the offsets, uint64, shape (n_runs, 5). One input has one answer.

    Progressions of offsets are taken greedily, then progressions of progressions of equal count and stride; a count or
    repeat of 1 has stride or step 0.
    """
    return _Progressions.of(offsets).rows()


@dataclass(frozen=True)
class Runs:
    """Offsets as rows of runs; see the module's first lines.

    >>> runs = Runs(np.array([[16, 3, 4096, 2, 20480]], np.uint64))
    >>> len(runs), runs.at(np.array([0, 2, 3])).tolist()
    (6, [16, 8208, 20496])
    """

    rows: NDArray[np.uint64]
    """One run a row, shape (n_runs, 5)."""

    @cached_property
    def bounds(self) -> NDArray[np.int64]:
        """The record at which each run starts, and the number of records, int64, shape (n_runs + 1,)."""
        sizes = (self.rows[:, _COUNT] * self.rows[:, _REPEATS]).astype(np.int64)
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])

    def __len__(self) -> int:
        return int(self.bounds[-1])

    def at(self, records: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the offsets of the records, uint64, shape as ``records``."""
        runs = np.searchsorted(self.bounds, records, side="right") - 1
        rows = self.rows[runs]
        numbers = (records - self.bounds[runs]).astype(np.uint64)
        repeat = numbers // rows[:, _COUNT]
        place = numbers - repeat * rows[:, _COUNT]
        offsets: NDArray[np.uint64] = rows[:, _FIRST] + repeat * rows[:, _STEP] + place * rows[:, _STRIDE]
        return offsets

    def problem(self, n_records: int, size: int) -> str | None:
        """Return what is expected and what found where an offset of a row lies beyond ``size``, or None.

        Looks at rows alone, whatever number of records they claim.
        """
        counts, repeats = self.rows[:, _COUNT], self.rows[:, _REPEATS]
        if not _adds_up(counts, repeats, n_records):
            return f"expected runs of {n_records} records in all, found others"
        outside = f"expected runs of offsets up to {size}, found one outside"
        if size < 0 or np.any(self.rows[:, _FIRST] > np.uint64(size)):
            return outside
        low = self.rows[:, _FIRST].astype(np.int64)
        high = low.copy()
        for strides, times in ((self.rows[:, _STRIDE], counts), (self.rows[:, _STEP], repeats)):
            last = times.astype(np.int64) - 1
            signed = np.where(last > 0, strides.astype(np.int64), 0)
            limit = size // np.maximum(last, 1)
            if np.any((signed > limit) | (signed < -limit)):
                return outside
            low += np.minimum(signed * last, 0)
            high += np.maximum(signed * last, 0)
        return outside if np.any(low < 0) or np.any(high > size) else None


def _adds_up(counts: NDArray[np.uint64], repeats: NDArray[np.uint64], n_records: int) -> bool:
    """Return whether all counts and repeats are at least 1 and their products add up to ``n_records``."""
    if np.any(counts < 1) or np.any(repeats < 1) or np.any(counts > np.uint64(n_records) // np.maximum(repeats, 1)):
        return False
    products = counts * repeats  # none is above n_records, so none has wrapped; the float sum shows if the sum wraps
    return float(np.sum(products, dtype=np.float64)) <= 2.0 * n_records and int(np.sum(products)) == n_records


@dataclass(frozen=True, slots=True)
class Extents:
    """The extent of each record's value: offset and length in bytes, in the form in which they are stored.

    >>> extents = Extents.pack(np.array([16, 4112, 8208], np.uint64), np.array([9, 9, 9]))
    >>> offsets, lengths = extents.at(np.array([2, 0]))
    >>> offsets.tolist(), lengths.tolist()
    ([8208, 16], [9, 9])
    """

    offsets: Runs | NDArray[np.uint64]
    """First byte of each value in the data file: runs, or an array of shape (n_records,)."""
    lengths: NDArray[np.unsignedinteger]
    """Bytes of each value, shape (n_records,), or (1,) where all are equal."""

    @classmethod
    def pack(cls, offsets: NDArray[np.uint64], lengths: NDArray[np.integer[Any]]) -> "Extents":
        """Return the extents in the smallest form: runs where their rows take fewer bytes than the offsets."""
        found = _Progressions.of(offsets)
        are_few = len(found.runs) * RUN_COLUMNS < len(offsets)
        return cls(Runs(found.rows()) if are_few else np.ascontiguousarray(offsets, "<u8"), pack_sizes(lengths))

    def __len__(self) -> int:
        return len(self.offsets)

    def offsets_at(self, records: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the offsets of the records, uint64, shape (len(records),)."""
        return self.offsets.at(records) if isinstance(self.offsets, Runs) else self.offsets[records]

    def at(self, records: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Return (offsets uint64, lengths int64) of the records, each of shape (len(records),)."""
        return self.offsets_at(records), sizes_at(self.lengths, records)

    def pieces(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.int64]]]:
        """Yield (records, offsets, lengths) of all records in their order, a bounded number at a time."""
        for piece in pieces(len(self)):
            records = np.arange(piece.start, piece.stop)
            yield records, *self.at(records)

    def problem(self, n_records: int, size: int) -> str | None:
        """Return what is expected and what found where the extents do not fit a data file of ``size`` bytes, or None.

        Takes time and memory by the bytes stored, not by the number of records claimed.
        """
        if not max(n_records, size) <= _MAX_SIZE:
            return f"expected at most {_MAX_SIZE} bytes and records, found {max(n_records, size)}"
        if isinstance(self.offsets, Runs):
            constant = int(self.lengths[0]) if len(self.lengths) == 1 else 0
            wrong = self.offsets.problem(n_records, size - constant)
            if wrong is not None or len(self.lengths) == 1:
                return wrong
        for records, offsets, _ in self.pieces():
            lengths = self.lengths if len(self.lengths) == 1 else self.lengths[records]
            if np.any(lengths > np.uint64(size)) or np.any(offsets > np.uint64(size) - lengths):
                return f"expected extents within the data file of {size} bytes, found one outside"
        return None


def pack_sizes(sizes: NDArray[np.integer[Any]]) -> NDArray[np.unsignedinteger]:
    """Return sizes as they are stored: uint32, uint64 where needed, of shape (1,) where all are equal.

    >>> pack_sizes(np.array([7, 7, 7])), pack_sizes(np.array([1, 1 << 32])).dtype
    (array([7], dtype=uint32), dtype('uint64'))
    """
    if len(sizes) > 1 and np.all(sizes == sizes[0]):
        sizes = sizes[:1]
    wide = len(sizes) > 0 and int(sizes.max()) >> 32
    return sizes.astype("<u8" if wide else "<u4", copy=False)


def sizes_at(sizes: NDArray[np.unsignedinteger], records: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the stored sizes of the records, int64, shape (len(records),)."""
    if len(sizes) == 1:
        return np.full(len(records), int(sizes[0]), np.int64)
    return sizes[records].astype(np.int64)
