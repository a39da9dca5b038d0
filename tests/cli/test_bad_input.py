"""Bad input of every kind: one line on standard error, status 1, no traceback, nothing that passes for a database."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from tests.cli.commands import MakeFolder, Run

ACCESS_HEAD = b"\x00\x01\x00\x00Standard Jet DB\x00\x01"
READING_COMMANDS = [*(("lmdbio", name) for name in ("info", "get", "verify", "bench")), ("lmdbio-index",)]
ids = " ".join


def _read(run: Run, command: tuple[str, ...], db: Path) -> str:
    """Return the one line with which a command refuses a database."""
    rest = {"get": ["0"], "verify": ["--cross-check"]}.get(command[-1], [])
    return run(*command, db, *rest).error(" ".join(command))


def _no_database(dst: Path) -> None:
    assert not (dst / "data.mdb").exists()
    assert not dst.is_file()


# The source


def test_a_source_that_is_missing(run: Run, tmp_path: Path) -> None:
    for kind in ("imagenet", "folder"):
        line = run("lmdbio-convert", kind, tmp_path / "none", tmp_path / "out").error("lmdbio-convert")
        assert str(tmp_path / "none") in line
        assert "found nothing" in line
    _no_database(tmp_path / "out")


def test_a_source_that_is_a_file(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "source.tar"
    source.write_bytes(b"x")
    assert "found a file" in run("lmdbio-convert", "folder", source, tmp_path / "out").error("lmdbio-convert")
    _no_database(tmp_path / "out")


def test_a_source_that_is_empty(run: Run, make_folder: MakeFolder, tmp_path: Path) -> None:
    source = make_folder({})
    assert "empty" in run("lmdbio-convert", "folder", source, tmp_path / "out").error("lmdbio-convert")
    assert "train/ or val/" in run("lmdbio-convert", "imagenet", source, tmp_path / "out").error("lmdbio-convert")
    _no_database(tmp_path / "out")


def test_a_source_without_class_folders(run: Run, make_folder: MakeFolder, tmp_path: Path) -> None:
    source = make_folder({"1.jpg": 10, "2.jpg": 10})
    line = run("lmdbio-convert", "folder", source, tmp_path / "out").error("lmdbio-convert")
    assert "expected class folders, found 2 image" in line
    _no_database(tmp_path / "out")


def test_class_folders_without_images(run: Run, make_folder: MakeFolder, tmp_path: Path) -> None:
    source = make_folder({"cat/readme.txt": 10, "dog/.DS_Store": 10})
    assert "expected images" in run("lmdbio-convert", "folder", source, tmp_path / "out").error("lmdbio-convert")
    _no_database(tmp_path / "out")


def test_a_file_of_no_bytes(run: Run, make_folder: MakeFolder, tmp_path: Path) -> None:
    source = make_folder({"cat/1.jpg": 10, "cat/2.jpg": 0})
    line = run("lmdbio-convert", "folder", source, tmp_path / "out").error("lmdbio-convert")
    assert "cat/2.jpg" in line
    assert "empty file" in line
    assert "--on-error skip" in line
    _no_database(tmp_path / "out")


def test_a_file_that_may_not_be_read(run: Run, make_folder: MakeFolder, tmp_path: Path) -> None:
    source = make_folder()
    (source / "dog" / "3.jpg").chmod(0)
    done = run("lmdbio-convert", "folder", source, tmp_path / "out", obey_modes=True)
    line = done.error("lmdbio-convert")
    assert "dog/3.jpg" in line
    assert "permission denied" in line.lower()
    _no_database(tmp_path / "out")


def test_a_link_to_nothing(run: Run, make_folder: MakeFolder, tmp_path: Path) -> None:
    source = make_folder()
    (source / "dog" / "x.jpg").symlink_to("nowhere")
    assert "dog/x.jpg" in run("lmdbio-convert", "folder", source, tmp_path / "out").error("lmdbio-convert")
    _no_database(tmp_path / "out")


def test_a_class_folder_that_holds_itself(run: Run, make_folder: MakeFolder, tmp_path: Path) -> None:
    source = make_folder()
    (source / "dog" / "again").symlink_to("..")
    assert "dog" in run("lmdbio-convert", "folder", source, tmp_path / "out").error("lmdbio-convert")
    _no_database(tmp_path / "out")


def test_a_bad_file_that_is_skipped_gives_status_1_and_a_database_with_the_rest(
    run: Run, make_folder: MakeFolder, tmp_path: Path
) -> None:
    source = make_folder({"cat/1.jpg": 10, "cat/2.jpg": 0, "dog/3.jpg": 10})
    out = tmp_path / "out"
    done = run("lmdbio-convert", "folder", source, out, "--on-error", "skip")
    assert done.status == 1
    reason = f"{source}/cat/2.jpg: expected an image, found an empty file"
    assert done.err == f"lmdbio-convert: error: {out}: 1 input left out, the first: {reason}\n"
    assert "left out" in done.out
    with lmdb.open(str(out), readonly=True, lock=False) as environment:
        assert environment.stat()["entries"] == 2


def test_a_file_that_is_no_image(run: Run, make_folder: MakeFolder, tmp_path: Path) -> None:
    source, out = make_folder(), tmp_path / "out"
    (source / "dog" / "x.jpg").write_bytes(b"hello")
    reason = f"{source}/dog/x.jpg: expected an image, found another content, which begins with b'hello'"
    assert run("lmdbio-convert", "folder", source, out).error("lmdbio-convert").startswith(reason)
    _no_database(out)
    done = run("lmdbio-convert", "folder", source, out, "--on-error", "skip")
    assert (done.status, done.err) == (1, f"lmdbio-convert: error: {out}: 1 input left out, the first: {reason}\n")
    assert "misnamed" not in done.out


# The target


def test_a_target_that_exists(run: Run, database: Path, tmp_path: Path) -> None:
    before = (database / "data.mdb").read_bytes()
    line = run("lmdbio-convert", "folder", tmp_path / "source", database).error("lmdbio-convert")
    assert "--overwrite" in line
    assert (database / "data.mdb").read_bytes() == before


def test_a_target_that_is_something_else(run: Run, make_folder: MakeFolder, tmp_path: Path) -> None:
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_bytes(b"precious")
    folder.mkdir()
    (folder / "thesis.tex").write_bytes(b"precious")
    source = make_folder()
    for target in (file, folder):
        for more in ([], ["--overwrite"]):
            line = run("lmdbio-convert", "folder", source, target, *more).error("lmdbio-convert")
            assert str(target) in line
    assert file.read_bytes() == (folder / "thesis.tex").read_bytes() == b"precious"


def test_a_target_whose_parent_is_missing(run: Run, make_folder: MakeFolder, tmp_path: Path) -> None:
    line = run("lmdbio-convert", "folder", make_folder(), tmp_path / "no" / "out").error("lmdbio-convert")
    assert str(tmp_path / "no") in line
    assert not (tmp_path / "no").exists()


def test_a_target_in_a_directory_that_may_not_be_written(run: Run, make_folder: MakeFolder, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    done = run("lmdbio-convert", "folder", make_folder(), closed / "out", obey_modes=True)
    assert str(closed) in done.error("lmdbio-convert")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting takes root")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_is_too_small(run: Run, make_folder: MakeFolder, small_disk: Path) -> None:
    source = make_folder({f"cat/{number}.jpg": 100_000 for number in range(40)})
    line = run("lmdbio-convert", "folder", source, small_disk / "out").error("lmdbio-convert")
    assert str(small_disk / "out") in line
    _no_database(small_disk / "out")
    assert os.listdir(small_disk) == []


def test_a_disk_that_runs_full_in_the_middle(run: Run, make_folder: MakeFolder, small_disk: Path) -> None:
    source = make_folder({f"cat/{number}.jpg": 100_000 for number in range(40)})
    believe = "from lmdbio.convert import conversion; conversion.check_space = lambda *args, **kwargs: None"
    line = run("lmdbio-convert", "folder", source, small_disk / "out", setup=believe).error("lmdbio-convert")
    assert "no space left" in line.lower()
    _no_database(small_disk / "out")


@pytest.mark.parametrize("option", [(), ("--workers", "1")])
def test_a_file_that_may_not_grow(run: Run, make_folder: MakeFolder, tmp_path: Path, option: tuple[str, ...]) -> None:
    source = make_folder({f"cat/{number}.jpg": 100_000 for number in range(40)})
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))"
    done = run("lmdbio-convert", "folder", source, tmp_path / "out", *option, setup=limit)
    assert "out" in done.error("lmdbio-convert")
    _no_database(tmp_path / "out")


KILLED_AT = {
    "in the midst of the values": "from lmdbio.convert.folder import FolderSource as C; name = 'read_into'",
    "before the commit": "from lmdbio.layout.writer import DatabaseWriter as C; name = 'finish'",
    "before the index": "from lmdbio.layout.index import Index as C; name = 'save'",
}


@pytest.mark.parametrize("place", KILLED_AT)
def test_a_killed_conversion_leaves_no_database_and_can_be_started_again(
    run: Run, make_folder: MakeFolder, tmp_path: Path, place: str
) -> None:
    source, out = make_folder(), tmp_path / "out.lmdb"
    setup = f"{KILLED_AT[place]}; setattr(C, name, lambda *args, **kwargs: os.kill(os.getpid(), signal.SIGKILL))"
    assert run("lmdbio-convert", "folder", source, out, setup=setup).status == -signal.SIGKILL
    assert not out.exists()
    for left in tmp_path.glob("out*"):  # nor does what lies beside it pass for one, to us or to stock LMDB
        if place != "before the index" and (left / "data.mdb").exists():
            assert run("lmdbio", "info", left).status == 1
            with pytest.raises(lmdb.Error):
                lmdb.open(str(left), readonly=True, lock=False, create=False)
    assert "found nothing" in run("lmdbio", "info", out).error("lmdbio info")
    run("lmdbio-convert", "folder", source, out).ok()
    run("lmdbio", "verify", out, "--cross-check").ok()
    assert sorted(path.name for path in tmp_path.glob("out*")) == ["out.lmdb"]


# The database


@pytest.mark.parametrize("command", READING_COMMANDS, ids=ids)
def test_a_database_that_is_missing(run: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    assert str(tmp_path / "none.lmdb") in _read(run, command, tmp_path / "none.lmdb")


@pytest.mark.parametrize("command", READING_COMMANDS, ids=ids)
def test_a_directory_that_is_no_database(run: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    assert "data.mdb" in _read(run, command, tmp_path)


@pytest.mark.parametrize("command", READING_COMMANDS, ids=ids)
@pytest.mark.parametrize(
    "content", [b"", b"x", bytes(8192), b"hello world " * 1000], ids=["empty", "x", "zeros", "text"]
)
def test_a_file_that_is_no_database(run: Run, tmp_path: Path, command: tuple[str, ...], content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    assert str(tmp_path / "file") in _read(run, command, tmp_path / "file")


@pytest.mark.parametrize("command", READING_COMMANDS, ids=ids)
def test_a_database_of_microsoft_access(run: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "customers.mdb").write_bytes(ACCESS_HEAD.ljust(1 << 17, b"\0"))
    assert "Access" in _read(run, command, tmp_path / "customers.mdb")


@pytest.mark.parametrize("command", READING_COMMANDS, ids=ids)
@pytest.mark.parametrize("keep", [0.9, 0.5, 0.01])
def test_a_data_file_that_is_cut_short(run: Run, database: Path, command: tuple[str, ...], keep: float) -> None:
    data = database / "data.mdb"
    os.truncate(data, int(data.stat().st_size * keep))
    if command == ("lmdbio-index",):
        (database / "data.mdb.index").unlink()
    assert str(data) in _read(run, command, database)


def _change(database: Path) -> None:
    with lmdb.open(str(database), map_size=1 << 26) as environment, environment.begin(write=True) as txn:
        txn.put(b"new", b"value")


@pytest.mark.parametrize("command", [("lmdbio", "get"), ("lmdbio", "verify")], ids=ids)
def test_an_index_that_is_stale(run: Run, database: Path, command: tuple[str, ...]) -> None:
    _change(database)
    line = _read(run, command, database)
    assert "data.mdb.index" in line
    assert f"lmdbio-index {database}" in line


def test_an_index_that_is_stale_or_missing_or_fits_is_told_by_check(run: Run, database: Path) -> None:
    assert "fits" in run("lmdbio-index", database, "--check").ok()
    _change(database)
    assert "lmdbio-index" in run("lmdbio-index", database, "--check").error("lmdbio-index")
    (database / "data.mdb.index").unlink()
    assert "found none" in run("lmdbio-index", database, "--check").error("lmdbio-index")


@pytest.mark.parametrize("command", [("lmdbio", "get"), ("lmdbio", "verify")], ids=ids)
def test_an_index_that_is_damaged(run: Run, database: Path, command: tuple[str, ...]) -> None:
    index = database / "data.mdb.index"
    for content in (b"", b"\xff" * 100, index.read_bytes()[:-10], index.read_bytes() + b"x"):
        index.write_bytes(content)
        assert str(index) in _read(run, command, database)


def test_a_directory_that_may_not_be_written_is_indexed_elsewhere(run: Run, database: Path, tmp_path: Path) -> None:
    (database / "data.mdb.index").unlink()
    database.chmod(0o555)
    line = run("lmdbio-index", database, obey_modes=True).error("lmdbio-index")
    assert "--output" in line
    run("lmdbio-index", database, "--output", tmp_path / "my.index", obey_modes=True).ok()
    run("lmdbio", "get", database, "0", "--index", tmp_path / "my.index", "-o", tmp_path / "x", obey_modes=True).ok()
    database.chmod(0o755)


# Names


@pytest.mark.parametrize(
    "environment", [{}, {"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}]
)
def test_names_that_are_no_utf8_are_printed_in_escapes(
    run: Run, make_folder: MakeFolder, tmp_path: Path, environment: dict[str, str]
) -> None:
    source = make_folder({b"caf\xe9/\xff 1\n.jpg": 10, b"caf\xe9/2.jpg": 0, "日本/3.jpg".encode(): 10})
    out = tmp_path / "out"
    line = run("lmdbio-convert", "folder", source, out, **environment).error("lmdbio-convert")
    assert r"caf\xe9/2.jpg" in line
    os.unlink(os.fsencode(source) + b"/caf\xe9/2.jpg")
    run("lmdbio-convert", "folder", source, out, "--order", "source", **environment).ok()
    assert r"caf\xe9" in run("lmdbio", "info", out, **environment).ok()
    assert run("lmdbio", "get", out, b"00000000_caf\xe9/\xff 1\n.jpg", "-o", tmp_path / "x", **environment).status == 0
    line = run("lmdbio", "get", out, b"caf\xe9/\n", **environment).error("lmdbio get")
    assert r"caf\xe9/\n" in line
