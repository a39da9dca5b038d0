"""An index made from a database alone: its tree is walked, its values are not read unless checksums are asked for."""

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lmdbio.comm import Comm, agreement, comm_or_single
from lmdbio.errors import FormatError, StaleIndexError
from lmdbio.layout.broadcast import broadcast_bytes
from lmdbio.layout.carry import Carried, carry_over
from lmdbio.layout.checksums import take_checksums
from lmdbio.layout.extents import Extents
from lmdbio.layout.file import DataFile
from lmdbio.layout.fingerprint import take_fingerprint
from lmdbio.layout.index import Index
from lmdbio.layout.meta import read_meta
from lmdbio.layout.partition_bounds import cut_partitions
from lmdbio.layout.path import PathLike, resolve
from lmdbio.layout.pieces import pieces
from lmdbio.layout.sorted_keys import order_of_keys
from lmdbio.layout.tree import walk

PIECE: Final = 1 << 20
"""Records whose extents are at hand at a time."""
Progress: TypeAlias = Callable[[int, int], None]
"""Called now and then with (records done, bytes done)."""


def build_index(
    database: PathLike,
    name: str | None = None,
    comm: Comm | None = None,
    *,
    partition_size: int | None = None,
    checksum: bool = False,
    previous: Index | None = None,
    progress: Progress | None = None,
) -> Index:
    """Collective. Return the index of a database, on every rank; nothing is written, and nobody may write meanwhile.

    Parameters
    ----------
    database
        ``x.lmdb``, ``x.lmdb/data.mdb`` or a single file.
    name
        A named database; None: the main one.
    comm
        The ranks that call; one process by default. Rank 0 walks the tree.
    partition_size
        Bytes of the file that a partition covers; None: as in ``previous`` if that is of this state, else 16 MiB.
    checksum
        Whether to read all values, too, and take their checksums, each rank a part of them.
    previous
        An older index, even a stale one, for what the database does not say: labels, class names, source, payloads;
        where it is of this very state, checksums and partitions, too. Only rank 0's counts.
    progress
        Called with (records, bytes) of this rank's values read so far.

    Raises
    ------
    FormatError
        If this is no database that is read; CorruptDatabaseError where it contradicts itself.
    StaleIndexError
        If the database changed meanwhile.
    """
    comm = comm_or_single(comm)
    path = ""
    index = None
    with agreement(comm):
        if comm.Get_rank() == 0:
            path = str(resolve(database).data)
            if name is not None:
                raise FormatError(f"{path}: expected the main database, found {name!r}: named ones are not indexed yet")
            with DataFile(path) as file:
                index = _walk_and_make(file, partition_size=partition_size, checksum=checksum, previous=previous)
    path = comm.bcast(path)
    index = _share(comm, index)
    if checksum:
        index = index.with_checksums(_all_checksums(path, index, comm, progress))
    with agreement(comm):
        if comm.Get_rank() == 0:
            difference = index.difference(path)
            if difference is not None:
                raise StaleIndexError(
                    f"{path}: expected no change while it was indexed, found {difference}: index it when nobody writes"
                )
    return index


def _walk_and_make(file: DataFile, *, partition_size: int | None, checksum: bool, previous: Index | None) -> Index:
    """Return the index without checksums, unless the previous one has them of this very state and they do."""
    meta = read_meta(file)
    fingerprint = take_fingerprint(file, meta)
    records = walk(file, meta)
    layout_order = records.layout_order()
    partitions = checksums = None
    if previous is not None and previous.fingerprint == fingerprint and len(previous) == len(records):
        partitions = previous.partitions
        checksums = None if checksum else previous.checksums
    if partition_size is not None:
        extents = Extents.pack(records.offsets, records.lengths)
        partitions = cut_partitions(extents, layout_order, partition_size=partition_size)
    carried = Carried() if previous is None else carry_over(previous, records, file)
    return Index.make(
        fingerprint=fingerprint,
        page_size=meta.page_size,
        keys=records.keys,
        key_order=order_of_keys(meta.main.flags),
        offsets=records.offsets,
        lengths=records.lengths,
        layout_order=layout_order,
        partitions=partitions,
        labels=carried.labels,
        checksums=checksums,
        payload_offsets=carried.payload_offsets,
        payload_lengths=carried.payload_lengths,
        value_kind=carried.value_kind,
        class_names=carried.class_names,
        source=carried.source,
    )


def _share(comm: Comm, index: Index | None) -> Index:
    """Collective. Return rank 0's index on every rank."""
    if comm.Get_size() == 1 and index is not None:
        return index
    held = broadcast_bytes(comm, None if index is None else np.frombuffer(index.to_bytes(), np.uint8))
    with agreement(comm):
        return Index.from_bytes(held) if index is None else index


def _all_checksums(path: str, index: Index, comm: Comm, progress: Progress | None) -> NDArray[np.uint64]:
    """Collective. Return the checksums of all values, of which each rank takes an even part of the layout order."""
    n, size = len(index), comm.Get_size()
    order = np.arange(n) if index.layout_order is None else index.layout_order
    bounds = [n * rank // size for rank in range(size + 1)]
    mine = None
    with agreement(comm):
        rank = comm.Get_rank()
        with DataFile(path) as file:
            mine = _checksums(file, index, order[bounds[rank] : bounds[rank + 1]], progress)
    checksums = np.empty(n, np.uint64)
    for rank in range(size):
        held = mine.view(np.uint8) if rank == comm.Get_rank() else None
        checksums[order[bounds[rank] : bounds[rank + 1]]] = broadcast_bytes(comm, held, root=rank).view(np.uint64)
    return checksums


def _checksums(
    file: DataFile, index: Index, records: NDArray[np.int64], progress: Progress | None
) -> NDArray[np.uint64]:
    checksums = np.empty(len(records), np.uint64)
    records_done = bytes_done = 0
    for piece in pieces(len(records), size=PIECE):
        offsets, lengths = index.extents(records[piece])
        ends = np.cumsum(lengths)
        bytes_before = bytes_done
        for part in take_checksums(file, offsets, lengths):
            checksums[records_done : records_done + len(part)] = part
            records_done += len(part)
            bytes_done = bytes_before + int(ends[records_done - piece.start - 1])
            if progress is not None:
                progress(records_done, bytes_done)
    return checksums
