import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lmdbio.convert import target as target_module
from lmdbio.convert.target import Target
from lmdbio.errors import TargetError


def make_database(path: Path, content: bytes = b"old") -> Path:
    path.mkdir()
    (path / "data.mdb").write_bytes(content)
    (path / "data.mdb.index").write_bytes(b"index")
    (path / "lock.mdb").write_bytes(b"")
    return path


def write_and_publish(path: Path, *, overwrite: bool = False) -> None:
    with Target(str(path), overwrite=overwrite) as target:
        Path(target.data).write_bytes(b"new")
        target.publish()


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


def test_a_published_database_stands_alone_under_its_name(tmp_path: Path) -> None:
    write_and_publish(tmp_path / "x.lmdb")
    assert names(tmp_path) == ["x.lmdb"]
    assert names(tmp_path / "x.lmdb") == ["data.mdb"]


def test_nothing_stands_under_the_name_before_it_is_published(tmp_path: Path) -> None:
    with Target(str(tmp_path / "x.lmdb"), overwrite=False):
        assert not (tmp_path / "x.lmdb").exists()


def test_an_error_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), Target(str(tmp_path / "x.lmdb"), overwrite=False) as target:
        Path(target.data).write_bytes(b"half")
        raise RuntimeError
    assert names(tmp_path) == []


def test_an_empty_directory_is_taken(tmp_path: Path) -> None:
    (tmp_path / "x.lmdb").mkdir()
    write_and_publish(tmp_path / "x.lmdb")
    assert (tmp_path / "x.lmdb/data.mdb").read_bytes() == b"new"


def test_a_database_is_replaced_only_when_told(tmp_path: Path) -> None:
    make_database(tmp_path / "x.lmdb")
    with pytest.raises(TargetError, match=r"x.lmdb: expected nothing, found a database: --overwrite replaces it"):
        write_and_publish(tmp_path / "x.lmdb")
    assert (tmp_path / "x.lmdb/data.mdb").read_bytes() == b"old"
    write_and_publish(tmp_path / "x.lmdb", overwrite=True)
    assert names(tmp_path) == ["x.lmdb"]
    assert names(tmp_path / "x.lmdb") == ["data.mdb"]
    assert (tmp_path / "x.lmdb/data.mdb").read_bytes() == b"new"


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_directory_that_is_no_database_is_never_replaced(overwrite: bool, tmp_path: Path) -> None:
    make_database(tmp_path / "home")
    (tmp_path / "home/thesis.tex").write_bytes(b"")
    with pytest.raises(TargetError, match=r"no database \(it holds thesis.tex\)"):
        write_and_publish(tmp_path / "home", overwrite=overwrite)


def test_a_file_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"")
    with pytest.raises(TargetError, match="found a file"):
        write_and_publish(tmp_path / "x", overwrite=True)


def test_a_missing_parent_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=f"found none: mkdir -p {re.escape(str(tmp_path))}/a/b$"):
        write_and_publish(tmp_path / "a/b/x.lmdb")


def test_a_parent_that_may_not_be_written_in_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(TargetError, match="expected a parent directory that can be written in"):
        write_and_publish(tmp_path / "x.lmdb")


def test_a_mount_point_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.lmdb").mkdir()
    monkeypatch.setattr(os.path, "ismount", lambda path: True)
    with pytest.raises(TargetError, match="found a mount point: name a new one inside it"):
        write_and_publish(tmp_path / "x.lmdb")


def test_a_directory_that_may_not_be_listed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> list[str]:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "x.lmdb").mkdir()
    monkeypatch.setattr(os, "listdir", refuse)
    with pytest.raises(TargetError, match=r"x.lmdb: cannot list what stands in place of it: permission denied"):
        write_and_publish(tmp_path / "x.lmdb")


def test_a_link_is_followed_to_where_the_database_stands(tmp_path: Path) -> None:
    make_database(tmp_path / "disk")
    (tmp_path / "x.lmdb").symlink_to("disk")
    write_and_publish(tmp_path / "x.lmdb", overwrite=True)
    assert (tmp_path / "x.lmdb").is_symlink()
    assert (tmp_path / "disk/data.mdb").read_bytes() == b"new"
    assert names(tmp_path) == ["disk", "x.lmdb"]


def test_a_rename_that_fails_brings_the_old_database_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = os.rename

    def refuse(old: str, new: str) -> None:
        if old.endswith(".partial"):
            raise PermissionError(13, "Permission denied")
        rename(old, new)

    make_database(tmp_path / "x.lmdb")
    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(TargetError, match="permission denied"):
        write_and_publish(tmp_path / "x.lmdb", overwrite=True)
    assert names(tmp_path) == ["x.lmdb"]
    assert (tmp_path / "x.lmdb/data.mdb").read_bytes() == b"old"


def test_a_second_converter_is_refused(tmp_path: Path) -> None:
    with Target(str(tmp_path / "x.lmdb"), overwrite=False):
        with pytest.raises(TargetError, match="expected no other converter at work on it, found one"):
            write_and_publish(tmp_path / "x.lmdb")
        assert names(tmp_path) == ["x.lmdb.partial", "x.lmdb.partial.lock"]
    assert names(tmp_path) == []


def test_a_name_taken_while_it_was_written_is_not_replaced(tmp_path: Path) -> None:
    with Target(str(tmp_path / "x.lmdb"), overwrite=False) as target:
        make_database(tmp_path / "x.lmdb")
        with pytest.raises(TargetError, match="found a database"):
            target.publish()
    assert (tmp_path / "x.lmdb/data.mdb").read_bytes() == b"old"


def test_what_a_killed_run_left_is_cleared_away(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from lmdbio.convert.target import Target\n"
        "with Target(sys.argv[1], overwrite=False) as target:\n"
        "    open(target.data, 'wb').write(b'half')\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    run = subprocess.run([sys.executable, "-c", program, str(tmp_path / "x.lmdb")], check=False)
    assert run.returncode == -signal.SIGKILL
    assert names(tmp_path) == ["x.lmdb.partial", "x.lmdb.partial.lock"]
    write_and_publish(tmp_path / "x.lmdb")
    assert names(tmp_path) == ["x.lmdb"]
    assert (tmp_path / "x.lmdb/data.mdb").read_bytes() == b"new"


def test_a_database_put_aside_by_a_killed_run_comes_back(tmp_path: Path) -> None:
    make_database(tmp_path / "x.lmdb.partial.old")
    with pytest.raises(TargetError, match="found a database"):
        write_and_publish(tmp_path / "x.lmdb")
    assert names(tmp_path) == ["x.lmdb"]
    assert (tmp_path / "x.lmdb/data.mdb").read_bytes() == b"old"


def test_a_database_that_a_killed_run_had_replaced_goes(tmp_path: Path) -> None:
    make_database(tmp_path / "x.lmdb", b"replacement")
    make_database(tmp_path / "x.lmdb.partial.old")
    write_and_publish(tmp_path / "x.lmdb", overwrite=True)
    assert names(tmp_path) == ["x.lmdb"]


def test_a_partial_directory_is_left_alone_where_locks_do_not_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int, operation: int) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(target_module.fcntl, "flock", refuse)
    (tmp_path / "x.lmdb.partial").mkdir()
    with pytest.raises(TargetError, match="remove that directory if its converter is dead"):
        write_and_publish(tmp_path / "x.lmdb")
    (tmp_path / "x.lmdb.partial").rmdir()
    write_and_publish(tmp_path / "x.lmdb")
    assert names(tmp_path / "x.lmdb") == ["data.mdb"]
