import os
from pathlib import Path

import pytest

from lmdbio.convert.arrangement import arrange
from lmdbio.errors import SourceError, TargetError
from tests.convert.trees import make_tree


def targets(root: Path, dst: Path | str, kind: str) -> list[str]:
    arrangement = arrange(os.fsencode(root), os.fspath(dst), kind, overwrite=False)
    arrangement.check()
    return [target.path for target in arrangement.targets]


def test_a_folder_becomes_one_database(tmp_path: Path) -> None:
    make_tree(tmp_path / "src", ["a/1.jpg"])
    assert targets(tmp_path / "src", f"{tmp_path}/x.lmdb/", "folder") == [f"{tmp_path}/x.lmdb"]


def test_each_split_becomes_a_database_of_its_own(tmp_path: Path) -> None:
    make_tree(tmp_path / "src", ["train/a/1.jpg", "val/a/1.jpg"])
    assert targets(tmp_path / "src", tmp_path / "out", "imagenet") == [
        f"{tmp_path}/out/train.lmdb",
        f"{tmp_path}/out/val.lmdb",
    ]


@pytest.mark.parametrize("inside", ["src/x.lmdb", "src/a/x.lmdb", "link/x.lmdb", "src"])
def test_a_target_among_the_class_folders_is_refused(inside: str, tmp_path: Path) -> None:
    make_tree(tmp_path / "src", ["a/1.jpg"])
    (tmp_path / "link").symlink_to("src")
    with pytest.raises(TargetError, match="expected a target outside of"):
        targets(tmp_path / "src", tmp_path / inside, "folder")


def test_a_target_beside_the_splits_is_fine(tmp_path: Path) -> None:
    make_tree(tmp_path / "src", ["train/a/1.jpg"])
    assert targets(tmp_path / "src", tmp_path / "src", "imagenet") == [f"{tmp_path}/src/train.lmdb"]


def test_a_target_that_stands_is_refused_in_every_split(tmp_path: Path) -> None:
    make_tree(tmp_path / "src", ["train/a/1.jpg", "val/a/1.jpg"])
    make_tree(tmp_path / "out", ["val.lmdb/data.mdb"])
    with pytest.raises(TargetError, match=r"val.lmdb: expected nothing, found a database: --overwrite"):
        targets(tmp_path / "src", tmp_path / "out", "imagenet")


def test_a_missing_source_comes_before_the_target(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="found nothing"):
        targets(tmp_path / "src", tmp_path / "a/b/out", "imagenet")
