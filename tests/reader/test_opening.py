"""A sidecar is opened; without one an index is made, and said."""

import logging
from pathlib import Path

import pytest

from lmdbio.errors import MissingDatabaseError, MissingIndexError, StaleIndexError
from lmdbio.layout.file import DataFile
from lmdbio.reader.opening import check_state, open_index
from tests.reader.made import make_datum_database, overwrite


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_datum_database(tmp_path / "a.lmdb", [10, 5000, 20])
    return tmp_path / "a.lmdb"


def test_a_sidecar_is_opened_in_silence(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    index, is_sidecar = open_index(folder, None)
    assert (len(index), is_sidecar, caplog.records) == (3, True, [])


def test_without_a_sidecar_an_index_is_made_and_said(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "data.mdb.index").unlink()
    index, is_sidecar = open_index(folder, None)
    assert (len(index), is_sidecar) == (3, False)
    (said,) = caplog.records
    assert (said.name, said.levelno) == ("lmdbio.reader", logging.WARNING)
    assert "building one in memory" in said.getMessage()
    assert "lmdbio-index" in said.getMessage()


def test_a_sidecar_that_was_named_must_be_there(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingIndexError):
        open_index(folder, tmp_path / "none.index")


def test_a_stale_sidecar_is_never_passed_over(folder: Path) -> None:
    overwrite(folder / "data.mdb", 4096 - 4, b"xxxx")
    with pytest.raises(StaleIndexError, match="lmdbio-index"):
        open_index(folder, None)


def test_a_file_in_another_state_than_was_indexed_is_refused(folder: Path) -> None:
    index, _ = open_index(folder, None)
    with DataFile(folder / "data.mdb") as file:
        check_state(index, file)
        overwrite(folder / "data.mdb", 4096 - 4, b"xxxx")
        with pytest.raises(
            StaleIndexError, match=r"data\.mdb: expected the data file that was indexed, found one with"
        ):
            check_state(index, file)


def test_a_missing_database_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingDatabaseError, match=r"none\.lmdb"):
        open_index(tmp_path / "none.lmdb", None)
