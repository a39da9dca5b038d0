import os
from pathlib import Path

import pytest

from lmdbio.convert.imagenet import find_splits, open_splits
from lmdbio.errors import SourceError
from tests.convert.trees import LARGE, make_tree


def labels_by_path(root: Path) -> dict[str, dict[bytes, int]]:
    path = os.fsencode(root)
    found = {}
    for source in open_splits(path, find_splits(path)[0], max_size=LARGE, workers=1):
        assert source.split is not None
        found[source.split] = dict(zip(source.inputs.paths, source.inputs.labels.tolist(), strict=True))
        source.close()
    return found


def test_the_splits_share_one_numbering_whatever_classes_each_lacks(tmp_path: Path) -> None:
    make_tree(tmp_path, ["train/a/1.jpg", "train/c/1.jpg", "val/b/1.jpg", "val/c/1.jpg", "val/d/1.jpg"])
    (tmp_path / "train/b").mkdir()
    assert labels_by_path(tmp_path) == {
        "train": {b"a/1.jpg": 0, b"c/1.jpg": 2},
        "val": {b"b/1.jpg": 1, b"c/1.jpg": 2, b"d/1.jpg": 3},
    }


@pytest.mark.parametrize("split", ["train", "val"])
def test_one_split_alone_is_fine(split: str, tmp_path: Path) -> None:
    make_tree(tmp_path, [f"{split}/a/1.jpg", "other/x.jpg"])
    assert labels_by_path(tmp_path) == {split: {b"a/1.jpg": 0}}


def test_a_linked_split_is_followed(tmp_path: Path) -> None:
    make_tree(tmp_path / "disk", ["a/1.jpg"])
    (tmp_path / "root").mkdir()
    (tmp_path / "root/train").symlink_to("../disk")
    assert labels_by_path(tmp_path / "root") == {"train": {b"a/1.jpg": 0}}


def test_class_folders_alone_are_sent_to_folder(tmp_path: Path) -> None:
    make_tree(tmp_path, ["a/1.jpg", "b/1.jpg"])
    with pytest.raises(SourceError, match=r"expected train/ or val/ .* found a/, b/: .* lmdbio-convert folder"):
        find_splits(os.fsencode(tmp_path))


def test_an_empty_root_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="expected train/ or val/ with class folders inside, found no folder at all"):
        find_splits(os.fsencode(tmp_path))


def test_a_split_with_images_directly_in_it_is_named(tmp_path: Path) -> None:
    make_tree(tmp_path, ["train/a/1.jpg", "val/1.jpg"])
    with pytest.raises(SourceError, match="val: expected class folders, found 1 image"):
        labels_by_path(tmp_path)


@pytest.mark.parametrize(
    ("name", "meant"), [("Train", "train"), ("training", "train"), ("validation", "val"), ("VALID", "val")]
)
def test_a_split_under_another_name_is_never_left_out_in_silence(tmp_path: Path, name: str, meant: str) -> None:
    make_tree(tmp_path, [f"{name}/a/1.jpg", f"{'val' if meant == 'train' else 'train'}/a/1.jpg"])
    with pytest.raises(SourceError, match=f"found {name}/: rename it to {meant}/"):
        find_splits(os.fsencode(tmp_path))


def test_folders_beside_the_splits_are_named(tmp_path: Path) -> None:
    make_tree(tmp_path, ["train/a/1.jpg", "test/1.jpg", "devkit/x.txt"])
    assert find_splits(os.fsencode(tmp_path)) == (["train"], ["devkit", "test"])
