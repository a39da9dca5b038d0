import os
from pathlib import Path

import pytest

from lmdbio.convert.scan import ClassFiles, is_image, scan_class, sort_names
from lmdbio.errors import SourceError
from tests.convert.trees import JPEG, LARGE, make_tree


def scan(root: Path, name: str = "c", *, max_size: int = LARGE) -> ClassFiles:
    return scan_class(os.fsencode(root), os.fsencode(name), max_size=max_size)


def torchvision_order(root: Path, name: str) -> list[bytes]:
    """The rule of torchvision's ``make_dataset`` in its own terms, as an oracle."""
    found = []
    for folder, _, files in sorted(os.walk(root / name, followlinks=True)):
        found += [
            os.fsencode(os.path.relpath(os.path.join(folder, file), root))
            for file in sorted(files)
            if is_image(os.fsencode(file))
        ]
    return found


def test_files_come_in_torchvisions_order(tmp_path: Path) -> None:
    names = [
        "c/b.jpg",
        "c/a/z.jpg",
        "c/a-b/y.jpg",
        "c/a/a/x.jpg",
        "c/ä.jpg",
        "c/Z.JPG",
        "c/\uffff.png",
        "c/\U0001f600.png",
    ]
    make_tree(tmp_path, [*names, b"c/\xff\xfe.jpg"])
    assert list(scan(tmp_path).paths) == torchvision_order(tmp_path, "c")


@pytest.mark.parametrize(
    "name", ["x.jpg", "x.JPEG", "x.Jpeg", "x.png", "x.PPM", "x.bmp", "x.pgm", "x.tif", "x.TIFF", "x.webp"]
)
def test_an_images_extension_counts_in_any_case(name: str, tmp_path: Path) -> None:
    make_tree(tmp_path, [f"c/{name}"])
    assert list(scan(tmp_path).paths) == [f"c/{name}".encode()]


def test_other_extensions_are_counted_and_passed_over(tmp_path: Path) -> None:
    make_tree(tmp_path, ["c/a.jpg", "c/notes.txt", "c/jpg", "c/a.jpg.bak", "c/inner/b.gif"])
    found = scan(tmp_path)
    assert list(found.paths) == [b"c/a.jpg"]
    assert found.ignored == {"files without an image's extension": 4}


def test_desktop_litter_is_counted_and_passed_over(tmp_path: Path) -> None:
    litter = ["c/.DS_Store", "c/Thumbs.db", "c/thumbs.db", "c/._a.JPEG", "c/__MACOSX/c/._b.jpg", "c/__MACOSX/c.jpg"]
    make_tree(tmp_path, ["c/a.jpg", *litter])
    found = scan(tmp_path)
    assert list(found.paths) == [b"c/a.jpg"]
    assert found.ignored == {".DS_Store": 1, "Thumbs.db": 2, "._* (AppleDouble)": 1, "__MACOSX/": 1}


def test_an_empty_file_is_bad_input(tmp_path: Path) -> None:
    make_tree(tmp_path, {"c/a.jpg": b"", "c/b.jpg": b"x"})
    found = scan(tmp_path)
    assert list(found.paths) == [b"c/b.jpg"]
    assert [(bad.path, bad.reason) for bad in found.bad] == [
        (f"{tmp_path}/c/a.jpg", "expected an image, found an empty file")
    ]


def test_a_file_that_may_not_be_read_is_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_tree(tmp_path, ["c/a.jpg", "c/b.jpg"])
    (tmp_path / "c/a.jpg").chmod(0)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    found = scan(tmp_path)
    assert list(found.paths) == [b"c/b.jpg"]
    assert [bad.reason for bad in found.bad] == ["cannot be read: permission denied"]


def test_a_dangling_link_and_a_pipe_are_bad_input(tmp_path: Path) -> None:
    make_tree(tmp_path, ["c/z.jpg"])
    (tmp_path / "c/a.jpg").symlink_to("nowhere.jpg")
    os.mkfifo(tmp_path / "c/b.jpg")
    assert [bad.reason for bad in scan(tmp_path).bad] == [
        "cannot be read: no such file or directory",
        "expected a regular file, found another kind",
    ]


def test_a_file_too_large_for_a_value_is_bad_input(tmp_path: Path) -> None:
    make_tree(tmp_path, {"c/a.jpg": b"12345", "c/b.jpg": b"1234"})
    found = scan(tmp_path, max_size=4)
    assert list(found.paths) == [b"c/b.jpg"]
    assert [bad.reason for bad in found.bad] == ["expected at most 4 bytes, found 5"]


def test_links_to_files_and_folders_are_followed(tmp_path: Path) -> None:
    make_tree(tmp_path / "elsewhere", ["x.jpg"])
    make_tree(tmp_path / "root", ["d/y.jpg"])
    (tmp_path / "root/c").symlink_to("../elsewhere")
    (tmp_path / "root/d/inner").symlink_to("../../elsewhere")
    assert list(scan(tmp_path / "root", "c").paths) == [b"c/x.jpg"]
    assert list(scan(tmp_path / "root", "d").paths) == [b"d/y.jpg", b"d/inner/x.jpg"]


@pytest.mark.parametrize("goal", [".", "..", "../..", "inner/.."])
def test_a_cycle_of_links_is_an_error(goal: str, tmp_path: Path) -> None:
    make_tree(tmp_path / "root", ["c/inner/x.jpg"])
    (tmp_path / "root/c/loop").symlink_to(goal)
    with pytest.raises(SourceError, match="found a link to a folder that holds it"):
        scan(tmp_path / "root")


def test_a_link_to_itself_is_an_error(tmp_path: Path) -> None:
    make_tree(tmp_path, ["c/x.jpg"])
    (tmp_path / "c/loop").symlink_to("loop")
    with pytest.raises(SourceError, match="loop: expected a file or folder, cannot be read"):
        scan(tmp_path)


def test_two_links_to_one_folder_are_no_cycle(tmp_path: Path) -> None:
    make_tree(tmp_path, ["d/x.jpg", "c/y.jpg"])
    (tmp_path / "c/a").symlink_to("../d")
    (tmp_path / "c/b").symlink_to("../d")
    assert list(scan(tmp_path).paths) == [b"c/y.jpg", b"c/a/x.jpg", b"c/b/x.jpg"]


def test_names_sort_as_text_and_not_as_bytes() -> None:
    names = [b"\xff.jpg", "\uffff.jpg".encode(), "\U0001f600.jpg".encode(), b"a", b"B"]
    assert sort_names(names) == sorted(names, key=lambda name: name.decode("utf-8", "surrogateescape"))
    assert sort_names(names) != sorted(names)


def test_deep_folders_are_walked(tmp_path: Path) -> None:
    path = "c/" + "/".join(["d" * 50] * 40) + "/x.jpg"
    make_tree(tmp_path, {path: JPEG})
    assert list(scan(tmp_path).paths) == [path.encode()]


def test_a_root_that_vanishes_is_a_bad_input(tmp_path: Path) -> None:
    found = scan_class(os.fsencode(tmp_path / "gone"), b"c", max_size=LARGE)
    assert [(bad.path, bad.reason) for bad in found.bad] == [
        (f"{tmp_path}/gone", "cannot be read: no such file or directory")
    ]
