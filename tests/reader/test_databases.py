"""One database in every form of its name, several by list, glob or directory; never two that do not belong together."""

import os
from pathlib import Path

import pytest

from lmdbio.errors import MissingDatabaseError
from lmdbio.reader.databases import find_databases


def make(*paths: Path) -> None:
    for path in paths:
        if path.suffix == ".lmdb":
            path.mkdir(parents=True)
            (path / "data.mdb").touch()
            (path / "lock.mdb").touch()
            (path / "data.mdb.index").touch()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            Path(f"{path}.index").touch()
            Path(f"{path}-lock").touch()


def names(folder: Path, *found: Path | str) -> list[str]:
    """Return the data files that the arguments name, from the folder on."""
    files = find_databases(found[0] if len(found) == 1 else list(found))
    assert all(os.path.isabs(path) for path in files.data)
    assert len(files) == len(files.names) == len(files.indexes)
    return [os.path.relpath(path, folder) for path in files.data]


def test_one_database_in_every_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "a.lmdb", tmp_path / "b.mdb", tmp_path / "odd[1].mdb")
    for form in (tmp_path / "a.lmdb", f"{tmp_path}/a.lmdb/", tmp_path / "a.lmdb" / "data.mdb"):
        assert names(tmp_path, form) == ["a.lmdb/data.mdb"]
    monkeypatch.chdir(tmp_path)
    assert names(tmp_path, "b.mdb") == ["b.mdb"]
    assert names(tmp_path, "odd[1].mdb") == ["odd[1].mdb"]
    assert find_databases("b.mdb", "elsewhere.index").indexes == (str(tmp_path / "elsewhere.index"),)


def test_a_list_keeps_its_order(tmp_path: Path) -> None:
    make(tmp_path / "b.lmdb", tmp_path / "a.mdb")
    assert names(tmp_path, tmp_path / "b.lmdb", tmp_path / "a.mdb") == ["b.lmdb/data.mdb", "a.mdb"]
    found = find_databases([tmp_path / "b.lmdb", tmp_path / "a.mdb"], ["x", tmp_path / "y"])
    assert found.indexes == (os.path.abspath("x"), str(tmp_path / "y"))


@pytest.mark.parametrize("form", ["*", "s-*.lmdb", ""])
def test_a_glob_and_a_directory_are_taken_by_the_numbers_in_names(tmp_path: Path, form: str) -> None:
    make(*(tmp_path / f"s-{number}.lmdb" for number in (10, 9, 1)))
    assert names(tmp_path, tmp_path / form) == [f"s-{number}.lmdb/data.mdb" for number in (1, 9, 10)]


def test_sidecars_and_lock_files_are_no_databases(tmp_path: Path) -> None:
    make(tmp_path / "s1.mdb", tmp_path / "s2.mdb")
    assert names(tmp_path, tmp_path) == names(tmp_path, tmp_path / "s*") == ["s1.mdb", "s2.mdb"]


def test_a_directory_of_train_and_val_is_not_read_as_one(tmp_path: Path) -> None:
    make(tmp_path / "train.lmdb", tmp_path / "val.lmdb")
    with pytest.raises(MissingDatabaseError, match=r"expected an LMDB database directory.* did you mean .*train.lmdb"):
        find_databases(tmp_path)
    assert names(tmp_path, tmp_path / "*.lmdb") == ["train.lmdb/data.mdb", "val.lmdb/data.mdb"]  # who asks for it


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    make(tmp_path / "a.lmdb")
    for missing in (tmp_path / "none", [tmp_path / "a.lmdb", tmp_path / "none"]):
        with pytest.raises(MissingDatabaseError, match="none: expected a database"):
            find_databases(missing)
    with pytest.raises(MissingDatabaseError, match=r"n\*\.lmdb: expected databases by this pattern, found none"):
        find_databases(tmp_path / "n*.lmdb")
    with pytest.raises(MissingDatabaseError, match="expected one or more, found an empty list"):
        find_databases([])


def test_a_database_named_twice_is_refused_however_it_is_written(tmp_path: Path) -> None:
    make(tmp_path / "a.lmdb")
    (tmp_path / "link.lmdb").symlink_to(tmp_path / "a.lmdb")
    for again in (tmp_path / "a.lmdb" / "data.mdb", tmp_path / "link.lmdb"):
        with pytest.raises(ValueError, match="expected each database once, found it named twice"):
            find_databases([tmp_path / "a.lmdb", again])


def test_sidecars_are_as_many_as_databases(tmp_path: Path) -> None:
    make(tmp_path / "a.lmdb", tmp_path / "b.lmdb")
    with pytest.raises(ValueError, match="index: expected one for each of 2 databases, found 1"):
        find_databases([tmp_path / "a.lmdb", tmp_path / "b.lmdb"], tmp_path / "i")


def test_names_that_differ_by_zeros_alone_have_one_order(tmp_path: Path) -> None:
    make(*(tmp_path / f"q-{number}.mdb" for number in ("001", "1", "01", "2")))
    for named in (tmp_path, tmp_path / "q-*"):
        assert names(tmp_path, named) == ["q-001.mdb", "q-01.mdb", "q-1.mdb", "q-2.mdb"]
