"""Indexes made from stock databases: bytes at the extents equal ``get``, and tree pages alone are read."""

import struct
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from lmdbio.errors import CorruptDatabaseError, FormatError, StaleIndexError
from lmdbio.layout import Index, build, build_index, sidecar
from lmdbio.layout.file import DataFile
from lmdbio.layout.meta import Meta
from lmdbio.layout.tree import TreeRecords, walk
from tests.layout.databases import Record, make_database, numbered_records, shuffled, stock_records

SIZES = [0, 1, 100, 2021, 2022, 4080, 4081, 30_000]


def indexed_records(data_file: Path, index: Index) -> list[Record]:
    content = data_file.read_bytes()
    extents = zip(index.keys, index.offsets.tolist(), index.lengths.tolist(), strict=True)
    return [(key, content[offset : offset + length]) for key, offset, length in extents]


def integer_records(n: int) -> list[Record]:
    return [(struct.pack("<Q", number), value) for number, (_, value) in enumerate(numbered_records(n, SIZES))]


KINDS: dict[str, tuple[list[Record], dict[str, Any]]] = {
    "append": (numbered_records(600, SIZES), {"append": True}),
    "random order": (shuffled(numbered_records(600, SIZES)), {}),
    "many commits": (shuffled(numbered_records(300, SIZES)), {"commit_every": 7}),
    "deletions": (numbered_records(600, SIZES), {"delete": [b"%08d" % i for i in range(0, 600, 3)]}),
    "8-byte integers": (integer_records(600), {"integerkey": True}),
    "keys from their end": (numbered_records(600, SIZES), {"reverse_key": True}),
    "nothing": ([], {}),
    "one record": ([(b"k", b"v" * 9000)], {}),
}


@pytest.mark.parametrize("records,options", KINDS.values(), ids=KINDS.keys())
def test_bytes_at_the_extents_are_the_stock_values(
    tmp_path: Path, records: list[Record], options: dict[str, Any]
) -> None:
    path = make_database(tmp_path / "a.lmdb", records, **options)
    index = build_index(path, checksum=True)
    expected = stock_records(path)
    assert expected == indexed_records(path, index)
    assert [xxh3_64_intdigest(value) for _, value in expected] == index.checksums.tolist()  # type: ignore[union-attr]
    assert list(range(len(expected))) == [index.keys.find(key) for key, _ in expected]
    assert index.to_bytes() == build_index(path, checksum=True).to_bytes()


@given(
    st.dictionaries(st.binary(min_size=1, max_size=511), st.integers(0, 9000), max_size=40), st.randoms(), st.booleans()
)
def test_any_keys_and_sizes_are_indexed(
    tmp_path_factory: pytest.TempPathFactory, sizes: dict[bytes, int], random: Any, in_pieces: bool
) -> None:
    records = [(key, random.randbytes(size)) for key, size in sizes.items()]
    path = make_database(tmp_path_factory.mktemp("any") / "a.lmdb", records, commit_every=3 if in_pieces else None)
    assert stock_records(path) == indexed_records(path, build_index(path))


@pytest.mark.parametrize("n,size,most", [(6000, 3072, 0.015), (700, 110_000, 0.003)])
def test_tree_pages_alone_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n: int, size: int, most: float
) -> None:
    path = make_database(tmp_path / "a.lmdb", ((b"%08d" % i, bytes(size)) for i in range(n)), append=True)
    n_bytes = 0
    read_into = DataFile.read_into

    def counted(self: DataFile, offset: int, buffer: memoryview) -> None:
        nonlocal n_bytes
        n_bytes += buffer.nbytes
        read_into(self, offset, buffer)

    monkeypatch.setattr(DataFile, "read_into", counted)
    assert len(build_index(path)) == n
    assert n_bytes < most * path.stat().st_size


@pytest.mark.parametrize("size", [100, 3072])
def test_equal_values_that_were_appended_are_runs_of_runs(tmp_path: Path, size: int) -> None:
    path = make_database(tmp_path / "a.lmdb", ((b"%08d" % i, bytes(size)) for i in range(20_000)), append=True)
    index = build_index(path)
    content = index.to_bytes()
    assert len(content) < 2048
    assert np.array_equal(index.offsets, walked(path).offsets)


def walked(path: Path) -> TreeRecords:
    from lmdbio.layout.meta import read_meta

    with DataFile(path) as file:
        return walk(file, read_meta(file))


def test_partitions_are_cut_where_they_are_asked_for(tmp_path: Path) -> None:
    path = make_database(tmp_path / "a.lmdb", numbered_records(300, [100, 9000]))
    index = build_index(path, partition_size=1 << 18)
    order = np.arange(300) if index.layout_order is None else index.layout_order
    stretches = index.offsets[order] // np.uint64(1 << 18)
    assert index.partitions.tolist() == [0, *(np.flatnonzero(np.diff(stretches)) + 1), 300]
    assert build_index(path).partitions.tolist() == [0, 300]


def test_partitions_and_checksums_of_this_very_state_are_kept(tmp_path: Path) -> None:
    path = make_database(tmp_path / "a.lmdb", numbered_records(300, [100, 9000]))
    before = build_index(path, partition_size=1 << 18, checksum=True)
    assert before.to_bytes() == build_index(path, previous=before).to_bytes()
    assert build_index(path, previous=before, partition_size=16 << 20).partitions.tolist() == [0, 300]
    with lmdb.open(str(path.parent)) as env, env.begin(write=True) as txn:
        txn.put(b"00000007", b"new")
    after = build_index(path, previous=before)
    assert after.checksums is None
    assert after.partitions.tolist() == [0, 300]


def test_progress_counts_records_and_bytes_up_to_all(tmp_path: Path) -> None:
    path = make_database(tmp_path / "a.lmdb", numbered_records(100, [5_000_000, 10], seed=3)[:20])
    calls: list[tuple[int, int]] = []
    index = build_index(path, checksum=True, progress=lambda *done: calls.append(done))
    assert calls == sorted(calls)
    assert len(calls) > 1
    assert calls[-1] == (20, int(index.lengths.sum()))


def test_values_are_read_in_pieces_of_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_database(tmp_path / "a.lmdb", shuffled(numbered_records(100, [10, 9000])))
    whole = build_index(path, checksum=True).to_bytes()
    monkeypatch.setattr(build, "PIECE", 7)
    assert whole == build_index(path, checksum=True).to_bytes()


def test_a_change_meanwhile_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_database(tmp_path / "a.lmdb", numbered_records(100, [10, 9000]))

    def walk_and_change(file: DataFile, meta: Meta) -> TreeRecords:
        records = walk(file, meta)
        with lmdb.open(str(path.parent)) as env, env.begin(write=True) as txn:
            txn.put(b"new", b"")
        return records

    monkeypatch.setattr(build, "walk", walk_and_change)
    with pytest.raises(StaleIndexError, match=r"data.mdb: expected no change while it was indexed, found transaction"):
        build_index(path)


def test_named_databases_are_refused_by_name(tmp_path: Path) -> None:
    path = make_database(tmp_path / "a.lmdb", numbered_records(10, [10]), name=b"train")
    with pytest.raises(FormatError, match="'train': named ones are not indexed yet"):
        build_index(path, "train")
    with pytest.raises(FormatError, match="named"):
        build_index(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"hello" * 100)
    with pytest.raises(FormatError, match="x: expected"):
        build_index(tmp_path / "x")
    path = make_database(tmp_path / "a.lmdb", numbered_records(100, [10, 9000]))
    path.write_bytes(path.read_bytes()[:50_000])
    with pytest.raises(CorruptDatabaseError):
        build_index(path)


def test_nothing_is_written(tmp_path: Path) -> None:
    path = make_database(tmp_path / "a.lmdb", numbered_records(100, [10, 9000]))
    before = sorted(path.parent.iterdir())
    build_index(path, checksum=True)
    assert before == sorted(path.parent.iterdir())


def test_the_container_holds_what_is_documented_and_nothing_else(tmp_path: Path) -> None:
    path = make_database(tmp_path / "a.lmdb", shuffled(numbered_records(100, [10, 9000])))
    arrays, _ = sidecar.parse(np.frombuffer(build_index(path, checksum=True).to_bytes(), np.uint8), path="x")
    assert {name: array.dtype.str for name, array in arrays.items()} == {
        "offset": "<u8",
        "length": "<u4",
        "checksum": "<u8",
        "layout_order": "<i8",
    }
