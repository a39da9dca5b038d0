"""What a new index takes from an older one of the same database: what only the source knew."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmdbio.errors import FormatError
from lmdbio.layout.datum import Datum, parse
from lmdbio.layout.file import DataFile
from lmdbio.layout.index import Index
from lmdbio.layout.index_parts import ValueKind
from lmdbio.layout.key_match import match_keys
from lmdbio.layout.tree import TreeRecords


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
    Datums the other values are read, and say both themselves; a value that is no Datum is its own payload.

    Parameters
    ----------
    previous
        An index of an older state of the database, or of the same.
    records
        The records as they are now, in key order.
    file
        The data file.
    """
    n_old = len(previous)
    olds = match_keys(records.keys, previous.keys.expand())
    known = olds >= 0
    labels = None if previous.labels is None else _spread(previous.labels, olds, known, np.full(len(records), -1))
    carried = Carried(previous.value_kind, previous.class_names, previous.source, labels)
    if not previous.has_payloads:
        return carried
    everything = np.arange(n_old)
    same = known.copy()
    same[known] = previous.lengths[olds[known]] == records.lengths[known]
    payload_offsets, payload_lengths = previous.payloads(everything)
    offsets = _spread(payload_offsets, olds, same, np.zeros(len(records), np.int64))
    lengths = _spread(payload_lengths, olds, same, records.lengths.copy())
    if previous.value_kind == "datum":
        for number in np.flatnonzero(~same).tolist():
            datum = _read_datum(file, int(records.offsets[number]), int(records.lengths[number]))
            if datum is not None:
                offsets[number], lengths[number] = datum.payload_offset, datum.payload_length
                if labels is not None and not known[number] and datum.label is not None:
                    labels[number] = datum.label
    return replace(carried, payload_offsets=offsets, payload_lengths=lengths)


def _spread(
    old: NDArray[np.int64], olds: NDArray[np.int64], where: NDArray[np.bool_], into: NDArray[np.int64]
) -> NDArray[np.int64]:
    into[where] = old[olds[where]]
    return into


def _read_datum(file: DataFile, offset: int, length: int) -> Datum | None:
    try:
        return parse(file.read(offset, length))
    except FormatError:
        return None
