"""A fingerprint survives copying and renaming, and nothing that a transaction does."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import lmdb
import pytest

from lmdbio.layout.file import DataFile
from lmdbio.layout.fingerprint import Fingerprint, sample_pages, take_fingerprint
from lmdbio.layout.meta import read_meta
from tests.layout.databases import make_database, numbered_records


def fingerprint(data_file: Path) -> Fingerprint:
    with DataFile(data_file) as file:
        return take_fingerprint(file, read_meta(file))


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return make_database(tmp_path / "a.lmdb", numbered_records(300, [100, 5000]))


def test_a_copy_under_another_name_has_the_same_fingerprint(database: Path, tmp_path: Path) -> None:
    copy = shutil.copy(database, tmp_path / "other.mdb")
    assert fingerprint(database) == fingerprint(copy)
    assert fingerprint(database).digest() == fingerprint(copy).digest()
    assert fingerprint(database).difference(fingerprint(copy)) is None


@pytest.mark.parametrize("value", [b"", b"x" * 10_000])
def test_every_transaction_changes_it(database: Path, value: bytes) -> None:
    before = fingerprint(database)
    with lmdb.open(str(database.parent)) as env, env.begin(write=True) as txn:
        txn.put(b"00000007", value)
    after = fingerprint(database)
    assert before != after
    assert before.digest() != after.digest()
    assert "transaction id" in (before.difference(replace(before, txnid=after.txnid)) or "")


def test_opening_and_reading_does_not_change_it(database: Path) -> None:
    before = fingerprint(database)
    with lmdb.open(str(database.parent), map_size=1 << 31) as env, env.begin() as txn:
        assert txn.get(b"00000007") is not None
    assert before == fingerprint(database)


@pytest.mark.parametrize("place", [100, 4095, 8191], ids=["meta 0", "tail of meta 0", "tail of meta 1"])
def test_a_byte_of_a_meta_page_changes_it(database: Path, place: int) -> None:
    before = fingerprint(database)
    content = bytearray(database.read_bytes())
    content[place] ^= 1
    with DataFile(database) as file:
        meta = read_meta(file)
    database.write_bytes(content)
    with DataFile(database) as file:
        assert before.difference(take_fingerprint(file, meta)) == "another metas"


def test_a_byte_of_a_sampled_page_changes_it(database: Path) -> None:
    before = fingerprint(database)
    content = bytearray(database.read_bytes())
    page = sample_pages(before.last_page + 1)[5]
    content[page * 4096 + 2000] ^= 1
    database.write_bytes(content)
    assert before.samples != fingerprint(database).samples


def test_an_empty_database_has_one(tmp_path: Path) -> None:
    found = fingerprint(make_database(tmp_path / "a.lmdb", []))
    assert (found.root, found.entries, found.last_page) == (None, 0, 1)


@pytest.mark.parametrize("n_pages", [0, 1, 2, 3, 17, 18, 19, 1000, 1 << 40])
def test_samples_are_different_pages_of_the_file_from_its_first_to_its_last(n_pages: int) -> None:
    pages = sample_pages(n_pages)
    assert len(pages) == min(max(n_pages - 2, 0), 16)
    assert pages == sorted(set(pages))
    if pages:
        assert (pages[0], pages[-1]) == (2, n_pages - 1)


def test_fields_come_back_from_json(database: Path) -> None:
    found = fingerprint(database)
    assert found == Fingerprint.from_fields({**json.loads(json.dumps(found.to_fields())), "later": 1})


@pytest.mark.parametrize(
    "change",
    [
        {"file_size": -1},
        {"file_size": 1 << 64},
        {"file_size": 1.0},
        {"txnid": True},
        {"page_size": 0},
        {"page_size": 1 << 40},
        {"root": "2"},
        {"entries": None},
        {"metas": "00"},
        {"samples": 5},
    ],
)
def test_fields_that_cannot_be_are_refused(database: Path, change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"expected a fingerprint with a sound {next(iter(change))}"):
        Fingerprint.from_fields({**fingerprint(database).to_fields(), **change})


@pytest.mark.parametrize("found", [None, 3, [], "x"])
def test_other_things_are_no_fingerprint(found: Any) -> None:
    with pytest.raises(ValueError, match="expected a fingerprint of named fields"):
        Fingerprint.from_fields(found)
