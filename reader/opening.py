"""The index of a database for reading: its sidecar, or one made in memory where there is none."""

import logging
import os
import socket
from typing import Final

import numpy as np

from lmdbio.comm import Comm, agreement, comm_or_single
from lmdbio.errors import MissingIndexError, StaleIndexError
from lmdbio.layout.build import build_index
from lmdbio.layout.file import DataFile
from lmdbio.layout.fingerprint import take_fingerprint
from lmdbio.layout.index import Index
from lmdbio.layout.meta import read_meta
from lmdbio.layout.path import PathLike

_SAMPLE: Final = 1 << 16  # records whose lengths are looked at for the mean
_log = logging.getLogger("lmdbio.reader")


def open_index(database: PathLike, index: PathLike | None, *, comm: Comm | None = None) -> tuple[Index, bool]:
    """Collective. Return the index, and whether it is a sidecar's; without one, rank 0 builds it and logs a warning.

    Raises
    ------
    MissingIndexError
        If ``index`` is given and nothing is there.
    StaleIndexError
        If the sidecar is of another state of the data file.
    FormatError
        If it is no database or no index.
    """
    try:
        return Index.open(database, index, comm=comm), True
    except MissingIndexError as exc:
        if index is not None:
            raise
        if comm_or_single(comm).Get_rank() == 0:
            _log.warning("%s; building one in memory, which each start will do again", exc)
    return build_index(database, comm=comm), False


def check_states(index: Index, file: DataFile, comm: Comm) -> None:
    """Collective. Compare the file that each rank opened with the state that the index describes.

    Of the ranks of one machine that have the same file open only the first reads in it, so that a file system that all
    share is asked little; copies on each machine's own disks are compared each.

    Raises
    ------
    StaleIndexError, FormatError
        If one differs; the same on every rank.
    """
    status = os.fstat(file.fileno())
    identities = comm.allgather((socket.gethostname(), status.st_dev, status.st_ino))
    rank = comm.Get_rank()
    with agreement(comm):
        if identities.index(identities[rank]) == rank:
            check_state(index, file, where=f" on rank {rank}" if len(identities) > 1 else "")


def check_state(index: Index, file: DataFile, *, where: str = "") -> None:
    """Compare the very file that was opened with the state that the index describes; reads at most 19 pages.

    ``where`` stands behind what was found in the message.

    Raises
    ------
    StaleIndexError
        If they differ: the file was written to or replaced since, or this machine's is another.
    FormatError
        If it is no database any more.
    """
    difference = index.fingerprint.difference(take_fingerprint(file, read_meta(file)))
    if difference is not None:
        raise StaleIndexError(
            f"{file.path}: expected the data file that was indexed, found one with {difference}{where}: was it changed "
            "or replaced meanwhile, or is it another copy?"
        )


def mean_length(index: Index) -> int:
    """Return the bytes of a value on average, from a sample where there are many; 0 where there is none."""
    n = len(index)
    sample = np.unique(np.linspace(0, n - 1, min(n, _SAMPLE)).astype(np.int64))
    return -(-int(index.extents(sample)[1].sum()) // max(1, len(sample)))
