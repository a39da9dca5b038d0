"""A batch: the records of one step in one buffer, with offsets and lengths."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.ragged import copy_ranges
from lmdbio.reader.joined_index import RecordIndex
from lmdbio.reader.views import Views


class Batch:
    """Records in the order of the step; everything here is a view of one buffer, as in Arrow's list views.

    Lifetime: the buffer is used again once nothing refers to it: not the batch, nor ``values``, ``data`` or ``array``,
    nor any view taken from them. So a view that is held stays good, whatever becomes of the batch; but what is held
    is memory that cannot be used again: :meth:`copy` keeps the batch's own bytes only, :meth:`release` drops the
    batch's hold at once. The bytes may be written to: they are the holder's own.

    Parameters
    ----------
    index
        Where keys, labels and payloads come from.
    indices
        Record numbers, int64, shape (n_records,).
    buffer
        Bytes that hold every value, uint8, one-dimensional.
    offsets, lengths
        First byte in the buffer and bytes of each value, int64, shape (n_records,).
    """

    def __init__(
        self,
        index: RecordIndex,
        indices: NDArray[np.int64],
        buffer: NDArray[np.uint8],
        offsets: NDArray[np.int64],
        lengths: NDArray[np.int64],
    ) -> None:
        self._index = index
        self._buffer: NDArray[np.uint8] | None = buffer
        self._decoded: list[Any] | None = None
        self.indices = indices
        self.offsets = offsets
        self.lengths = lengths

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        state = "released" if self._buffer is None else f"n_bytes={int(self.lengths.sum())}"
        return f"Batch(n_records={len(self)}, {state})"

    @property
    def buffer(self) -> NDArray[np.uint8]:
        """The bytes that ``offsets`` and ``lengths`` speak of, uint8, shape (n_bytes,); other records may lie between.

        Raises
        ------
        ValueError
            If the batch was released.
        """
        if self._buffer is None:
            raise ValueError("batch: expected one that is held, found it released; copy() keeps one")
        return self._buffer

    @property
    def values(self) -> Views:
        """The values, a sequence of memoryviews."""
        return Views(self.buffer.data, self.offsets, self.lengths)

    @property
    def data(self) -> Views:
        """The payload of each value (the image within a Datum), else the value, a sequence of memoryviews."""
        return Views(self.buffer.data, *self._payloads())

    @property
    def array(self) -> NDArray[np.uint8]:
        """The data of all records, uint8, shape (n_records, length): a view where they are equally spaced.

        Raises
        ------
        ValueError
            If the lengths differ.
        """
        starts, lengths = self._payloads()
        if len(lengths) and bool((lengths != lengths[0]).any()):
            raise ValueError(
                f"array: expected data of equal lengths, found {lengths.min()} to {lengths.max()} bytes: use `data`"
            )
        size = int(lengths[0]) if len(lengths) else 0
        buffer = self.buffer
        stride = int(starts[1] - starts[0]) if len(starts) > 1 else size
        if stride < size or bool((np.diff(starts) != stride).any()):
            packed = np.empty((len(lengths), size), np.uint8)
            copy_ranges(packed.reshape(-1), np.arange(len(lengths)) * size, buffer, starts, lengths)
            return packed
        first = int(starts[0]) if len(starts) else 0
        return np.lib.stride_tricks.as_strided(buffer[first:], (len(lengths), size), (stride, 1))

    @property
    def decoded(self) -> list[Any]:
        """What ``decode=`` has made of each record's data; with the batch's own lifetime, not the buffer's.

        Raises
        ------
        ValueError
            If the reader has no ``decode=``.
        """
        if self._decoded is None:
            raise ValueError("decoded: expected a batch of a reader with decode=, found one of a reader without")
        return self._decoded

    @decoded.setter
    def decoded(self, values: list[Any]) -> None:
        self._decoded = values

    @property
    def keys(self) -> list[bytes]:
        """The keys, made on demand."""
        keys = self._index.keys
        return [keys[number] for number in self.indices.tolist()]

    @property
    def labels(self) -> NDArray[np.int64]:
        """Class number of each record, -1 where there is none, int64, shape (n_records,)."""
        labels = self._index.labels
        if labels is None:
            return np.full(len(self), -1, np.int64)
        return np.asarray(labels[self.indices], np.int64)

    def copy(self) -> "Batch":
        """Return the same batch in a buffer of its own, packed, for keeping."""
        ends = np.cumsum(self.lengths)
        packed = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
        places = ends - self.lengths
        copy_ranges(packed, places, self.buffer, self.offsets, self.lengths)
        batch = Batch(self._index, self.indices.copy(), packed, places, self.lengths.copy())
        batch._decoded = self._decoded
        return batch

    def release(self) -> None:
        """Drop the batch's hold of its buffer; views that were taken before stay good. A second call does nothing."""
        self._buffer = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _payloads(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where in the buffer each record's data begins, and its bytes."""
        if not self._index.has_payloads:
            return self.offsets, self.lengths
        offsets, lengths = self._index.payloads(self.indices)
        return self.offsets + offsets, lengths
