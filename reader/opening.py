"""Databases opened for reading: their sidecars, or indexes made in memory where there are none, and their files."""

import logging
import os
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
from lmdbio.reader.databases import DatabaseFiles
from lmdbio.reader.direct import open_records
from lmdbio.reader.fetch import RecordFile
from lmdbio.reader.joined_file import JoinedFile, RecordFiles, files_of
from lmdbio.reader.joined_index import JoinedIndex, RecordIndex, parts_of
from lmdbio.reader.nodes import host_of
from lmdbio.reader.options import Direct
from lmdbio.reader.settings import agree_on

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


def open_indexes(found: DatabaseFiles, *, comm: Comm | None = None) -> tuple[RecordIndex, bool]:
    """Collective. Return what :func:`open_index` returns, of several databases as one: whether all have sidecars.

    Raises
    ------
    ValueError
        If ranks name different numbers of databases, or classes of several cannot be told to be the same.
    """
    comm = comm_or_single(comm)
    agree_on(comm, {"databases": len(found), "index": [index is not None for index in found.indexes]})
    if len(found) > 1:
        agree_on(comm, {f"database {number}": os.path.basename(name) for number, name in enumerate(found.names)})
    opened = [open_index(name, index, comm=comm) for name, index in zip(found.names, found.indexes, strict=True)]
    if len(opened) == 1:
        return opened[0]
    with agreement(comm):
        return JoinedIndex([index for index, _ in opened], found.data), all(is_stored for _, is_stored in opened)


def open_files(found: DatabaseFiles, *, direct: Direct, in_order: bool, retries: int) -> RecordFiles:
    """Return the data files, open for reading as wanted; see :func:`lmdbio.reader.direct.open_records`."""
    size = sum(map(os.path.getsize, found.data)) if len(found) > 1 else None
    files: list[RecordFile] = []
    try:
        files += (
            open_records(path, direct=direct, in_order=in_order, size=size, retries=retries) for path in found.data
        )
    except BaseException:
        for file in files:
            file.close()
        raise
    return JoinedFile(files) if len(files) > 1 else files[0]


def check_states(index: RecordIndex, file: RecordFiles, comm: Comm) -> None:
    """Collective. Compare the files that each rank opened with the states that the index describes.

    Of the ranks of one machine that have the same file open only the first reads in it, so that a file system that all
    share is asked little; copies on each machine's own disks are compared each.

    Raises
    ------
    StaleIndexError, FormatError
        If one differs; the same on every rank.
    """
    files, rank = files_of(file), comm.Get_rank()
    states = [os.fstat(file.fileno()) for file in files]
    ranks = comm.allgather((host_of(comm), [(state.st_dev, state.st_ino) for state in states]))
    identities = [[(host, *found) for found in held] for host, held in ranks]
    with agreement(comm):
        for number, (part, own) in enumerate(zip(parts_of(index), files, strict=True)):
            if [held[number] for held in identities].index(identities[rank][number]) == rank:
                check_state(part, own, where=f" on rank {rank}" if len(identities) > 1 else "")


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


def check_checksums(index: RecordIndex, found: DatabaseFiles) -> None:
    """Raise ValueError for the first database without checksums."""
    for part, name in zip(parts_of(index), found.names, strict=True):
        if part.checksums is None:
            raise ValueError(
                f"verify: expected an index with checksums, found none in {part.path}: build it again with "
                f"`lmdbio-index --checksum {os.fspath(name)}`"
            )


def mean_length(index: RecordIndex) -> int:
    """Return the bytes of a value on average, from a sample where there are many; 0 where there is none."""
    n = len(index)
    sample = np.unique(np.linspace(0, n - 1, min(n, _SAMPLE)).astype(np.int64))
    return -(-int(index.extents(sample)[1].sum()) // max(1, len(sample)))
