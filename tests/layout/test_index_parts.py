"""A hostile sidecar is refused by name: it never crashes, never takes more memory than its own bytes account for."""

import json
import tracemalloc
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lmdbio.errors import FormatError
from lmdbio.layout import sidecar
from lmdbio.layout.fingerprint import Fingerprint
from lmdbio.layout.index import Index
from lmdbio.layout.keys import Keys

N = 40
FINGERPRINT = Fingerprint(3, 1 << 20, 4096, 7, N, 255, "0" * 64, "1" * 64, "2" * 64)


def index(*, regular: bool) -> Index:
    """Return an index that stores every array there is, or runs, a pattern and constants instead."""
    rng = np.random.default_rng(0)
    lengths = np.full(N, 900) if regular else rng.integers(100, 900, N)
    return Index.make(
        fingerprint=FINGERPRINT,
        page_size=4096,
        keys=Keys.from_list([b"%08d" % i if regular else b"%d" % (i + 5) for i in range(N)]),
        key_order="bytes",
        offsets=(np.arange(N) * 8192 + (16 if regular else rng.integers(0, 999, N))).astype(np.uint64),
        lengths=lengths,
        layout_order=None if regular else rng.permutation(N),
        partitions=np.array([0, 3, N]),
        labels=rng.integers(0, 9, N),
        checksums=rng.integers(0, 1 << 63, N).astype(np.uint64),
        payload_offsets=np.full(N, 4),
        payload_lengths=lengths - 8,
        value_kind="datum",
        class_names=["a", "b"],
        source={"kind": "folder", "seed": 0},
    )


def changed(arrays: dict[str, NDArray[Any] | None], *, regular: bool = False, **fields: Any) -> bytes:
    """Return the bytes of a sidecar with other arrays (None: left out) and other metadata."""
    whole, text = sidecar.parse(np.frombuffer(index(regular=regular).to_bytes(), np.uint8), path="x")
    held = {name: array for name, array in {**whole, **arrays}.items() if array is not None}
    metadata = {**json.loads(text), **fields}
    metadata = {name: value for name, value in metadata.items() if value != "gone"}
    return sidecar.to_bytes(held, json.dumps(metadata, sort_keys=True, separators=(",", ":")))


def array(name: str, *, regular: bool = False) -> NDArray[Any]:
    return sidecar.parse(np.frombuffer(index(regular=regular).to_bytes(), np.uint8), path="x")[0][name].copy()


def put(name: str, place: Any, value: int) -> dict[str, NDArray[Any] | None]:
    held = array(name)
    held[place] = value
    return {name: held}


def test_what_is_changed_here_is_sound_as_it_stands() -> None:
    for regular in (False, True):
        found = Index.from_bytes(changed({}, regular=regular))
        assert found.to_bytes() == index(regular=regular).to_bytes()
        assert len(found) == N


BAD_ARRAYS: dict[str, dict[str, NDArray[Any] | None]] = {
    "no offsets": {"offset": None},
    "no lengths": {"length": None},
    "no keys": {"key_bytes": None},
    "no key bounds": {"key_offset": None},
    "payload lengths missing": {"payload_length": None},
    "payload offsets missing": {"payload_offset": None},
    "offsets signed": {"offset": array("offset").astype("<i8")},
    "offsets narrow": {"offset": array("offset").astype("<u4")},
    "labels unsigned": {"label": array("label").astype("<u8")},
    "offsets short": {"offset": array("offset")[:-1]},
    "lengths short": {"length": array("length")[:-1]},
    "lengths in rows": {"length": array("length").reshape(2, -1)},
    "checksums long": {"checksum": np.zeros(N + 1, "<u8")},
    "labels of no shape": {"label": np.array(5, "<i8")},
    "both forms of offsets": {"offset_runs": array("offset_runs", regular=True)},
    "offset beyond": put("offset", 3, 1 << 20),
    "offset wraps": put("offset", 3, (1 << 64) - 50),
    "length beyond": put("length", N - 1, (1 << 32) - 1),
    "payload beyond its value": put("payload_length", 3, 900),
    "payload wraps": {"payload_length": np.full(N, (1 << 32) - 1, "<u4")},
    "key bounds from one on": put("key_offset", 0, 1),
    "key bounds descend": put("key_offset", 5, 1 << 40),
    "key bounds below zero": put("key_offset", 5, -3),
    "key bounds end elsewhere": put("key_offset", -1, 5),
    "key bounds end below zero": put("key_offset", -1, -5),
    "key bounds end beyond all memory": put("key_offset", -1, 1 << 62),
    "bounds from one on": {"partition": np.array([1, N], "<i8")},
    "bounds end early": {"partition": np.array([0, N - 1], "<i8")},
    "bounds stand still": {"partition": np.array([0, 5, 5, N], "<i8")},
    "bounds descend": {"partition": np.array([0, 9, 5, N], "<i8")},
    "no bounds": {"partition": np.zeros(0, "<i8")},
    "bounds in rows": {"partition": np.array([[0, N]], "<i8")},
    "order with a record twice": put("layout_order", 3, int(array("layout_order")[4])),
    "order below zero": put("layout_order", 3, -1),
    "order beyond": put("layout_order", 3, N),
}


@pytest.mark.parametrize("arrays", BAD_ARRAYS.values(), ids=BAD_ARRAYS.keys())
def test_arrays_that_cannot_be_are_refused_by_name(arrays: dict[str, NDArray[Any] | None]) -> None:
    with pytest.raises(FormatError, match=r"^y.index: expected .*, found ") as error:
        Index.from_bytes(changed(arrays), path="y.index")
    assert len(str(error.value)) < 200


BAD_RUNS = {
    "of four columns": np.zeros((1, 4), "<u8"),
    "flat": np.array([16, N, 8192, 1, 0], "<u8"),
    "too few records": np.array([[16, N - 1, 8192, 1, 0]], "<u8"),
    "too many records": np.array([[16, N, 8192, 2, 0]], "<u8"),
    "beyond the file": np.array([[16, N, 1 << 15, 1, 0]], "<u8"),
    "a value beyond the file": np.array([[(1 << 20) - N, N, 1, 1, 0]], "<u8"),
    "none": np.zeros((0, 5), "<u8"),
}


@pytest.mark.parametrize("rows", BAD_RUNS.values(), ids=BAD_RUNS.keys())
def test_runs_that_cannot_be_are_refused_by_name(rows: NDArray[np.uint64]) -> None:
    with pytest.raises(FormatError, match=r"^y.index: expected .*, found "):
        Index.from_bytes(changed({"offset_runs": rows}, regular=True), path="y.index")


BAD_FIELDS: dict[str, dict[str, Any]] = {
    "no format": {"format": "gone"},
    "another format": {"format": "pt"},
    "version 0": {"version": 0},
    "version none": {"version": "gone"},
    "version text": {"version": "1"},
    "version true": {"version": True},
    "no fingerprint": {"fingerprint": "gone"},
    "file size text": {"fingerprint": {**FINGERPRINT.to_fields(), "file_size": "5"}},
    "file too small": {"fingerprint": {**FINGERPRINT.to_fields(), "file_size": 5000}},
    "file beyond any": {"fingerprint": {**FINGERPRINT.to_fields(), "file_size": (1 << 64) - 1}},
    "no number of records": {"n_records": "gone"},
    "another number of records": {"n_records": N + 1},
    "no records": {"n_records": 0},
    "fewer than none": {"n_records": -1},
    "ever so many": {"n_records": 1 << 62},
    "half a record": {"n_records": N + 0.5},
    "key order": {"key_order": "random"},
    "key order a list": {"key_order": ["bytes"]},
    "value kind": {"value_kind": "gone"},
    "class names": {"class_names": "ab"},
    "class numbers": {"class_names": [1, 2]},
    "source": {"source": [1]},
    "key pattern": {"key_pattern": {"kind": "decimal", "start": 0, "size": 1}},
}


@pytest.mark.parametrize("fields", BAD_FIELDS.values(), ids=BAD_FIELDS.keys())
def test_metadata_that_cannot_be_is_refused_by_name(fields: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match=r"^y.index: expected .*, found "):
        Index.from_bytes(changed({}, **fields), path="y.index")


@pytest.mark.parametrize("text", ["", "{", "[]", "5", "[" * 100_000, "9" * 5000])
def test_metadata_that_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match=r"^y.index: expected metadata"):
        Index.from_bytes(sidecar.to_bytes({}, text), path="y.index")


@pytest.mark.parametrize("version", [2, 99, 10**30])
def test_an_unknown_version_is_refused_by_number(version: int) -> None:
    with pytest.raises(
        FormatError, match=f"expected an index of version 1 or older, found version {str(version)[:20]}"
    ):
        Index.from_bytes(changed({}, version=version), path="y.index")


def test_arrays_and_fields_of_later_versions_are_passed_over() -> None:
    found = Index.from_bytes(changed({"later": np.zeros(5, "<u8")}, later={"a": 1}))
    assert index(regular=False).lengths.tolist() == found.lengths.tolist()


def test_a_claim_of_all_records_there_could_be_takes_no_memory() -> None:
    n = 1 << 58
    pattern = {"kind": "integer", "start": 0, "size": 8, "order": "big"}
    arrays: dict[str, NDArray[Any] | None] = dict.fromkeys(["label", "checksum", "partition"])
    arrays["offset_runs"] = np.array([[16, n, 1, 1, 0]], "<u8")
    fingerprint = {**FINGERPRINT.to_fields(), "file_size": 1 << 60}
    content = changed(arrays, regular=True, n_records=n, fingerprint=fingerprint, key_pattern=pattern)
    tracemalloc.start()
    assert len(Index.from_bytes(content)) == n
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("regular", [False, True])
def test_a_sidecar_with_changed_bytes_is_read_or_refused_and_nothing_else(regular: bool) -> None:
    whole = np.frombuffer(index(regular=regular).to_bytes(), np.uint8)
    records = np.arange(N)
    rng = np.random.default_rng(1)
    n_refused = 0
    tracemalloc.start()
    for number in range(1500):
        content = whole.copy()
        header_end = 8 + int.from_bytes(content[:8].tobytes(), "little")
        region = [(0, 8), (8, header_end), (header_end, len(content)), (0, len(content))][number % 4]
        places = rng.integers(*region, rng.integers(1, 4))
        content[places] = rng.choice([0, 0xFF, 0x30, 0x39, 0x80, 1 + number % 255], len(places))
        if number % 10 == 0:
            content = content[: rng.integers(0, len(content))]
        try:
            found = Index.from_bytes(content, path="y.index")
        except FormatError as error:
            n_refused += 1
            assert str(error).startswith("y.index: expected ")
            assert "\n" not in str(error)
            continue
        offsets, lengths = found.extents(records[: len(found)])
        assert (offsets + lengths.astype(np.uint64) <= found.fingerprint.file_size).all()
        within, sizes = found.payloads(records[: len(found)])
        assert (within + sizes <= lengths).all()
        assert [found.keys[i] for i in range(min(N, len(found)))]
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()
    assert n_refused > 500
