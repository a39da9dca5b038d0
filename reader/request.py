"""What one rank asks of a collective read: ranges of the file in ascending order, no byte twice. Pure: no I/O."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.ragged import copy_ranges
from lmdbio.reader.plan import ReadPlan


@dataclass(frozen=True, slots=True)
class Request:
    """Ranges that fill a buffer from its beginning, and bytes of it that are wanted once more: a struct of arrays."""

    offsets: NDArray[np.int64]
    """First byte of each range in the file, ascending, shape (n_ranges,)."""
    lengths: NDArray[np.int64]
    """Bytes of each range, from 1, shape (n_ranges,); no two overlap."""
    size: int
    """Bytes of all ranges: what is read into the buffer."""
    sources: NDArray[np.int64]
    """First byte in the buffer of each part to copy once all is read, shape (n_copies,)."""
    places: NDArray[np.int64]
    """Where in the buffer each copy begins, behind all that is read, shape (n_copies,)."""
    copy_lengths: NDArray[np.int64]
    """Bytes of each copy, shape (n_copies,)."""

    @property
    def end(self) -> int:
        """End of the last range in the file; 0 where there is none."""
        return int(self.offsets[-1] + self.lengths[-1]) if len(self.offsets) else 0

    def pieces(self, most: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return (offsets, lengths) of the ranges, cut where they are of more than ``most`` bytes."""
        if not len(self.lengths) or int(self.lengths.max()) <= most:
            return self.offsets, self.lengths
        counts = -(-self.lengths // most)
        # piece: number of each piece in its range
        piece = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        lengths = np.minimum(most, np.repeat(self.lengths, counts) - piece * most)
        return np.repeat(self.offsets, counts) + piece * most, lengths

    def repeat(self, buffer: NDArray[np.uint8]) -> None:
        """Make the copies, once the ranges are read."""
        if len(self.sources):
            copy_ranges(buffer, self.places, buffer, self.sources, self.copy_lengths)


_NONE = np.zeros(0, np.int64)
EMPTY = Request(_NONE, _NONE, 0, _NONE, _NONE, _NONE)
"""What a rank asks for that needs nothing."""


def request_of(plan: ReadPlan) -> Request:
    """Return the plan's reads as one request.

    A file view of MPI-IO must ascend; and MPI's readers do badly by bytes that one rank asks for twice. The reads of a
    plan ascend without overlap, save those of records that are read again, which stand last: these become copies.
    The plan must be one whose ranges were not cut.
    """
    ends = plan.offsets + plan.lengths
    overlaps = np.flatnonzero(plan.offsets[1:] < ends[:-1])
    n_ranges = int(overlaps[0]) + 1 if len(overlaps) else len(plan.offsets)
    offsets, lengths, places = (part[:n_ranges] for part in (plan.offsets, plan.lengths, plan.places))
    again = plan.offsets[n_ranges:]
    holders = np.searchsorted(offsets, again, side="right") - 1
    return Request(
        offsets,
        lengths,
        int(lengths.sum()),
        places[holders] + (again - offsets[holders]),
        plan.places[n_ranges:],
        plan.lengths[n_ranges:],
    )
