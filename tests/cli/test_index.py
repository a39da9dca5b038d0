import json
from pathlib import Path

import lmdb
import pytest

from lmdbio.layout import Index
from lmdbio.layout.datum import wrap
from tests.cli.commands import Run


@pytest.fixture
def stock(tmp_path: Path) -> Path:
    """A database of stock LMDB."""
    folder = tmp_path / "stock.lmdb"
    with lmdb.open(str(folder), map_size=1 << 26) as environment, environment.begin(write=True) as txn:
        for number in range(100):
            txn.put(b"%03d" % number, bytes([number]) * 5000)
    return folder


def test_an_index_is_built_beside_the_data_file(run: Run, stock: Path) -> None:
    line = run("lmdbio-index", stock).ok()
    assert line.startswith(f"{stock}/data.mdb.index: written in ")
    assert "100 records" in line
    assert len(Index.open(stock)) == 100


@pytest.mark.parametrize("name", ["stock.lmdb", "stock.lmdb/", "stock.lmdb/data.mdb"])
def test_a_database_may_be_named_in_every_form(run: Run, stock: Path, name: str) -> None:
    run("lmdbio", "index", f"{stock.parent}/{name}", "--quiet").ok()
    assert run("lmdbio-index", "--check", f"{stock.parent}/{name}", "--quiet").ok() == ""


def test_an_index_may_stand_elsewhere(run: Run, stock: Path, tmp_path: Path) -> None:
    run("lmdbio-index", stock, "--output", tmp_path / "my.index").ok()
    assert not (stock / "data.mdb.index").exists()
    run("lmdbio-index", stock, "--output", tmp_path / "my.index", "--check").ok()
    assert (
        json.loads(run("lmdbio", "info", stock, "--index", tmp_path / "my.index", "--json").ok())["index"]["state"]
        == "ok"
    )


def test_partitions_and_checksums_are_as_asked(run: Run, stock: Path) -> None:
    told = json.loads(run("lmdbio-index", stock, "--partition-size", "64KiB", "--checksum", "--json").ok())
    index = Index.open(stock)
    assert told["records"] == 100
    assert told["partitions"] == len(index.partitions) - 1 > 5
    assert told["bytes"] == (stock / "data.mdb.index").stat().st_size
    assert index.checksums is not None


def test_labels_and_names_are_carried_over_a_stale_index_by_key(run: Run, database: Path) -> None:
    before = Index.open(database)
    with lmdb.open(str(database), map_size=1 << 26) as environment, environment.begin(write=True) as txn:
        txn.put(b"00000000", b"new, and first of all")
        txn.delete(before.keys[9])
    run("lmdbio-index", database).ok()
    after = Index.open(database)
    assert after.class_names == before.class_names
    assert before.labels is not None
    assert after.labels is not None
    assert after.labels.tolist() == [-1, *before.labels[:9].tolist()]


def test_a_damaged_index_is_replaced(run: Run, stock: Path) -> None:
    (stock / "data.mdb.index").write_bytes(b"\xff" * 50)
    run("lmdbio-index", stock).ok()
    run("lmdbio-index", stock, "--check").ok()


def test_a_place_that_does_not_exist_is_told_before_the_work(run: Run, stock: Path, tmp_path: Path) -> None:
    line = run("lmdbio-index", stock, "--output", tmp_path / "no" / "x.index").error("lmdbio-index")
    assert f"make {tmp_path / 'no'} first" in line


def test_datums_that_the_index_takes_as_bytes_are_pointed_out(run: Run, tmp_path: Path) -> None:
    header, trailer = wrap(5, 3)
    with lmdb.open(str(tmp_path / "caffe.lmdb")) as env, env.begin(write=True) as txn:
        txn.put(b"00000000", header + b"image" + trailer)
    assert "Caffe's Datum" in run("lmdbio-index", tmp_path / "caffe.lmdb").ok()
    assert "Caffe's Datum" in run("lmdbio", "info", tmp_path / "caffe.lmdb").ok()


def test_an_index_of_a_newer_version_is_not_written_over(run: Run, stock: Path) -> None:
    run("lmdbio-index", stock).ok()
    sidecar = stock / "data.mdb.index"
    newer = sidecar.read_bytes().replace(rb"\"version\":1", rb"\"version\":9")
    sidecar.write_bytes(newer)
    assert "found version 9" in run("lmdbio-index", stock).error("lmdbio-index")
    assert sidecar.read_bytes() == newer
