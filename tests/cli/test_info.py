import json
import os
from pathlib import Path

import lmdb
import numpy as np

from lmdbio.cli.info import quantiles
from lmdbio.layout import Index
from tests.cli.commands import MakeFolder, Run


def test_a_converted_database_is_described_in_full(run: Run, database: Path) -> None:
    told = json.loads(run("lmdbio", "info", database, "--json").ok())
    index = Index.open(database)
    assert told["records"] == 10
    assert told["bytes"] == os.stat(database / "data.mdb").st_size
    assert told["values"]["kind"] == "datum"
    assert told["values"]["bytes"] == index.lengths.sum()
    assert told["values"]["size"]["max"] == index.lengths.max()
    assert told["classes"]["count"] == 2
    assert told["classes"]["names"] == ["cat", "dog"]
    assert told["classes"]["records"]["median"] == 5
    assert told["partitions"]["count"] == len(index.partitions) - 1
    assert told["index"]["state"] == "ok"
    assert {"labels", "checksums", "class names"} <= set(told["index"]["holds"])


def test_pages_are_counted_as_stock_lmdb_counts_them(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "db"
    with lmdb.open(str(folder), map_size=1 << 26) as environment:
        for turn in range(3):
            with environment.begin(write=True) as txn:
                for number in range(300):
                    txn.put(b"%03d" % number, bytes(10 + number * 20 * turn))
        stat, last_page = environment.stat(), environment.info()["last_pgno"]
        with environment.begin() as txn:
            free = txn.stat(db=environment.open_db(None)) and _free_pages(folder)
    pages = json.loads(run("lmdbio", "info", folder, "--json").ok())["pages"]
    assert pages["size"] == stat["psize"]
    assert pages["depth"] == stat["depth"]
    assert pages["branch"] == stat["branch_pages"]
    assert pages["leaf"] == stat["leaf_pages"]
    assert pages["overflow"] == stat["overflow_pages"]
    assert pages["total"] == last_page + 1
    assert pages["free"] == free
    assert pages["free"] > 0


def _free_pages(folder: Path) -> int:
    """Return how many pages the free list holds, read from its own tree."""
    from lmdbio.layout.file import DataFile
    from lmdbio.layout.meta import read_meta
    from lmdbio.layout.tree import walk

    with DataFile(folder / "data.mdb") as file:
        meta = read_meta(file)
        records = walk(file, meta, tree=meta.free)
        return sum(int.from_bytes(file.read(int(offset), 8), "little") for offset in records.offsets)


def test_an_index_that_is_missing_stale_or_damaged_is_told_and_not_needed(run: Run, database: Path) -> None:
    index = database / "data.mdb.index"
    whole = index.read_bytes()
    index.unlink()
    assert "missing" in run("lmdbio", "info", database).ok()
    index.write_bytes(whole[:-1])
    assert json.loads(run("lmdbio", "info", database, "--json").ok())["index"]["state"] == "unreadable"
    index.write_bytes(whole)
    with lmdb.open(str(database), map_size=1 << 26) as environment, environment.begin(write=True) as txn:
        txn.put(b"new", b"value")
    told = json.loads(run("lmdbio", "info", database, "--json").ok())
    assert (told["index"]["state"], told["records"]) == ("stale", 11)
    assert "stale" in run("lmdbio", "info", database).ok()


def test_a_database_of_no_records_is_described(run: Run, tmp_path: Path) -> None:
    lmdb.open(str(tmp_path / "db")).close()
    told = json.loads(run("lmdbio", "info", tmp_path / "db", "--json").ok())
    assert told["records"] == told["partitions"]["count"] == 0
    assert told["classes"] is None
    run("lmdbio", "info", tmp_path / "db").ok()


def test_a_table_is_told_to_people(run: Run, make_folder: MakeFolder, tmp_path: Path) -> None:
    source = make_folder({f"class {number}/x.png": 3000 for number in range(8)})
    run("lmdbio-convert", "folder", source, tmp_path / "out", "--value", "raw").ok()
    lines = dict(line.split("  ", 1) for line in run("lmdbio", "info", tmp_path / "out").ok().splitlines())
    assert lines["classes"].strip().startswith("8 (class 0, class 1, class 2, class 3, class 4, …)")
    assert lines["records"].strip() == "8, raw values of 23.4 KiB"
    assert lines["value size"].strip().startswith("min 2.9 KiB, p5 2.9 KiB")


def test_quantiles_are_numbers_that_occur() -> None:
    numbers = np.array([5, 1, 9, 2])
    found = quantiles(numbers)
    assert (found["min"], found["median"], found["max"]) == (1, 2, 9)
    assert set(found.values()) <= set(numbers.tolist())
