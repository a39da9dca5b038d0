import io
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("skimage", reason="the demo extra is not installed")
pytest.importorskip("sklearn", reason="the demo extra is not installed")

from tools import make_imagenet_like as maker


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("made") / "imagenet"
    maker.make_imagenet_like(root, n_classes=4, n_train=50, n_val=10, mean_size=20_000)
    return root


def test_the_tree_is_arranged_and_named_as_imagenet_is(made: Path) -> None:
    names = contents(made)
    train = [name.split("/") for name in names if name.startswith("train/")]
    val = [name.split("/") for name in names if name.startswith("val/")]
    assert sorted(Counter(wnid for _, wnid, _ in train).values()) == [12, 12, 13, 13]
    assert {wnid for _, wnid, _ in train} == {wnid for _, wnid, _ in val} == {maker.wnid(i) for i in range(4)}
    assert all(file.startswith(f"{wnid}_") and file.endswith(".JPEG") for _, wnid, file in train)
    assert sorted(file for *_, file in val) == [f"ILSVRC2012_val_{i:08d}.JPEG" for i in range(1, 11)]


def test_images_are_colour_jpegs_of_about_the_size_asked_for(made: Path) -> None:
    images = list(contents(made).values())
    for image in images:
        with Image.open(io.BytesIO(image)) as opened:
            assert (opened.format, opened.mode) == ("JPEG", "RGB")
            assert np.asarray(opened).std() > 1
    sizes = np.array([len(image) for image in images])
    assert 14_000 < sizes.mean() < 26_000
    assert sizes.max() > 2 * sizes.min()


def test_equal_arguments_give_equal_files_and_another_seed_others(made: Path, tmp_path: Path) -> None:
    settings = {"n_classes": 4, "n_train": 50, "n_val": 10, "mean_size": 20_000}
    n_bytes = maker.make_imagenet_like(tmp_path / "again", workers=1, **settings)
    again = contents(tmp_path / "again")
    assert again == contents(made)
    assert n_bytes == sum(map(len, again.values()))
    maker.make_imagenet_like(tmp_path / "other", seed=1, **settings)
    assert not set(contents(tmp_path / "other").values()) & set(again.values())


def test_train_and_val_are_cropped_from_parts_that_share_no_pixel() -> None:
    grain = maker._grain()
    for size in ((40, 31), (31, 40)):
        pixels = np.arange(size[0] * size[1] * 3, dtype=np.uint32).reshape(size[1], size[0], 3)
        region = Image.fromarray((pixels // 3 % 251).astype(np.uint8))
        parts = [maker._part(region, split, grain).image for split in maker.SPLITS]
        areas = [part.width * part.height for part in parts]
        assert sum(areas) == region.width * region.height
        joined = np.concatenate([np.asarray(part) for part in parts], axis=1 if size[0] > size[1] else 0)
        assert np.array_equal(joined, np.asarray(region))


@pytest.mark.parametrize("n_classes", [1, 10, 20, 137])
def test_every_class_has_a_region_of_its_own(n_classes: int) -> None:
    regions = maker._regions(n_classes)
    assert len({region.tobytes() for region in regions}) == n_classes
    assert min(min(region.size) for region in regions) >= 30


def test_a_directory_that_exists_is_left_alone(made: Path) -> None:
    with pytest.raises(FileExistsError):
        maker.make_imagenet_like(made)


def test_a_split_without_images_is_left_out(tmp_path: Path) -> None:
    maker.make_imagenet_like(tmp_path / "made", n_classes=2, n_train=0, n_val=3, mean_size=8_000)
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["val"]


def test_told_to_end_it_finishes_what_is_begun_and_leaves_nothing(tmp_path: Path) -> None:
    arguments = [str(tmp_path / "made"), "--classes", "2", "--train", "100000", "--val", "0"]
    root = Path(maker.__file__).parents[1]
    process = subprocess.Popen([sys.executable, "-m", "tools.make_imagenet_like", *arguments], cwd=root)
    try:
        deadline = time.monotonic() + 60
        while not any(tmp_path.rglob("*.JPEG")) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert any(tmp_path.rglob("*.JPEG"))
        process.terminate()
        # 100,000 images take many minutes
        assert process.wait(60) == 128 + signal.SIGTERM
    finally:
        process.kill()
        process.wait()
    assert not list(tmp_path.iterdir())


def test_what_is_not_whole_does_not_have_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        assert not (tmp_path / "made").exists()
        raise OSError("no room")

    monkeypatch.setattr(maker, "_make", fail)
    with pytest.raises(OSError, match="no room"):
        maker.make_imagenet_like(tmp_path / "made", n_classes=2, n_train=3, n_val=0)
    assert not list(tmp_path.iterdir())
