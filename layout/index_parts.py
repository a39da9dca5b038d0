"""What a sidecar says, taken apart and checked: nothing in it is trusted before it is used. Pure: no I/O."""

import json
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import NDArray

from lmdbio.errors import FormatError, NewerFormatError
from lmdbio.layout.extents import RUN_COLUMNS, Extents, Runs
from lmdbio.layout.fingerprint import Fingerprint
from lmdbio.layout.key_pattern import pattern_from_fields
from lmdbio.layout.keys import Keys
from lmdbio.layout.pieces import pieces
from lmdbio.layout.sidecar import Arrays
from lmdbio.layout.sorted_keys import KEY_ORDERS, KeyOrder, SortedKeys

FORMAT: Final = "lmdbio-index"
VERSION: Final = 1
"""Version that is written; every older one is read."""
ValueKind: TypeAlias = Literal["raw", "datum"]

_DTYPES: Final[dict[str, tuple[str, ...]]] = {
    "offset": ("<u8",),
    "offset_runs": ("<u8",),
    "length": ("<u4", "<u8"),
    "payload_offset": ("<u4",),
    "payload_length": ("<u4",),
    "label": ("<i8",),
    "checksum": ("<u8",),
    "key_bytes": ("|u1",),
    "key_offset": ("<i8",),
    "partition": ("<i8",),
    "layout_order": ("<i8",),
}


@dataclass(frozen=True, slots=True)
class IndexParts:
    """The checked content of a sidecar; arrays are as stored."""

    fingerprint: Fingerprint
    n_records: int
    value_kind: ValueKind
    class_names: list[str] | None
    source: dict[str, Any] | None
    keys: SortedKeys
    extents: Extents
    payload: tuple[NDArray[np.uint32], NDArray[np.uint32]] | None
    """Offsets within the value and lengths of the payloads, each of shape (n_records,) or (1,); None: the value."""
    labels: NDArray[np.int64] | None
    checksums: NDArray[np.uint64] | None
    partitions: NDArray[np.int64] | None
    layout_order: NDArray[np.int64] | None


def take_apart(arrays: Arrays, text: str, *, path: str) -> IndexParts:
    """Return the parts of a sidecar.

    Raises
    ------
    FormatError
        If anything is missing, of another kind, or beyond the data file that the fingerprint speaks of.
    """
    try:
        metadata = _metadata(text)
        _check_version(metadata.get("version"), path)
        return _take_apart(arrays, metadata)
    except FormatError:
        raise
    except ValueError as exc:
        raise FormatError(f"{path}: {exc}") from exc


def _metadata(text: str) -> dict[str, Any]:
    try:
        metadata = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise ValueError(f"expected metadata in JSON, found other text ({exc!s:.80})") from exc
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise ValueError(f"expected metadata of the format {FORMAT}, found {text[:40]!r}")
    return metadata


def _check_version(version: Any, path: str) -> None:
    if type(version) is not int or not 1 <= version <= VERSION:
        raise NewerFormatError(
            f"{path}: expected an index of version {VERSION} or older, found version {version!r:.20}: "
            "upgrade lmdbio, or remove this index and build it again with lmdbio-index"
        )


def _take_apart(arrays: Arrays, metadata: dict[str, Any]) -> IndexParts:
    for name, dtypes in _DTYPES.items():
        if name in arrays and arrays[name].dtype.str not in dtypes:
            raise ValueError(f"expected array {name} of type {' or '.join(dtypes)}, found {arrays[name].dtype.str}")
    fingerprint = Fingerprint.from_fields(metadata.get("fingerprint"))
    n = metadata.get("n_records")
    if type(n) is not int or not 0 <= n <= fingerprint.file_size:
        raise ValueError(f"expected n_records of 0 to {fingerprint.file_size}, found {n!r:.40}")
    extents = _extents(arrays, n, fingerprint.file_size)
    return IndexParts(
        fingerprint=fingerprint,
        n_records=n,
        value_kind=cast(ValueKind, _one_of(metadata, "value_kind", get_args(ValueKind))),
        class_names=_class_names(metadata.get("class_names")),
        source=_source(metadata.get("source")),
        keys=_keys(arrays, metadata, n),
        extents=extents,
        payload=_payload(arrays, extents),
        labels=_of_records(arrays, "label", n),
        checksums=_of_records(arrays, "checksum", n),
        partitions=_partitions(arrays.get("partition"), n),
        layout_order=_layout_order(arrays, n),
    )


def _one_of(metadata: dict[str, Any], name: str, allowed: tuple[str, ...]) -> str:
    found = metadata.get(name)
    if found not in allowed:
        raise ValueError(f"expected {name} {' or '.join(allowed)}, found {found!r:.40}")
    return str(found)


def _class_names(found: Any) -> list[str] | None:
    if found is None or (isinstance(found, list) and all(isinstance(name, str) for name in found)):
        return found
    raise ValueError(f"expected class_names as a list of strings, found {found!r:.40}")


def _source(found: Any) -> dict[str, Any] | None:
    if found is None or isinstance(found, dict):
        return found
    raise ValueError(f"expected source as named fields, found {found!r:.40}")


def _shape(arrays: Arrays, name: str, *shapes: tuple[int, ...]) -> NDArray[Any]:
    if name not in arrays:
        raise ValueError(f"expected array {name}, found none")
    if arrays[name].shape not in shapes:
        expected = " or ".join(map(str, dict.fromkeys(shapes)))
        raise ValueError(f"expected array {name} of shape {expected}, found {arrays[name].shape}")
    return arrays[name]


def _of_records(arrays: Arrays, name: str, n: int) -> NDArray[Any] | None:
    return _shape(arrays, name, (n,)) if name in arrays else None


def _extents(arrays: Arrays, n: int, file_size: int) -> Extents:
    lengths = _shape(arrays, "length", (n,), (min(n, 1),))
    held: Runs | NDArray[np.uint64]
    if "offset_runs" in arrays:
        rows = arrays["offset_runs"]
        if "offset" in arrays:
            raise ValueError("expected one of offset and offset_runs, found both")
        if rows.ndim != 2 or rows.shape[1] != RUN_COLUMNS:
            raise ValueError(f"expected array offset_runs of {RUN_COLUMNS} columns, found shape {rows.shape}")
        held = Runs(rows)
    else:
        held = _shape(arrays, "offset", (n,))
    extents = Extents(held, lengths)
    wrong = extents.problem(n, file_size)
    if wrong is not None:
        raise ValueError(wrong)
    return extents


def _payload(arrays: Arrays, extents: Extents) -> tuple[NDArray[np.uint32], NDArray[np.uint32]] | None:
    if "payload_offset" not in arrays and "payload_length" not in arrays:
        return None
    n = len(extents)
    offsets = _shape(arrays, "payload_offset", (n,), (min(n, 1),))
    lengths = _shape(arrays, "payload_length", (n,), (min(n, 1),))
    columns = (offsets, lengths, extents.lengths)
    for piece in pieces(max(map(len, columns))):
        # Each is one number a record or one for all, and numpy spreads the latter.
        starts, sizes, limits = (held if len(held) == 1 else held[piece] for held in columns)
        if np.any(starts.astype(np.uint64) + sizes > limits):
            raise ValueError("expected payloads within their values, found one outside")
    return offsets, lengths


def _keys(arrays: Arrays, metadata: dict[str, Any], n: int) -> SortedKeys:
    order = cast(KeyOrder, _one_of(metadata, "key_order", KEY_ORDERS))
    if metadata.get("key_pattern") is not None:
        return SortedKeys(pattern_from_fields(metadata["key_pattern"], n), order=order)
    bounds = _shape(arrays, "key_offset", (n + 1,))
    blob = _shape(arrays, "key_bytes", (int(bounds[-1]),))
    if bounds[0] != 0 or np.any(bounds[1:] < bounds[:-1]):
        raise ValueError("expected key_offset to ascend from 0, found it otherwise")
    return SortedKeys(Keys(blob, bounds), order=order)


def _partitions(bounds: NDArray[np.int64] | None, n: int) -> NDArray[np.int64] | None:
    if bounds is None:
        return None
    if bounds.ndim != 1 or len(bounds) == 0 or bounds[0] != 0 or bounds[-1] != n or np.any(bounds[1:] <= bounds[:-1]):
        raise ValueError(f"expected partition to ascend from 0 to {n}, found it otherwise")
    return bounds


def _layout_order(arrays: Arrays, n: int) -> NDArray[np.int64] | None:
    order = _of_records(arrays, "layout_order", n)
    if order is None:
        return None
    seen = np.zeros(n, np.bool_)
    if n and int(order.min()) >= 0 and int(order.max()) < n:
        seen[order] = True
    if not seen.all():
        raise ValueError("expected layout_order to hold each record number once, found it otherwise")
    return order
