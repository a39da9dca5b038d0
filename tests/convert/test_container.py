from pathlib import Path

import pytest

from lmdbio.convert.container import Container, check_parent
from lmdbio.errors import TargetError


def test_a_container_is_made_and_goes_when_left_empty(tmp_path: Path) -> None:
    with Container(str(tmp_path / "out")):
        assert (tmp_path / "out").is_dir()
    assert not (tmp_path / "out").exists()
    with Container(str(tmp_path / "out")):
        (tmp_path / "out/train.lmdb").mkdir()
    assert (tmp_path / "out/train.lmdb").is_dir()


def test_a_container_that_stands_is_kept(tmp_path: Path) -> None:
    with Container(str(tmp_path)):
        pass
    assert tmp_path.is_dir()


def test_a_database_is_no_container(tmp_path: Path) -> None:
    (tmp_path / "x.lmdb").mkdir()
    (tmp_path / "x.lmdb/data.mdb").write_bytes(b"")
    with pytest.raises(TargetError, match="one database for each split, found a database"):
        Container(str(tmp_path / "x.lmdb")).check()


def test_a_container_without_a_parent_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="mkdir -p"):
        Container(str(tmp_path / "a/out")).check()


def test_a_file_is_no_container(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"")
    with pytest.raises(TargetError, match="found a file"):
        Container(str(tmp_path / "out")).check()


def test_a_parent_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(TargetError, match="expected its parent to be a directory, found the file"):
        check_parent(str(tmp_path / "file" / "x.lmdb"))
