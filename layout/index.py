"""The index: one extent per record of one state of a data file, with keys, labels and what else is known of records."""

import json
import os
import shlex
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lmdbio.comm import Comm, agreement, comm_or_single
from lmdbio.errors import MissingIndexError, StaleIndexError
from lmdbio.layout import sidecar
from lmdbio.layout.broadcast import broadcast_bytes
from lmdbio.layout.extents import sizes_at
from lmdbio.layout.file import DataFile
from lmdbio.layout.fingerprint import Fingerprint, take_fingerprint
from lmdbio.layout.index_pack import pack
from lmdbio.layout.index_parts import ValueKind, take_apart
from lmdbio.layout.keys import Keys
from lmdbio.layout.meta import read_meta
from lmdbio.layout.partition_bounds import PARTITION_SIZE, cut_partitions
from lmdbio.layout.path import DatabasePath, PathLike, resolve
from lmdbio.layout.sidecar import Arrays
from lmdbio.layout.sorted_keys import KeyOrder, SortedKeys


class Index:
    """What is known of the records of one database; never changes. Record numbers are places in key order, from 0.

    Made by :meth:`make`, :meth:`open`, :meth:`from_bytes` or :func:`lmdbio.layout.build_index`.
    """

    def __init__(self, arrays: Arrays, text: str, *, path: str) -> None:
        self._arrays = arrays
        self._text = text
        self._parts = take_apart(arrays, text, path=path)
        self._default_partitions: NDArray[np.int64] | None = None
        self.path = path

    @classmethod
    def make(
        cls,
        *,
        fingerprint: Fingerprint,
        page_size: int,
        keys: Keys,
        key_order: KeyOrder,
        offsets: NDArray[np.uint64],
        lengths: NDArray[np.integer[Any]],
        layout_order: NDArray[np.int64] | None = None,
        partitions: NDArray[np.int64] | None = None,
        labels: NDArray[np.int64] | None = None,
        checksums: NDArray[np.uint64] | None = None,
        payload_offsets: NDArray[np.integer[Any]] | None = None,
        payload_lengths: NDArray[np.integer[Any]] | None = None,
        value_kind: ValueKind = "raw",
        class_names: list[str] | None = None,
        source: dict[str, Any] | None = None,
    ) -> Self:
        """Return the index of these records, given in key order, in the one form that equal input always gets.

        Parameters
        ----------
        fingerprint
            The state of the data file.
        page_size
            Bytes of its pages.
        keys
            The keys, n_records of them.
        key_order
            How the tree compares them.
        offsets, lengths
            First byte and bytes of each value in the data file, shape (n_records,). These and all other arrays are
            kept as they are where their type is the sidecar's.
        layout_order
            Record numbers in the order in which values lie in the file, int64, shape (n_records,); None: key order.
        partitions
            Bounds in layout order, ascending from 0 to n_records, int64, shape (n_partitions + 1,); empty partitions
            are left out. None: cut every 16 MiB of the file.
        labels
            Class number of each record, -1 for none, int64, shape (n_records,).
        checksums
            XXH3-64 of each value, uint64, shape (n_records,).
        payload_offsets, payload_lengths
            The payload's extent within each value, shape (n_records,); None: the whole value.
        value_kind
            What the values are.
        class_names
            Name of each class number.
        source
            How the database was made: JSON, without time, host or absolute path.

        Raises
        ------
        ValueError
            If arrays do not fit each other or the data file.
        """
        if page_size != fingerprint.page_size:
            raise ValueError(f"page_size: expected {fingerprint.page_size} as in the fingerprint, found {page_size}")
        arrays, text = pack(
            fingerprint=fingerprint,
            keys=keys,
            key_order=key_order,
            offsets=offsets,
            lengths=lengths,
            layout_order=layout_order,
            partitions=partitions,
            labels=labels,
            checksums=checksums,
            payload_offsets=payload_offsets,
            payload_lengths=payload_lengths,
            value_kind=value_kind,
            class_names=class_names,
            source=source,
        )
        return cls(arrays, text, path="index")

    @classmethod
    def from_bytes(cls, held: bytes | bytearray | memoryview | NDArray[np.uint8], *, path: str = "index") -> Self:
        """Return the index that a sidecar's bytes hold; the bytes are kept, not copied.

        Raises
        ------
        FormatError
            If they are no index, or say what cannot be; ``path`` names them in the message.
        """
        arrays, text = sidecar.parse(np.frombuffer(held, np.uint8), path=path)
        return cls(arrays, text, path=path)

    @classmethod
    def open(
        cls, database: PathLike, index: PathLike | None = None, *, comm: Comm | None = None, check: bool = True
    ) -> Self:
        """Collective. Return the index of a database from its sidecar, which rank 0 reads.

        Parameters
        ----------
        database
            ``x.lmdb``, ``x.lmdb/data.mdb`` or a single file.
        index
            The sidecar, where it does not stand beside the data file.
        comm
            The ranks that call; one process by default.
        check
            Whether rank 0 compares the fingerprint with the data file.

        Raises
        ------
        MissingIndexError
            If there is no sidecar.
        StaleIndexError
            If it describes another state of the data file.
        FormatError
            If it is no index, or one of an unknown version, or says what cannot be.
        """
        comm = comm_or_single(comm)
        opened, held, path = None, None, ""
        with agreement(comm):
            if comm.Get_rank() == 0:
                places = resolve(database, index)
                path = str(places.index)
                held = _read_sidecar(places, command=_command(database, index))
                opened = cls.from_bytes(held, path=path)
                if check:
                    opened.check(database, index)
        path = comm.bcast(path)
        held = broadcast_bytes(comm, held)
        with agreement(comm):
            return cls.from_bytes(held, path=path) if opened is None else opened

    def with_checksums(self, checksums: NDArray[np.uint64]) -> Self:
        """Return the same index with these checksums: XXH3-64 of each value, uint64, shape (n_records,)."""
        return type(self)({**self._arrays, "checksum": checksums.astype("<u8")}, self._text, path=self.path)

    def check(self, database: PathLike, index: PathLike | None = None) -> None:
        """Compare the fingerprint with the database as it stands.

        Raises
        ------
        StaleIndexError
            If they differ; the message holds the command that builds the index again.
        """
        data = resolve(database, index).data
        difference = self.difference(data)
        if difference is not None:
            raise StaleIndexError(
                f"{self.path}: expected the index of {data} as it stands, found the data file with {difference}: build "
                f"the index again with `{_command(database, index)}`"
            )

    def difference(self, data: PathLike) -> str | None:
        """Return in words where a data file differs from the state that the index describes, or None."""
        with DataFile(data) as file:
            return self.fingerprint.difference(take_fingerprint(file, read_meta(file)))

    def save(self, path: PathLike) -> None:
        """Write the sidecar; it appears whole, by a rename.

        Raises
        ------
        TargetError
            If it cannot be written.
        """
        sidecar.write(path, self._arrays, self._text)

    def to_bytes(self) -> bytes:
        """Return the sidecar as bytes; equal indexes give equal bytes."""
        return sidecar.to_bytes(self._arrays, self._text)

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_bytes, (type(self), self.to_bytes(), self.path)

    def __len__(self) -> int:
        return self._parts.n_records

    def __repr__(self) -> str:
        return f"Index({self.path!r}, n_records={len(self)})"

    @property
    def n_records(self) -> int:
        """Number of records."""
        return self._parts.n_records

    @property
    def page_size(self) -> int:
        """Bytes of a page of the data file."""
        return self._parts.fingerprint.page_size

    @property
    def fingerprint(self) -> Fingerprint:
        """The state of the data file that the index describes."""
        return self._parts.fingerprint

    def digest(self) -> str:
        """Return one short name for the state of the data file, 32 hexadecimal digits."""
        return self.fingerprint.digest()

    @property
    def value_kind(self) -> ValueKind:
        """What the values are: ``raw`` bytes, or Caffe's ``datum``."""
        return self._parts.value_kind

    @property
    def class_names(self) -> list[str] | None:
        """Name of each class number, or None."""
        return self._parts.class_names

    @property
    def source(self) -> dict[str, Any] | None:
        """How the database was made, or None where it is not known."""
        return self._parts.source

    @property
    def metadata(self) -> dict[str, Any]:
        """All of the sidecar's metadata, a new dictionary each time."""
        return dict(json.loads(self._text))

    @property
    def keys(self) -> SortedKeys:
        """The keys, in key order."""
        return self._parts.keys

    @property
    def key_order(self) -> KeyOrder:
        """How the tree compares keys."""
        return self._parts.keys.order

    @property
    def offsets(self) -> NDArray[np.uint64]:
        """First byte of each value in the data file, uint64, shape (n_records,); made on demand."""
        return self._parts.extents.offsets_at(np.arange(len(self)))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Bytes of each value, int64, shape (n_records,); made on demand."""
        return sizes_at(self._parts.extents.lengths, np.arange(len(self)))

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """Class number of each record, -1 for none, int64, shape (n_records,), read-only; None where nobody knows."""
        return self._parts.labels

    @property
    def checksums(self) -> NDArray[np.uint64] | None:
        """XXH3-64 of each value, uint64, shape (n_records,), read-only; None where they were not taken."""
        return self._parts.checksums

    @property
    def layout_order(self) -> NDArray[np.int64] | None:
        """Record numbers in the order in which values lie in the file, int64, shape (n_records,); None: key order."""
        return self._parts.layout_order

    @property
    def partitions(self) -> NDArray[np.int64]:
        """Bounds of the partitions in layout order, int64, shape (n_partitions + 1,); every 16 MiB if not stored."""
        if self._parts.partitions is not None:
            return self._parts.partitions
        if self._default_partitions is None:
            self._default_partitions = cut_partitions(
                self._parts.extents, self._parts.layout_order, partition_size=PARTITION_SIZE
            )
        return self._default_partitions

    @property
    def has_payloads(self) -> bool:
        """Whether payloads are less than whole values."""
        return self._parts.payload is not None

    def extents(self, records: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Return (offsets uint64, lengths int64) of the records' values, each of shape (len(records),).

        Raises
        ------
        IndexError
            If a record number is out of range.
        """
        return self._parts.extents.at(self._in_range(records))

    def payloads(self, records: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return (offsets within the value, lengths) of the records' payloads, each int64, shape (len(records),).

        Raises
        ------
        IndexError
            If a record number is out of range.
        """
        records = self._in_range(records)
        if self._parts.payload is None:
            return np.zeros(len(records), np.int64), sizes_at(self._parts.extents.lengths, records)
        offsets, lengths = self._parts.payload
        return sizes_at(offsets, records), sizes_at(lengths, records)

    def _in_range(self, records: NDArray[np.int64]) -> NDArray[np.int64]:
        records = np.asarray(records, np.int64)
        if records.size and not 0 <= int(records.min()) <= int(records.max()) < len(self):
            raise IndexError(f"records: expected numbers of {len(self)} records, found one outside")
        return records


def _from_bytes(kind: type[Index], held: bytes, path: str) -> Index:
    return kind.from_bytes(held, path=path)


def _read_sidecar(places: DatabasePath, *, command: str) -> NDArray[np.uint8]:
    try:
        return sidecar.read(places.index)
    except MissingIndexError:
        raise MissingIndexError(f"{places.index}: expected an index, found none: build it with `{command}`") from None


def _command(database: PathLike, index: PathLike | None) -> str:
    """Return the command that builds the index again."""
    words = ["lmdbio-index", os.fspath(database)]
    return shlex.join(words if index is None else [*words, "--output", os.fspath(index)])
