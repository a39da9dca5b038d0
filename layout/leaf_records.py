"""Records as leaf pages hold them: a struct of arrays that can be joined and put in another order. Pure: no I/O."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.ragged import gather, ranges


@dataclass(frozen=True, slots=True)
class LeafRecords:
    """The records of some leaf pages, page by page, in key order within each."""

    counts: NDArray[np.int64]
    """Records of each page, int64, shape (n_pages,)."""
    key_blob: NDArray[np.uint8]
    """The keys end to end, uint8, shape (sum of key_sizes,)."""
    key_sizes: NDArray[np.int64]
    """Bytes of each key, int64, shape (n_records,), as all below."""
    offsets: NDArray[np.uint64]
    """First byte of each value in the file, uint64."""
    lengths: NDArray[np.int64]
    """Bytes of each value."""
    pages: NDArray[np.int64]
    """First page of the value's overflow extent, or the leaf."""
    slots: NDArray[np.int64]
    """Place in the leaf's pointer array."""
    inline: NDArray[np.bool_]
    """Whether the value lies in the leaf."""

    @classmethod
    def empty(cls) -> "LeafRecords":
        """Return the records of no page."""
        none = np.empty(0, np.int64)
        return cls(
            counts=none,
            key_blob=np.empty(0, np.uint8),
            key_sizes=none,
            offsets=np.empty(0, np.uint64),
            lengths=none,
            pages=none,
            slots=none,
            inline=np.empty(0, np.bool_),
        )

    @classmethod
    def concatenate(cls, parts: Sequence["LeafRecords"]) -> "LeafRecords":
        """Return the records of all parts, one after another."""
        if not parts:
            return cls.empty()
        return cls(
            **{field.name: np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)}
        )

    def with_pages_in(self, places: NDArray[np.int64]) -> "LeafRecords":
        """Return the same records, their pages in another order.

        Parameters
        ----------
        places
            For each page, in the order wished, its place in the present order; int64, shape (n_pages,).
        """
        order = ranges((np.cumsum(self.counts) - self.counts)[places], self.counts[places])
        key_starts = np.cumsum(self.key_sizes) - self.key_sizes
        return LeafRecords(
            counts=self.counts[places],
            key_blob=gather(self.key_blob, key_starts[order], self.key_sizes[order]),
            key_sizes=self.key_sizes[order],
            offsets=self.offsets[order],
            lengths=self.lengths[order],
            pages=self.pages[order],
            slots=self.slots[order],
            inline=self.inline[order],
        )
