"""The indexes of several databases as one: records are numbered on from one to the next. Pure: no I/O."""

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Final, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.index import Index
from lmdbio.reader.space import STRIDE, Space

_DIGEST_SIZE: Final = 32


class JoinedKeys(Sequence[bytes]):
    """The keys of all databases, one behind the other.

    Parameters
    ----------
    indexes
        Of the databases.
    bounds
        Number of each one's first record, and the end, int64, shape (n_databases + 1,).
    """

    def __init__(self, indexes: Sequence[Index], bounds: NDArray[np.int64]) -> None:
        self._indexes = indexes
        self._bounds = bounds

    def __len__(self) -> int:
        return int(self._bounds[-1])

    @overload
    def __getitem__(self, number: int) -> bytes: ...
    @overload
    def __getitem__(self, number: slice) -> list[bytes]: ...
    def __getitem__(self, number: int | slice) -> bytes | list[bytes]:
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(len(self)))]
        found = number + len(self) if number < 0 else number
        if not 0 <= found < len(self):
            raise IndexError(f"record number: expected one of {len(self)} records, found {number}")
        place = int(np.searchsorted(self._bounds, found, side="right")) - 1
        return self._indexes[place].keys[found - int(self._bounds[place])]

    def __iter__(self) -> Iterator[bytes]:
        return chain.from_iterable(index.keys for index in self._indexes)

    def find(self, key: bytes) -> int | None:
        """Return the number of the first record with this key, or None."""
        for index, first in zip(self._indexes, self._bounds.tolist(), strict=False):
            number = index.keys.find(key)
            if number is not None:
                return int(first + number)
        return None


class JoinedIndex:
    """What is known of the records of several databases, as :class:`lmdbio.layout.Index` tells it of one.

    Offsets are those of :attr:`space`. Class numbers are those of one list of names: the databases' own lists, merged
    by name in order of first occurrence.

    Parameters
    ----------
    indexes
        Of the databases, one at least.
    paths
        Of the data files.

    Raises
    ------
    ValueError
        If some databases have labels with class names and others labels without, or one names a class twice or has a
        label that its list does not name.
    """

    def __init__(self, indexes: Sequence[Index], paths: Sequence[str]) -> None:
        self.indexes = tuple(indexes)
        self._bounds = np.concatenate(([0], np.cumsum([len(index) for index in indexes]))).astype(np.int64)
        self.space = Space.of(paths, [index.fingerprint.file_size for index in indexes])
        self.path = paths[0]
        self.keys = JoinedKeys(self.indexes, self._bounds)
        self.class_names, self._classes = merge_classes(self.indexes, paths)

    def __len__(self) -> int:
        return int(self._bounds[-1])

    def __repr__(self) -> str:
        return f"JoinedIndex({self.path!r} and {len(self.indexes) - 1} more, n_records={len(self)})"

    def digest(self) -> str:
        """Return one short name for the states of all databases in their order, 32 hexadecimal digits."""
        whole = "".join(index.digest() for index in self.indexes)
        return hashlib.sha256(whole.encode()).hexdigest()[:_DIGEST_SIZE]

    @property
    def page_size(self) -> int:
        """Bytes of the largest page."""
        return max(index.page_size for index in self.indexes)

    @property
    def has_payloads(self) -> bool:
        """Whether payloads are less than whole values anywhere."""
        return any(index.has_payloads for index in self.indexes)

    @cached_property
    def labels(self) -> NDArray[np.int64] | None:
        """Class number of each record, -1 for none, int64, shape (n_records,); None where nobody knows any."""
        if all(index.labels is None for index in self.indexes):
            return None
        return np.concatenate(
            [self._labels_of(index, classes) for index, classes in zip(self.indexes, self._classes, strict=True)]
        )

    @cached_property
    def checksums(self) -> NDArray[np.uint64] | None:
        """XXH3-64 of each value, uint64, shape (n_records,); None where a database has none."""
        parts = [index.checksums for index in self.indexes]
        held = [part for part in parts if part is not None]
        return np.concatenate(held) if len(held) == len(parts) else None

    @cached_property
    def layout_order(self) -> NDArray[np.int64] | None:
        """Record numbers file by file in the order in which values lie there, int64; None: as they are numbered."""
        if all(index.layout_order is None for index in self.indexes):
            return None
        orders = (np.arange(len(i)) if i.layout_order is None else i.layout_order for i in self.indexes)
        return np.concatenate([order + first for order, first in zip(orders, self._bounds.tolist(), strict=False)])

    @cached_property
    def partitions(self) -> NDArray[np.int64]:
        """Bounds of all partitions in layout order, int64, shape (n_partitions + 1,)."""
        parts = [
            index.partitions[1:] + first for index, first in zip(self.indexes, self._bounds.tolist(), strict=False)
        ]
        return np.concatenate([np.zeros(1, np.int64), *parts])

    def extents(self, records: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Return (offsets uint64, lengths int64) of the records' values, each of shape (len(records),)."""
        offsets, lengths = np.empty(len(records), np.uint64), np.empty(len(records), np.int64)
        for place, taken, numbers in self._split(records):
            own_offsets, lengths[taken] = self.indexes[place].extents(numbers)
            # an offset that nobody can believe stays in the void behind its own file
            furthest = np.uint64(int(self.space.sizes[place]) + STRIDE // 2)
            offsets[taken] = np.minimum(own_offsets, furthest) + np.uint64(self.space.bases[place])
        return offsets, lengths

    def payloads(self, records: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return (offsets within the value, lengths) of the records' payloads, each int64, shape (len(records),)."""
        offsets, lengths = np.empty(len(records), np.int64), np.empty(len(records), np.int64)
        for place, taken, numbers in self._split(records):
            offsets[taken], lengths[taken] = self.indexes[place].payloads(numbers)
        return offsets, lengths

    def _split(self, records: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
        """Yield (database, places in ``records``, numbers there) for each database that has some of the records."""
        records = np.asarray(records, np.int64)
        if records.size and not 0 <= int(records.min()) <= int(records.max()) < len(self):
            raise IndexError(f"records: expected numbers of {len(self)} records, found one outside")
        places = np.searchsorted(self._bounds, records, side="right") - 1
        order = np.argsort(places, kind="stable")
        cuts = np.flatnonzero(np.diff(places[order], prepend=-1))
        if not len(cuts):
            return
        for first, end in zip(cuts.tolist(), [*cuts[1:].tolist(), len(order)], strict=True):
            taken = order[first:end]
            place = int(places[taken[0]])
            yield place, taken, records[taken] - self._bounds[place]

    def _labels_of(self, index: Index, classes: NDArray[np.int64] | None) -> NDArray[np.int64]:
        if index.labels is None:
            return np.full(len(index), -1, np.int64)
        return index.labels if classes is None else classes[index.labels]


RecordIndex: TypeAlias = Index | JoinedIndex
"""What a reader knows of its records."""


def parts_of(index: RecordIndex) -> tuple[Index, ...]:
    """Return the index of each database."""
    return index.indexes if isinstance(index, JoinedIndex) else (index,)


def merge_classes(
    indexes: Sequence[Index], paths: Sequence[str]
) -> tuple[list[str] | None, list[NDArray[np.int64] | None]]:
    """Return (one list of class names, the new number of each class of each database and -1 for -1).

    A database without labels takes no part; where no list of names is known, numbers stay as they are.
    """
    labelled = [number for number, index in enumerate(indexes) if index.labels is not None]
    named = [number for number in labelled if indexes[number].class_names is not None]
    if not named:
        return None, [None] * len(indexes)
    for number in labelled:
        if number not in named:
            raise ValueError(
                f"{paths[number]}: expected class names beside its labels, as {paths[named[0]]} has, found none: the "
                "same number may mean another class there; read them apart, or index both with class names"
            )
    numbers: dict[str, int] = {}
    classes: list[NDArray[np.int64] | None] = [None] * len(indexes)
    for number in named:
        names, labels = indexes[number].class_names or [], indexes[number].labels
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"{paths[number]}: expected each class name once, found {twice!r} twice")
        if labels is not None and len(labels):
            for label in (int(labels.min()), int(labels.max())):
                if not -1 <= label < len(names):
                    raise ValueError(f"{paths[number]}: expected labels from -1 to {len(names) - 1}, found {label}")
        new = [numbers.setdefault(name, len(numbers)) for name in names]
        classes[number] = np.array([*new, -1], np.int64)  # -1 is the last
    return list(numbers), classes
