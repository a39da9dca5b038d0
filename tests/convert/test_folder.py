import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lmdbio.convert import folder
from lmdbio.convert.folder import FolderSource, class_folders, list_root, refuse_splits
from lmdbio.convert.source import InputFault
from lmdbio.errors import SourceError
from tests.convert.trees import JPEG, make_tree, open_folder


def read(source: FolderSource, number: int) -> bytes:
    """Read an input into memory of its own."""
    memory = bytearray(int(source.inputs.sizes[number]))
    source.read_into(number, memoryview(memory), on_wait=lambda: None)
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
    files = {"c/a b.jpg": JPEG, b"c/caf\xe9.jpg": b"x" * 5000, "c/dot.in.name.PNG": b"y", "d/a b.jpg": b"same name"}
    source = open_folder(make_tree(tmp_path, files))
    found = {source.inputs.paths[number]: read(source, number) for number in range(len(source.inputs))}
    assert found == {os.fsencode(name): content for name, content in files.items()}
    source.close()


def test_a_huge_file_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "_PIECE_SIZE", 70)
    content = bytes(range(250))
    source = open_folder(make_tree(tmp_path, {"c/a.jpg": content}))
    pieces = list(source.pieces(0))
    assert len(pieces) == 4
    assert b"".join(pieces) == content
    source.close()


@pytest.mark.parametrize("way", [read, read_in_pieces])
@pytest.mark.parametrize("content", [b"short", b"much longer than it was", b""])
def test_a_file_of_another_size_than_listed_is_a_fault(
    content: bytes, way: Callable[[FolderSource, int], bytes], tmp_path: Path
) -> None:
    source = open_folder(make_tree(tmp_path, {"c/a.jpg": b"ten bytes."}))
    (tmp_path / "c/a.jpg").write_bytes(content)
    with pytest.raises(InputFault, match="changed since it was listed: expected 10 bytes, found"):
        way(source, 0)
    source.close()


def test_a_vanished_file_is_a_fault(tmp_path: Path) -> None:
    source = open_folder(make_tree(tmp_path, ["c/a.jpg"]))
    (tmp_path / "c/a.jpg").unlink()
    with pytest.raises(InputFault, match="cannot be read: no such file or directory"):
        read(source, 0)
    source.close()


def test_a_pipe_in_a_files_place_does_not_hang(tmp_path: Path) -> None:
    source = open_folder(make_tree(tmp_path, ["c/a.jpg"]))
    (tmp_path / "c/a.jpg").unlink()
    os.mkfifo(tmp_path / "c/a.jpg")
    with pytest.raises(InputFault):
        read(source, 0)
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
