"""A file is read whole or not at all, and what cannot be read is named in one line."""

import os
import pickle
import socket
from pathlib import Path

import pytest

from lmdbio.errors import FormatError, MissingDatabaseError, ReadError
from lmdbio.layout import file as file_module
from lmdbio.layout.file import DataFile


def test_ranges_are_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_module, "_MAX_READ", 7)  # more than one system call for a range
    (tmp_path / "f").write_bytes(bytes(range(100)))
    with DataFile(tmp_path / "f") as file:
        assert (file.size, os.get_blocking(file.fileno())) == (100, True)
        assert file.read(10, 50) == bytes(range(10, 60))
        assert file.read_array(99, 1).tolist() == [99]
        assert file.read(100, 0) == b""


def test_a_range_beyond_the_end_is_named(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(bytes(100))
    with (
        DataFile(tmp_path / "f") as file,
        pytest.raises(ReadError, match="f: expected 50 bytes at offset 90, found 10 before the file ends"),
    ):
        file.read(90, 50)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingDatabaseError, match="none: expected a file, found none"):
        DataFile(tmp_path / "none")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            PermissionError(13, "Permission denied"),
            "cannot open: permission denied: have its owner let you read it, and search the folders above it",
        ),
        (
            OSError(24, "Too many open files"),
            "cannot open: too many open files: raise the number of files that a process may have open (ulimit -n)",
        ),
        (OSError(5, "Input/output error"), "cannot open: input/output error: mend that, or name another file"),
    ],
)
def test_a_file_that_cannot_be_opened_says_why_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, error: OSError, text: str
) -> None:
    def refuse(*_: object) -> int:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        with pytest.raises(ReadError) as caught:
            DataFile("f")
    assert str(caught.value) == f"f: {text}"
    assert str(pickle.loads(pickle.dumps(caught.value))) == f"f: {text}"


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    before = len(os.listdir("/proc/self/fd"))
    for path, kind in [(tmp_path / "fifo", "a FIFO"), (tmp_path, "a directory"), (Path("/dev/zero"), "a device")]:
        with pytest.raises(FormatError, match=f"{path}: expected a regular file, found {kind}"):
            DataFile(path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        with pytest.raises(ReadError, match="socket: cannot open"):
            DataFile(tmp_path / "socket")
    assert len(os.listdir("/proc/self/fd")) == before
