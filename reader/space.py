"""The bytes of several data files as one range of offsets, in which no two files are near each other. Pure: no I/O."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

STRIDE: Final = 1 << 42
"""What a file's first offset is a multiple of, and less than its distance from the end of the file before. More than
any gap across which reads are merged; a multiple of every alignment, and of every common size of reads."""


@dataclass(frozen=True, slots=True)
class Space:
    """Where each file's bytes are; of a single file, each byte is where it is in the file."""

    paths: tuple[str, ...]
    """The files."""
    bases: NDArray[np.int64]
    """Offset of each file's first byte, ascending from 0, shape (n_files,)."""
    sizes: NDArray[np.int64]
    """Bytes of each file, shape (n_files,)."""

    @classmethod
    def of(cls, paths: Sequence[str], sizes: Sequence[int]) -> Self:
        """Return the files in this order, one behind the other."""
        held = np.array(sizes, np.int64)
        strides = (held // STRIDE + 2) * STRIDE
        return cls(tuple(paths), np.cumsum(strides) - strides, held)

    @property
    def size(self) -> int:
        """End of the last file."""
        return int(self.bases[-1] + self.sizes[-1])

    def file_of(self, offset: int) -> int:
        """Return the number of the file that an offset falls into, or behind."""
        return int(np.searchsorted(self.bases, offset, side="right")) - 1

    def place(self, offset: int) -> tuple[str, int]:
        """Return (path, offset within the file)."""
        number = self.file_of(offset)
        return self.paths[number], offset - int(self.bases[number])

    def ends(self, offsets: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return where the file ends that each offset falls into, or behind, shape (n_offsets,)."""
        ends = (self.bases + self.sizes).astype(np.uint64)
        if len(ends) == 1:
            return np.broadcast_to(ends, offsets.shape)
        return ends[np.searchsorted(self.bases.astype(np.uint64), offsets, side="right") - 1]
