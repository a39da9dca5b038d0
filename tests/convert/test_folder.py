import errno
import mmap
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lmdbio.convert import folder
from lmdbio.convert.folder import FolderSource, class_folders, list_root, refuse_splits
from lmdbio.convert.scan import Directory
from lmdbio.convert.source import InputFault
from lmdbio.errors import SourceError
from lmdbio.layout import file
from tests.convert.trees import JPEG, make_tree, open_folder

TEN_BYTES = b"BM, as BMP"


def read(source: FolderSource, number: int, on_wait: Callable[[], None] = lambda: None) -> bytes:
    """Read an input into memory of its own."""
    memory = bytearray(int(source.inputs.sizes[number]))
    source.read_into(number, memoryview(memory), on_wait=on_wait)
    return bytes(memory)


def read_in_pieces(source: FolderSource, number: int) -> bytes:
    return b"".join(source.pieces(number))


def test_classes_are_numbered_by_sorted_name_and_empty_ones_count(tmp_path: Path) -> None:
    make_tree(tmp_path, ["b/1.jpg", "B/1.jpg", "d/1.jpg", "d/2.jpg", "ä/1.jpg"])
    (tmp_path / "c").mkdir()
    source = open_folder(tmp_path)
    assert source.class_names == ("B", "b", "c", "d", "ä")
    assert source.inputs.labels.tolist() == [0, 1, 3, 3, 4]
    assert list(source.inputs.paths) == [b"B/1.jpg", b"b/1.jpg", b"d/1.jpg", b"d/2.jpg", "ä/1.jpg".encode()]
    source.close()


def test_every_file_is_read_as_it_is(tmp_path: Path) -> None:
    files = {"c/a b.jpg": JPEG, b"c/caf\xe9.jpg": b"BM" * 5000, "c/dot.in.name.PNG": b"P7", "d/a b.jpg": b"GIF8"}
    source = open_folder(make_tree(tmp_path, files))
    found = {source.inputs.paths[number]: read(source, number) for number in range(len(source.inputs))}
    assert found == {os.fsencode(name): content for name, content in files.items()}
    source.close()


def test_a_huge_file_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "_PIECE_SIZE", 70)
    content = JPEG + bytes(range(246))
    source = open_folder(make_tree(tmp_path, {"c/a.jpg": content}))
    pieces = list(source.pieces(0))
    assert len(pieces) == 4
    assert b"".join(pieces) == content
    source.close()


@pytest.mark.parametrize("way", [read, read_in_pieces])
@pytest.mark.parametrize("content", [b"BM...", b"BM much longer than it was", b""])
def test_a_file_of_another_size_than_listed_is_a_fault(
    content: bytes, way: Callable[[FolderSource, int], bytes], tmp_path: Path
) -> None:
    source = open_folder(make_tree(tmp_path, {"c/a.jpg": TEN_BYTES}))
    (tmp_path / "c/a.jpg").write_bytes(content)
    with pytest.raises(InputFault, match="changed since it was listed: expected 10 bytes, found"):
        way(source, 0)
    source.close()


@pytest.mark.parametrize("way", [read, read_in_pieces])
@pytest.mark.parametrize("content", [b"hello", b"<html>404</html>" * 100, bytes(20)])
def test_a_file_that_is_no_image_is_a_fault(
    content: bytes, way: Callable[[FolderSource, int], bytes], tmp_path: Path
) -> None:
    source = open_folder(make_tree(tmp_path, {"c/a.jpg": content}))
    with pytest.raises(InputFault, match="expected an image, found another content, which begins with b'"):
        way(source, 0)
    source.close()


def test_a_vanished_file_is_a_fault(tmp_path: Path) -> None:
    source = open_folder(make_tree(tmp_path, ["c/a.jpg"]))
    (tmp_path / "c/a.jpg").unlink()
    with pytest.raises(InputFault, match="cannot be read: no such file or directory"):
        read(source, 0)
    source.close()


@pytest.mark.parametrize("way", [read, read_in_pieces])
def test_a_pipe_in_a_files_place_does_not_hang(way: Callable[[FolderSource, int], bytes], tmp_path: Path) -> None:
    source = open_folder(make_tree(tmp_path, ["c/a.jpg"]))
    (tmp_path / "c/a.jpg").unlink()
    os.mkfifo(tmp_path / "c/a.jpg")
    with pytest.raises(InputFault, match="changed since it was listed: expected a regular file, found a FIFO"):
        way(source, 0)
    source.close()


def test_files_are_found_when_the_root_is_renamed_meanwhile(tmp_path: Path) -> None:
    source = open_folder(make_tree(tmp_path / "a", {"c/a.jpg": JPEG}))
    (tmp_path / "a").rename(tmp_path / "b")
    assert read(source, 0) == JPEG
    source.close()


def test_things_beside_the_class_folders_are_counted(tmp_path: Path) -> None:
    make_tree(tmp_path, ["c/a.jpg", "x.jpg", "README.txt", ".DS_Store", "__MACOSX/c/._a.jpg"])
    source = open_folder(tmp_path, b"c")
    assert source.ignored == {
        ".DS_Store": 1,
        "__MACOSX/": 1,
        "files without an image's extension": 1,
        "images outside of class folders": 1,
    }
    assert class_folders(os.fsencode(tmp_path)) == [b"c"]
    source.close()


def test_a_root_that_vanishes_once_it_is_listed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_tree(tmp_path / "src", {"c/a.jpg": JPEG})

    def list_and_vanish(path: bytes) -> Directory:
        found = list_root(path)
        root.rename(tmp_path / "gone")
        return found

    monkeypatch.setattr(folder, "list_root", list_and_vanish)
    with pytest.raises(SourceError, match="src: expected a directory of class folders, which cannot be read: no such"):
        open_folder(root)


def test_a_linked_root_is_followed(tmp_path: Path) -> None:
    make_tree(tmp_path / "real", {"c/a.jpg": JPEG})
    (tmp_path / "link").symlink_to("real")
    source = open_folder(tmp_path / "link")
    assert read(source, 0) == JPEG
    source.close()


def test_a_missing_root_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="nowhere: expected a directory of class folders, found nothing"):
        list_root(os.fsencode(tmp_path / "nowhere"))


def test_a_file_as_root_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SourceError, match="file: expected a directory of class folders, found a file"):
        list_root(os.fsencode(tmp_path / "file"))


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ([], "an empty directory"),
        (["a.jpg", "b.JPEG"], "2 image.s. lying directly in it"),
        (["a.txt"], "no folder but other files"),
    ],
)
def test_a_root_without_class_folders_says_what_it_holds(files: list[str], found: str, tmp_path: Path) -> None:
    make_tree(tmp_path, files)
    with pytest.raises(SourceError, match=found):
        class_folders(os.fsencode(tmp_path))


def test_splits_are_refused_with_the_command_that_takes_them(tmp_path: Path) -> None:
    make_tree(tmp_path, ["train/c/a.jpg", "val/c/a.jpg"])
    with pytest.raises(SourceError, match="found train/ and val/ with folders inside: use lmdbio-convert imagenet"):
        refuse_splits(os.fsencode(tmp_path), [b"train", b"val"])


@pytest.mark.parametrize("files", [["train/a.jpg", "val/a.jpg"], ["train/c/a.jpg", "plane/a.jpg"]])
def test_classes_that_are_called_like_splits_are_classes(files: list[str], tmp_path: Path) -> None:
    make_tree(tmp_path, files)
    refuse_splits(os.fsencode(tmp_path), class_folders(os.fsencode(tmp_path)))


# What is in memory, and what has to be waited for

NOWAIT = 8
CACHED = [
    pytest.param(None, 0, id="all is in memory"),
    pytest.param(BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), 1, id="nothing is in memory"),
    pytest.param(OSError(errno.EOPNOTSUPP, "Operation not supported"), 1, id="the file system cannot tell"),
    pytest.param(1, 1, id="a byte is in memory"),
    pytest.param(9, 1, id="all but a byte is in memory"),
]


class Reads:
    """Stands for ``os.preadv``: of what shall not wait it gives as much as is cached, of all else some bytes a call."""

    def __init__(self, cached: OSError | int | None, most: int | None) -> None:
        self._cached = cached
        self._most = most
        self._read = os.preadv
        self.n_waiting = 0

    def __call__(self, fd: int, buffers: list[memoryview], offset: int, flags: int = 0) -> int:
        if not flags:
            self.n_waiting += 1
            return self._read(fd, buffers if self._most is None else [buffers[0][: self._most]], offset)
        assert flags == NOWAIT
        if isinstance(self._cached, OSError):
            raise self._cached
        return self._read(fd, buffers if self._cached is None else [buffers[0][: self._cached]], offset)


def patch_reads(monkeypatch: pytest.MonkeyPatch, cached: OSError | int | None, most: int | None = None) -> Reads:
    reads = Reads(cached, most)
    monkeypatch.setattr(file, "_NOWAIT", NOWAIT)
    monkeypatch.setattr(os, "preadv", reads)
    return reads


@pytest.mark.parametrize("most", [None, 4])
@pytest.mark.parametrize(("cached", "n_waits"), CACHED)
def test_a_read_that_waits_says_so_once_and_beforehand(
    cached: OSError | int | None, n_waits: int, most: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = open_folder(make_tree(tmp_path, {"c/a.jpg": TEN_BYTES}))
    reads = patch_reads(monkeypatch, cached, most)
    waiting_before: list[int] = []
    assert read(source, 0, lambda: waiting_before.append(reads.n_waiting)) == TEN_BYTES
    assert waiting_before == [0] * n_waits
    assert (reads.n_waiting > 0) == (n_waits > 0)
    source.close()


def test_where_no_system_call_can_tell_every_read_may_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_folder(make_tree(tmp_path, {"c/a.jpg": TEN_BYTES}))
    monkeypatch.setattr(file, "_NOWAIT", 0)
    waits: list[bool] = []
    assert read(source, 0, lambda: waits.append(True)) == TEN_BYTES
    assert waits == [True]
    source.close()


@pytest.mark.parametrize(
    ("content", "found"),
    [(b"", "0"), (b"BM...", "5"), (TEN_BYTES + b"x", "more"), (b"BM much longer than it was", "more")],
)
@pytest.mark.parametrize(("cached", "n_waits"), CACHED)
def test_a_changed_size_is_a_fault_whatever_is_in_memory(
    cached: OSError | int | None,
    n_waits: int,
    content: bytes,
    found: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = open_folder(make_tree(tmp_path, {"c/a.jpg": TEN_BYTES}))
    (tmp_path / "c/a.jpg").write_bytes(content)
    patch_reads(monkeypatch, cached)
    with pytest.raises(InputFault, match=f"changed since it was listed: expected 10 bytes, found {found}$"):
        read(source, 0)
    source.close()


def test_growth_by_pages_that_are_not_in_memory_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_folder(make_tree(tmp_path, {"c/a.jpg": bytes(mmap.PAGESIZE)}))
    (tmp_path / "c/a.jpg").write_bytes(bytes(2 * mmap.PAGESIZE))
    patch_reads(monkeypatch, mmap.PAGESIZE)
    with pytest.raises(InputFault, match=r"changed since it was listed: expected [0-9]+ bytes, found more"):
        read(source, 0)
    source.close()


def test_an_error_of_a_read_that_waits_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_folder(make_tree(tmp_path, {"c/a.jpg": TEN_BYTES}))

    def broken(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "preadv", broken)
    with pytest.raises(InputFault, match="cannot be read: input/output error"):
        read(source, 0)
    source.close()


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_limit_of_the_process_is_no_fault_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    source = open_folder(make_tree(tmp_path, {"c/a.jpg": TEN_BYTES}))

    def refuse(*_: object, **__: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "open", refuse)
    for way in (read, read_in_pieces):
        with pytest.raises(SourceError, match=r"c/a.jpg: expected to open it, found a limit of this process .*ulimit"):
            way(source, 0)
    source.close()
