"""The index answers alike on file, in memory and pickled; stale and missing ones are named."""

import os
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import lmdb
import numpy as np
import pytest

from lmdbio.errors import CorruptDatabaseError, FormatError, MissingDatabaseError, MissingIndexError, StaleIndexError
from lmdbio.layout import Index, build_index
from tests.layout.databases import make_database, numbered_records


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "a.lmdb"
    make_database(path, numbered_records(200, [0, 100, 3000, 9000]))
    build_index(path).save(path / "data.mdb.index")
    return path


def test_all_forms_of_a_path_open_the_same_index(database: Path) -> None:
    opened = [Index.open(form) for form in (database, f"{database}/", database / "data.mdb")]
    assert len({index.to_bytes() for index in opened}) == 1
    assert opened[0].path == str(database / "data.mdb.index")
    assert repr(opened[0]) == f"Index({opened[0].path!r}, n_records=200)"


def test_an_index_elsewhere_is_opened_by_its_path(database: Path, tmp_path: Path) -> None:
    moved = shutil.move(database / "data.mdb.index", tmp_path / "elsewhere")
    assert len(Index.open(database, moved)) == 200


def test_bytes_files_and_pickles_hold_the_same_index(database: Path) -> None:
    index = Index.open(database)
    content = (database / "data.mdb.index").read_bytes()
    assert content == index.to_bytes() == Index.from_bytes(bytearray(content)).to_bytes()
    unpickled = pickle.loads(pickle.dumps(index))
    assert (content, index.path) == (unpickled.to_bytes(), unpickled.path)


def test_answers_for_some_records_are_those_for_all(database: Path) -> None:
    index = Index.open(database)
    records = np.array([199, 0, 7, 7])
    offsets, lengths = index.extents(records)
    assert (index.offsets[records].tolist(), index.lengths[records].tolist()) == (offsets.tolist(), lengths.tolist())
    assert (offsets.dtype, lengths.dtype) == (np.uint64, np.int64)
    within, sizes = index.payloads(records)
    assert (within.tolist(), sizes.tolist()) == ([0] * 4, lengths.tolist())
    assert [array.tolist() for array in index.extents(np.zeros(0, np.int64)) if len(array)] == []


@pytest.mark.parametrize("number", [-1, 200])
def test_a_number_that_is_no_record_is_an_index_error(database: Path, number: int) -> None:
    index = Index.open(database)
    for call in (index.extents, index.payloads):
        with pytest.raises(IndexError, match="expected numbers of 200 records"):
            call(np.array([0, number]))


def test_what_nobody_knows_is_none(database: Path) -> None:
    index = Index.open(database)
    assert [index.labels, index.checksums, index.class_names, index.source] == [None] * 4
    assert (index.value_kind, index.key_order, index.page_size, index.n_records) == ("raw", "bytes", 4096, 200)
    assert index.metadata["format"] == "lmdbio-index"
    assert index.metadata["version"] == 1


def test_a_missing_index_is_named_with_the_command_that_makes_it(database: Path) -> None:
    os.unlink(database / "data.mdb.index")
    with pytest.raises(MissingIndexError) as error:
        Index.open(database)
    command = f"build it with `lmdbio-index {database}`"
    assert str(error.value) == f"{database}/data.mdb.index: expected an index, found none: {command}"
    with pytest.raises(MissingIndexError, match=r"`lmdbio-index .* --output 'other place'`"):
        Index.open(database, "other place")


def test_a_missing_database_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingDatabaseError):
        Index.open(tmp_path / "none.lmdb")


def test_an_index_of_another_state_is_stale(database: Path) -> None:
    with lmdb.open(str(database)) as env, env.begin(write=True) as txn:
        txn.put(b"00000000", b"")
    with pytest.raises(StaleIndexError) as error:
        Index.open(database)
    assert str(error.value) == (
        f"{database}/data.mdb.index: expected the index of {database}/data.mdb as it stands, found the data file with "
        f"transaction id 2, not 1: build the index again with `lmdbio-index {database}`"
    )
    assert len(Index.open(database, check=False)) == 200


def test_an_index_of_another_database_is_stale(database: Path, tmp_path: Path) -> None:
    other = make_database(tmp_path / "b.lmdb", numbered_records(200, [0, 100, 3000, 9000], seed=1))
    with pytest.raises(StaleIndexError):
        Index.open(other, database / "data.mdb.index")


def test_a_copy_keeps_its_index(database: Path, tmp_path: Path) -> None:
    shutil.copytree(database, tmp_path / "copy.lmdb")
    assert Index.open(database).to_bytes() == Index.open(tmp_path / "copy.lmdb").to_bytes()


def test_a_data_file_that_was_cut_short_is_an_error_and_no_signal(database: Path) -> None:
    os.truncate(database / "data.mdb", 40_000)
    with pytest.raises((CorruptDatabaseError, StaleIndexError), match=r"data.mdb"):
        Index.open(database)


def test_a_data_file_is_no_index(database: Path) -> None:
    with pytest.raises(FormatError, match="expected a safetensors header"):
        Index.open(database, database / "data.mdb")


def test_checksums_can_be_put_in_afterwards(database: Path) -> None:
    index = build_index(database, checksum=True)
    assert index.checksums is not None
    assert index.to_bytes() == Index.open(database).with_checksums(index.checksums).to_bytes()


def test_arrays_cannot_be_written_to(database: Path) -> None:
    index = build_index(database, checksum=True)
    assert index.checksums is not None
    with pytest.raises(ValueError, match="read-only"):
        Index.from_bytes(index.to_bytes()).checksums[0] = 0  # type: ignore[index]


def test_partitions_are_found_once(database: Path) -> None:
    index = Index.open(database)
    assert index.partitions is index.partitions
    assert index.partitions.dtype == np.int64


def test_a_page_size_that_is_not_the_fingerprints_is_refused(database: Path) -> None:
    index = Index.open(database)
    with pytest.raises(ValueError, match="page_size: expected 4096 as in the fingerprint, found 8192"):
        Index.make(
            fingerprint=replace(index.fingerprint),
            page_size=8192,
            keys=index.keys.expand(),
            key_order="bytes",
            offsets=index.offsets,
            lengths=index.lengths,
        )
