"""An index in the one form that it is stored in: arrays and canonical JSON. Pure: no I/O.

The writer of a database and the one who indexes it afterwards both come through here, so that they agree.
"""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.extents import Extents, Runs, pack_sizes
from lmdbio.layout.fingerprint import Fingerprint
from lmdbio.layout.index_parts import FORMAT, VERSION, ValueKind
from lmdbio.layout.key_pattern import find_pattern, pattern_fields
from lmdbio.layout.keys import Keys
from lmdbio.layout.partition_bounds import PARTITION_SIZE, cut_partitions
from lmdbio.layout.pieces import counts_up
from lmdbio.layout.sidecar import Arrays
from lmdbio.layout.sorted_keys import KeyOrder


def pack(
    *,
    fingerprint: Fingerprint,
    keys: Keys,
    key_order: KeyOrder,
    offsets: NDArray[np.uint64],
    lengths: NDArray[np.integer[Any]],
    layout_order: NDArray[np.int64] | None,
    partitions: NDArray[np.int64] | None,
    labels: NDArray[np.int64] | None,
    checksums: NDArray[np.uint64] | None,
    payload_offsets: NDArray[np.integer[Any]] | None,
    payload_lengths: NDArray[np.integer[Any]] | None,
    value_kind: ValueKind,
    class_names: list[str] | None,
    source: dict[str, Any] | None,
) -> tuple[Arrays, str]:
    """Return the arrays and the metadata of a sidecar; see :meth:`lmdbio.layout.index.Index.make`.

    Raises
    ------
    ValueError
        If the arrays are not of one number of records.
    """
    n = len(keys)
    columns = {
        "offsets": offsets,
        "lengths": lengths,
        "layout_order": layout_order,
        "labels": labels,
        "checksums": checksums,
        "payload_offsets": payload_offsets,
        "payload_lengths": payload_lengths,
    }
    for name, column in columns.items():
        if column is not None and column.shape != (n,):
            raise ValueError(f"{name}: expected shape ({n},) as there are {n} keys, found {column.shape}")
    extents = Extents.pack(offsets, lengths)
    if layout_order is not None and counts_up(layout_order, n):
        layout_order = None
    arrays = _extent_arrays(extents)
    arrays |= _payload_arrays(payload_offsets, payload_lengths, lengths)
    pattern = find_pattern(keys)
    if pattern is None:
        arrays |= {"key_bytes": keys.blob, "key_offset": keys.offsets.astype("<i8", copy=False)}
    optional = {"label": (labels, "<i8"), "checksum": (checksums, "<u8"), "layout_order": (layout_order, "<i8")}
    arrays |= {
        name: column.astype(dtype, copy=False) for name, (column, dtype) in optional.items() if column is not None
    }
    if partitions is not None:
        bounds = np.unique(partitions).astype("<i8")
        if not np.array_equal(bounds, cut_partitions(extents, layout_order, partition_size=PARTITION_SIZE)):
            arrays["partition"] = bounds
    known = {
        "key_pattern": None if pattern is None else pattern_fields(pattern),
        "class_names": class_names,
        "source": source,
    }
    metadata = {
        "format": FORMAT,
        "version": VERSION,
        "n_records": n,
        "fingerprint": fingerprint.to_fields(),
        "key_order": key_order,
        "value_kind": value_kind,
        **{name: value for name, value in known.items() if value is not None},
    }
    return arrays, json.dumps(metadata, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _extent_arrays(extents: Extents) -> Arrays:
    if isinstance(extents.offsets, Runs):
        return {"offset_runs": extents.offsets.rows, "length": extents.lengths}
    return {"offset": extents.offsets, "length": extents.lengths}


def _payload_arrays(
    offsets: NDArray[np.integer[Any]] | None,
    lengths: NDArray[np.integer[Any]] | None,
    value_lengths: NDArray[np.integer[Any]],
) -> Arrays:
    """Return the payloads' arrays, none where every payload is its whole value."""
    if offsets is None and lengths is None:
        return {}
    if offsets is None or lengths is None:
        raise ValueError("expected payload_offsets and payload_lengths, found one of them")
    if not np.any(offsets) and np.array_equal(lengths, value_lengths):
        return {}
    return {"payload_offset": pack_sizes(offsets), "payload_length": pack_sizes(lengths)}
