from pathlib import Path

import numpy as np
import pytest

from tools.compare.data import KINDS, PHOTOS, DataSet, Folder, Synthetic, prepare

_SYNTHETIC = sorted(set(KINDS) - set(PHOTOS))


@pytest.mark.parametrize("kind", _SYNTHETIC)
def test_synthetic_records_are_the_same_each_time_and_all_different(kind: str) -> None:
    source = Synthetic(DataSet(kind, 200, 3))
    records = list(source)
    assert records == list(Synthetic(DataSet(kind, 200, 3)))
    assert len({record.value for record in records}) == len(records) == len(source) == 200
    assert [len(record.value) for record in records] == source.sizes.tolist()
    assert all(source.value(number) == records[number].value for number in (0, 7, 199))
    assert records[0].value != Synthetic(DataSet(kind, 200, 4)).value(0)


@pytest.mark.parametrize("kind", _SYNTHETIC)
def test_names_come_sorted_and_unique_with_labels_that_number_the_classes(kind: str) -> None:
    source = Synthetic(DataSet(kind, 300, 0))
    names = list(source.names())
    assert names == [(record.name, record.label) for record in source]
    assert [name for name, _ in names] == sorted({name for name, _ in names})
    folders = sorted({name.partition("/")[0] for name, _ in names})
    assert all(folders.index(name.partition("/")[0]) == label for name, label in names)


def test_sizes_are_around_the_mean_of_the_kind() -> None:
    sizes = Synthetic(DataSet("lognormal", 20_000, 0)).sizes
    assert np.mean(sizes) == pytest.approx(KINDS["lognormal"].mean_size, rel=0.02)
    assert set(Synthetic(DataSet("fixed", 10, 0)).sizes) == {196_608}


def test_a_folder_gives_its_files_in_the_order_of_imagefolder(tmp_path: Path) -> None:
    for name in ("b/2.JPEG", "b/10.JPEG", "a/x.JPEG"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    source = Folder(tmp_path)
    assert [(record.name, record.label) for record in source] == [("a/x.JPEG", 0), ("b/10.JPEG", 1), ("b/2.JPEG", 1)]
    assert all(record.value == record.name.encode() for record in source)


def test_photographs_are_made_once_and_a_run_that_was_ended_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(folder: Path, *_: object) -> int:
        (folder / "train" / "n1").mkdir(parents=True)
        (folder / "train" / "n1" / "a.JPEG").write_bytes(b"photo")
        if failures:
            raise failures.pop()
        return 5

    failures = [KeyboardInterrupt()]
    monkeypatch.setattr("tools.make_imagenet_like._make_all", make)
    data = DataSet("photos", 1, 0)
    with pytest.raises(KeyboardInterrupt):
        prepare(data, tmp_path)
    assert not list((tmp_path / "data").iterdir())
    assert [record.value for record in prepare(data, tmp_path)] == [b"photo"]
    monkeypatch.setattr("tools.make_imagenet_like._make_all", None)
    assert len(prepare(data, tmp_path)) == 1
