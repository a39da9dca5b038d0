"""The sidecar read by someone else: plain Python, by docs/format.md and the safetensors library alone."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

from lmdbio.layout import build_index
from lmdbio.layout.writer import write_database
from tests.layout.databases import make_database, numbered_records, shuffled, stock_records

Documented = tuple[dict[str, Any], dict[str, Any]]


def read_documented(path: Path) -> Documented:
    with safe_open(path, "numpy") as file:
        metadata = json.loads(file.metadata()["lmdbio"])
        return {name: file.get_tensor(name).tolist() for name in file.keys()}, metadata  # noqa: SIM118  # no mapping


def offsets(arrays: dict[str, Any]) -> list[int]:
    if "offset" in arrays:
        return list(arrays["offset"])
    return [
        (first + i * step + j * stride) % 2**64
        for first, count, stride, repeats, step in arrays["offset_runs"]
        for i in range(repeats)
        for j in range(count)
    ]


def keys(arrays: dict[str, Any], metadata: dict[str, Any]) -> list[bytes]:
    n, pattern = metadata["n_records"], metadata.get("key_pattern")
    if pattern is None:
        bounds = arrays["key_offset"]
        return [bytes(arrays["key_bytes"][bounds[i] : bounds[i + 1]]) for i in range(n)]
    numbers = range(pattern["start"], pattern["start"] + n)
    if pattern["kind"] == "decimal":
        return [str(number).zfill(pattern["size"]).encode() for number in numbers]
    return [number.to_bytes(pattern["size"], pattern["order"]) for number in numbers]


def partitions(arrays: dict[str, Any], metadata: dict[str, Any]) -> list[int]:
    n = metadata["n_records"]
    if "partition" in arrays:
        return list(arrays["partition"])
    held = offsets(arrays)
    stretches = [(held[record] - 1) // 16777216 for record in arrays.get("layout_order", range(n))]
    return [0, *(i for i in range(1, n) if stretches[i] != stretches[i - 1]), n][: n + 1]


def fingerprint_problems(content: bytes, found: dict[str, Any]) -> list[str]:
    size = found["page_size"]

    def hashed(pages: list[int]) -> str:
        return hashlib.sha256(b"".join(content[page * size : (page + 1) * size] for page in pages)).hexdigest()

    n_pages = min(found["last_page"] + 1, found["file_size"] // size)
    m = n_pages - 2
    sampled = list(range(2, n_pages)) if m <= 16 else [2 + k * (m - 1) // 15 for k in range(16)]
    slot = (found["txnid"] & 1) * size
    expected = {
        "file_size": len(content),
        "metas": hashed([0, 1]),
        "root_page": hashed([] if found["root"] is None else [found["root"]]),
        "samples": hashed(sampled),
        "txnid": int.from_bytes(content[slot + 144 : slot + 152], "little"),
        "entries": int.from_bytes(content[slot + 120 : slot + 128], "little"),
        "last_page": int.from_bytes(content[slot + 136 : slot + 144], "little"),
    }
    return [name for name, value in expected.items() if found[name] != value]


DATABASES: dict[str, Any] = {
    "mixed, shuffled": lambda path: make_database(path, shuffled(numbered_records(300, [0, 50, 3000, 20_000]))),
    "equal, appended": lambda path: make_database(
        path, ((b"%d" % i, bytes(3072)) for i in range(1000, 3000)), append=True
    ),
    "equal, inline": lambda path: make_database(
        path, ((i.to_bytes(8, "big"), bytes(80)) for i in range(3000)), append=True
    ),
    "large": lambda path: make_database(path, [(b"key %d" % i, bytes(9_000_000 + i)) for i in range(7)]),
    "empty": lambda path: make_database(path, []),
}


@pytest.mark.parametrize("make", DATABASES.values(), ids=DATABASES.keys())
def test_what_is_documented_reads_the_sidecar(tmp_path: Path, make: Any) -> None:
    path = make(tmp_path / "a.lmdb")
    index = build_index(path)
    index.save(tmp_path / "index")
    arrays, metadata = read_documented(tmp_path / "index")
    content = path.read_bytes()
    lengths = arrays["length"] * (metadata["n_records"] if len(arrays["length"]) == 1 else 1)
    values = [content[start : start + length] for start, length in zip(offsets(arrays), lengths, strict=True)]
    assert stock_records(path) == list(zip(keys(arrays, metadata), values, strict=True))
    assert index.partitions.tolist() == partitions(arrays, metadata)
    assert fingerprint_problems(content, metadata["fingerprint"]) == []


def test_what_is_documented_reads_stored_partitions(tmp_path: Path) -> None:
    path = tmp_path / "data.mdb"
    write_database(path, numbered_records(400, [10, 3000]), partition_size=1 << 18, align=4096)
    index = build_index(path, partition_size=1 << 18)
    index.save(tmp_path / "index")
    arrays, metadata = read_documented(tmp_path / "index")
    assert index.partitions.tolist() == partitions(arrays, metadata) == arrays["partition"]
    assert fingerprint_problems(path.read_bytes(), metadata["fingerprint"]) == []


def test_metadata_is_canonical_json_in_ascii(tmp_path: Path) -> None:
    path = make_database(tmp_path / "a.lmdb", numbered_records(20, [10]))
    build_index(path).save(tmp_path / "index")
    with safe_open(tmp_path / "index", "numpy") as file:
        text = file.metadata()["lmdbio"]
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
