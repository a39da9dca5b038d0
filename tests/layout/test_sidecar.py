"""The container: what the safetensors library writes is read, and nothing else is believed."""

import json
import os
import resource
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors import safe_open

from lmdbio.errors import FormatError, MissingIndexError, TargetError
from lmdbio.layout import sidecar

DTYPES = [np.uint8, np.uint32, np.uint64, np.int64]


@st.composite
def arrays(draw: st.DrawFn) -> sidecar.Arrays:
    names = draw(st.lists(st.text(min_size=1, max_size=8).filter(lambda name: name != "__metadata__"), unique=True))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    shapes = st.lists(st.integers(0, 4), min_size=1, max_size=2).map(tuple)
    return {
        name: rng.integers(0, 200, draw(shapes)).astype(draw(st.sampled_from(DTYPES)))
        for name in names[:5]  # as many as show every dtype beside another
    }


def held(arrays: sidecar.Arrays, text: str = "{}") -> NDArray[np.uint8]:
    return np.frombuffer(sidecar.to_bytes(arrays, text), np.uint8)


def with_header(header: Any, data: bytes = b"") -> NDArray[np.uint8]:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return np.frombuffer(len(text).to_bytes(8, "little") + text + data, np.uint8)


@given(arrays(), st.text(max_size=20))
def test_arrays_and_text_come_back(given_arrays: sidecar.Arrays, text: str) -> None:
    found, found_text = sidecar.parse(held(given_arrays, text), path="x")
    assert text == found_text
    assert given_arrays.keys() == found.keys()
    for name, array in given_arrays.items():
        assert array.dtype == found[name].dtype
        assert np.array_equal(array, found[name])
        assert not found[name].flags.writeable


@given(arrays())
def test_the_library_reads_what_is_written(tmp_path: Path, given_arrays: sidecar.Arrays) -> None:
    sidecar.write(tmp_path / "x.index", given_arrays, "text")
    with safe_open(tmp_path / "x.index", "numpy") as file:
        assert file.metadata() == {"lmdbio": "text"}
        assert given_arrays.keys() == set(file.keys())
        for name, array in given_arrays.items():
            assert np.array_equal(array, file.get_tensor(name))
    assert held(given_arrays, "text").tobytes() == (tmp_path / "x.index").read_bytes()
    assert held(given_arrays, "text").tobytes() == sidecar.read(tmp_path / "x.index").tobytes()


def test_writing_replaces_what_stood_there_and_leaves_nothing_else(tmp_path: Path) -> None:
    for number in range(2):
        sidecar.write(tmp_path / "x.index", {"a": np.full(3, number, np.uint8)}, "{}")
    assert os.listdir(tmp_path) == ["x.index"]
    found, _ = sidecar.parse(sidecar.read(tmp_path / "x.index"), path="x")
    assert found["a"].tolist() == [1, 1, 1]


def test_others_may_read_it_as_far_as_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        sidecar.write(tmp_path / "x.index", {}, "{}")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x.index").stat().st_mode) == 0o640


def test_a_name_that_is_no_text_is_written(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.index")
    sidecar.write(path, {}, "{}")
    assert len(sidecar.read(path)) > 8


def test_a_missing_directory_is_one_clear_error_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"none/x.index: cannot write the index: no such file") as error:
        sidecar.write(tmp_path / "none" / "x.index", {}, "{}")
    assert "\n" not in str(error.value)
    assert os.listdir(tmp_path) == []


def test_a_write_that_the_system_stops_is_one_clear_error_and_leaves_nothing(tmp_path: Path) -> None:
    sidecar.write(tmp_path / "x.index", {"a": np.zeros(3, np.uint8)}, "old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(TargetError, match=r"x.index: cannot write the index: file too large: mend") as error:
            sidecar.write(tmp_path / "x.index", {"a": np.zeros(1 << 20, np.uint8)}, "new")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "\n" not in str(error.value)
    assert os.listdir(tmp_path) == ["x.index"]
    assert sidecar.parse(sidecar.read(tmp_path / "x.index"), path="x")[1] == "old"


def test_a_missing_sidecar_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingIndexError, match=r"x.index: expected an index, found none"):
        sidecar.read(tmp_path / "x.index")


ENTRY = {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}
BAD = {
    "nothing": np.zeros(0, np.uint8),
    "seven bytes": np.zeros(7, np.uint8),
    "an LMDB meta page": np.zeros(4096, np.uint8),
    "header beyond the end": np.frombuffer((100).to_bytes(8, "little") + b"{}", np.uint8),
    "header of all memory": np.frombuffer(b"\xff" * 16, np.uint8),
    "no JSON": with_header(b"{x}"),
    "no UTF-8": with_header(b'{"\xff": 1}'),
    "deep JSON": with_header(b"[" * 100_000),
    "long number": with_header(b"9" * 10_000),
    "a list": with_header([]),
    "a name twice": with_header(b'{"a": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}, "a": 5}'),
    "no metadata": with_header({"a": ENTRY}, b"1234"),
    "metadata of others": with_header({"__metadata__": {"format": "pt"}}),
    "metadata no text": with_header({"__metadata__": {"lmdbio": 5}}),
    "metadata a list": with_header({"__metadata__": ["lmdbio"]}),
    "data cut short": with_header({"a": ENTRY}, b"123"),
    "data too long": with_header({"a": ENTRY}, b"12345"),
    "gap": with_header({"a": ENTRY, "b": {**ENTRY, "data_offsets": [5, 9]}}, b"123456789"),
    "overlap": with_header({"a": ENTRY, "b": {**ENTRY, "data_offsets": [3, 7]}}, b"1234567"),
    "backwards": with_header({"a": {**ENTRY, "data_offsets": [4, 0]}}, b"1234"),
    "below zero": with_header({"a": {**ENTRY, "data_offsets": [-4, 0]}}, b"1234"),
    "overflow": with_header({"a": {**ENTRY, "data_offsets": [0, (1 << 64) + 4]}}, b"1234"),
    "no whole numbers": with_header({"a": {**ENTRY, "data_offsets": [0, 4.0]}}, b"1234"),
    "true": with_header({"a": {**ENTRY, "data_offsets": [False, 4]}}, b"1234"),
    "three offsets": with_header({"a": {**ENTRY, "data_offsets": [0, 2, 4]}}, b"1234"),
    "shape of other size": with_header({"a": {**ENTRY, "shape": [5]}}, b"1234"),
    "shape whose size wraps": with_header({"a": {**ENTRY, "shape": [(1 << 64) + 4]}}, b"1234"),
    "shape no list": with_header({"a": {**ENTRY, "shape": 4}}, b"1234"),
    "empty shape of all memory": with_header(
        {"__metadata__": {"lmdbio": ""}, "a": {**ENTRY, "shape": [0, 1 << 70], "data_offsets": [0, 0]}}
    ),
    "many dimensions": with_header({"a": {**ENTRY, "shape": [1] * 99 + [4]}}, b"1234"),
    "entry no object": with_header({"a": [1, 2]}, b"1234"),
    "entry without dtype": with_header({"a": {"shape": [4], "data_offsets": [0, 4]}}, b"1234"),
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD.keys())
def test_a_file_that_contradicts_itself_is_refused_by_name(tmp_path: Path, content: NDArray[np.uint8]) -> None:
    with pytest.raises(FormatError, match=r"^x.index: expected .*, found ") as error:
        sidecar.parse(content, path="x.index")
    assert len(str(error.value)) < 400
    assert "\n" not in str(error.value)
    (tmp_path / "y.index").write_bytes(content.tobytes())
    with pytest.raises(FormatError):
        sidecar.parse(sidecar.read(tmp_path / "y.index"), path="y.index")


def test_arrays_of_unknown_types_are_passed_over() -> None:
    header = {"__metadata__": {"lmdbio": "text"}, "a": ENTRY, "b": {**ENTRY, "dtype": "F99", "data_offsets": [4, 6]}}
    found, text = sidecar.parse(with_header(header, b"123456"), path="x")
    assert (list(found), text) == (["a"], "text")


def test_arrays_that_stand_anywhere_are_read() -> None:
    wide = {"dtype": "I64", "shape": [1], "data_offsets": [4, 12]}
    header = {"__metadata__": {"lmdbio": ""}, "a": ENTRY, "b": wide}
    for pad in (b"", b" ", b"  ", b"   "):
        content = with_header(json.dumps(header).encode() + pad, b"1234" + (5).to_bytes(8, "little"))
        found, _ = sidecar.parse(content, path="x")
        assert found["b"].tolist() == [5]


def test_a_huge_sparse_tail_is_a_format_error(tmp_path: Path) -> None:
    size = 1 << 42
    header = json.dumps({"a": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    path = tmp_path / "data.mdb.index"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    os.truncate(path, 8 + len(header) + size)
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 41, before[1]))  # where the system would promise any memory
    try:
        with pytest.raises(FormatError, match="expected an index that fits memory"):
            sidecar.read(path)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
