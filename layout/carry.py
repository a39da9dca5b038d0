"""What a new index takes from an older one of the same database: what only the source knew."""

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lmdbio.errors import FormatError
from lmdbio.layout.datum import HEAD_SIZE, find_payload, parse
from lmdbio.layout.file import DataFile
from lmdbio.layout.index import Index
from lmdbio.layout.index_parts import ValueKind
from lmdbio.layout.key_match import match_keys
from lmdbio.layout.tree import TreeRecords

_MAX_TAIL_SIZE: Final = 4096  # bytes; a longer tail holds more than a label


@dataclass(frozen=True, slots=True)
class Carried:
    """The part of a new index that an older one gave; arrays have shape (n_records,)."""

    value_kind: ValueKind = "raw"
    class_names: list[str] | None = None
    source: dict[str, Any] | None = None
    labels: NDArray[np.int64] | None = None
    payload_offsets: NDArray[np.int64] | None = None
    payload_lengths: NDArray[np.int64] | None = None


def carry_over(previous: Index, records: TreeRecords, file: DataFile) -> Carried:
    """Return what the previous index knows of the records, by key.

    A label goes with its key. A payload's extent goes with a key whose value is as long as it was. In a database of
    Datums the head of every other value says where its payload is, and the tail of a new one its label; a value that is
    no Datum is its own payload.

    Parameters
    ----------
    previous
        An index of an older state of the database, or of the same.
    records
        The records as they are now, in key order.
    file
        The data file.
    """
    olds = match_keys(records.keys, previous.keys.expand())
    known = olds >= 0
    labels = None if previous.labels is None else _spread(previous.labels, olds, known, np.full(len(records), -1))
    carried = Carried(previous.value_kind, previous.class_names, previous.source, labels)
    if not previous.has_payloads:
        return carried
    same = known.copy()
    same[known] = previous.lengths[olds[known]] == records.lengths[known]
    payload_offsets, payload_lengths = previous.payloads(np.arange(len(previous)))
    offsets = _spread(payload_offsets, olds, same, np.zeros(len(records), np.int64))
    lengths = _spread(payload_lengths, olds, same, records.lengths.copy())
    if previous.value_kind == "datum":
        for number in np.flatnonzero(~same).tolist():
            start, length = int(records.offsets[number]), int(records.lengths[number])
            try:
                offsets[number], lengths[number] = _payload(file, start, length)
                if labels is not None and not known[number]:
                    end = int(offsets[number] + lengths[number])
                    labels[number] = _label(file, start + end, length - end)
            except FormatError:
                continue
    return replace(carried, payload_offsets=offsets, payload_lengths=lengths)


def _spread(
    old: NDArray[np.int64], olds: NDArray[np.int64], where: NDArray[np.bool_], into: NDArray[np.int64]
) -> NDArray[np.int64]:
    into[where] = old[olds[where]]
    return into


def _payload(file: DataFile, offset: int, length: int) -> tuple[int, int]:
    return find_payload(file.read(offset, min(length, HEAD_SIZE)), length=length)


def _label(file: DataFile, offset: int, length: int) -> int:
    """Return the label from the fields behind a Datum's payload, where writers put it, or -1."""
    label = parse(file.read(offset, length)).label if length <= _MAX_TAIL_SIZE else None
    return -1 if label is None else label
