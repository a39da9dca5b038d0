"""Many bytes from rank 0 to every rank, in pieces that any MPI can count."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from lmdbio.comm import Comm, agreement

_PIECE: Final = 1 << 29  # bytes; MPI counts in int32, and implementations double it inside


def broadcast_bytes(
    comm: Comm, held: NDArray[np.uint8] | None, *, root: int = 0, piece: int = _PIECE
) -> NDArray[np.uint8]:
    """Collective. Return the root's bytes, uint8, shape (number of bytes,), on every rank; others pass None."""
    size = int(comm.bcast(None if held is None else len(held), root))
    with agreement(comm):  # a rank without the memory must not leave the others waiting
        buffer = np.empty(size, np.uint8) if held is None else held
    for start in range(0, size, piece):
        comm.Bcast(buffer[start : start + piece], root)
    return buffer
