import os
import pty
import subprocess
from pathlib import Path

import lmdb
import pytest

from tests.cli.commands import BIN, Run


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """A database of stock LMDB with keys that look like numbers, and an index."""
    folder = tmp_path / "words.lmdb"
    with lmdb.open(str(folder)) as environment, environment.begin(write=True) as txn:
        for key, value in ((b"1", b"one\n"), (b"2", b"two\n"), (b"007", b"bond\n"), (b"a b", b"\xff\x00")):
            txn.put(key, value)
    subprocess.run([BIN / "lmdbio-index", folder, "--quiet"], check=True)
    return folder


def test_a_decimal_is_a_number_and_all_else_a_key(run: Run, words: Path) -> None:
    assert run("lmdbio", "get", words, "0").ok() == "bond\n"
    assert run("lmdbio", "get", words, "1").ok() == "one\n"
    assert run("lmdbio", "get", words, "2").ok() == "two\n"
    assert run("lmdbio", "get", words, "007").ok() == "bond\n"
    assert run("lmdbio", "get", words, "--key", "2").ok() == "two\n"
    assert run("lmdbio", "get", words, "--key", "1").ok() == "one\n"


def test_a_file_gets_the_bytes(run: Run, words: Path, tmp_path: Path) -> None:
    assert run("lmdbio", "get", words, "a b", "-o", tmp_path / "x").ok() == ""
    assert (tmp_path / "x").read_bytes() == b"\xff\x00"


def test_what_is_not_there_is_told_in_one_line(run: Run, words: Path) -> None:
    error = run("lmdbio", "get", words, "none").error("lmdbio get")
    assert error.endswith("expected a record with key none, found none; keys there look like 007")
    assert "expected a number below 4" in run("lmdbio", "get", words, "4").error("lmdbio get")
    assert "key 0" in run("lmdbio", "get", words, "--key", "0").error("lmdbio get")
    run("lmdbio", "get", words, "9" * 30).error("lmdbio get")
    run("lmdbio", "get", words, "k" * 600).error("lmdbio get")
    run("lmdbio", "get", words, "").error("lmdbio get")


def test_an_output_that_cannot_be_written_is_told_in_one_line(run: Run, words: Path, tmp_path: Path) -> None:
    line = run("lmdbio", "get", words, "1", "-o", tmp_path / "no" / "x").error("lmdbio get")
    assert str(tmp_path / "no" / "x") in line


def test_data_is_the_image_and_value_is_the_whole_datum(run: Run, database: Path, tmp_path: Path) -> None:
    data, value = tmp_path / "data", tmp_path / "value"
    run("lmdbio", "get", database, "0", "-o", data).ok()
    run("lmdbio", "get", database, "0", "--value", "-o", value).ok()
    with lmdb.open(str(database), readonly=True, lock=False) as environment, environment.begin() as txn:
        key, stored = next(iter(txn.cursor()))
    source = database.parent / "source" / key.decode().partition("_")[2]
    assert value.read_bytes() == stored
    assert data.read_bytes() == source.read_bytes()
    assert len(stored) > len(data.read_bytes())


def test_binary_data_does_not_go_to_a_terminal_and_text_does(words: Path) -> None:
    def on_terminal(record: str) -> tuple[int, bytes, bytes]:
        ours, theirs = pty.openpty()
        done = subprocess.run(
            [BIN / "lmdbio", "get", words, record], stdout=theirs, stderr=subprocess.PIPE, check=False
        )
        os.write(theirs, b"end")
        shown = b""
        while not shown.endswith(b"end"):
            shown += os.read(ours, 1000)
        os.close(ours)
        os.close(theirs)
        return done.returncode, shown, done.stderr

    assert on_terminal("1") == (0, b"one\r\nend", b"")
    status, shown, error = on_terminal("a b")
    assert (status, shown) == (1, b"end")
    assert b"-o FILE" in error
