import errno
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest

from lmdbio.convert import Report, convert, folder, space
from lmdbio.errors import SourceError, TargetError
from lmdbio.layout import Index, build_index, window
from lmdbio.layout.datum import parse
from tests.convert.trees import JPEG, make_classes, make_tree

Files = dict[bytes, tuple[bytes, int]]


def files_of(root: Path) -> Files:
    """Return content and label of every image of a tree without litter, by path."""
    found = {}
    for label, name in enumerate(sorted(entry.name for entry in root.iterdir() if entry.is_dir())):
        for path in (root / name).rglob("*.*"):
            found[os.fsencode(path.relative_to(root))] = (path.read_bytes(), label)
    return found


def stock_records(database: Path) -> list[tuple[bytes, bytes]]:
    with lmdb.open(str(database), readonly=True, lock=False) as env, env.begin() as txn:
        return list(txn.cursor())


def check_database(database: Path, files: Files, *, value: str = "datum", key: str = "number") -> None:
    """Compare a database and its index with the files that it was made from, stock LMDB as the judge."""
    records = stock_records(database)
    index = Index.open(database)
    assert len(records) == len(index) == len(files)
    assert index.labels is not None
    data = (database / "data.mdb").read_bytes()
    starts, lengths = index.payloads(np.arange(len(index)))
    found: Files = {}
    for number, (held_key, held) in enumerate(records):
        path = held_key if key == "path" else held_key.partition(b"_")[2]
        offset = int(index.offsets[number])
        assert index.keys[number] == held_key
        assert data[offset : offset + int(index.lengths[number])] == held
        payload = held[int(starts[number]) : int(starts[number]) + int(lengths[number])]
        label = int(index.labels[number])
        if value == "datum":
            datum = parse(held)
            assert (datum.label, datum.encoded) == (label, True)
            assert held[datum.payload_offset : datum.payload_offset + datum.payload_length] == payload
        else:
            assert payload == held
        found[path] = (payload, label)
    assert found == files


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


def run(root: Path, dst: Path, **options: Any) -> Report:
    return convert(root, dst, **{"kind": "folder", **options})


@pytest.mark.parametrize("order", ["shuffle", "stratified", "source"])
@pytest.mark.parametrize("key", ["number", "path"])
@pytest.mark.parametrize("value", ["datum", "raw"])
def test_stock_lmdb_finds_every_file_byte_for_byte(value: str, key: str, order: str, tmp_path: Path) -> None:
    root = make_classes(tmp_path / "src", classes=4, files=25, size=3000)
    make_tree(root, {"c1/tiny.png": b"P6", "c3/large.jpg": JPEG + bytes(300_000)})
    report = run(root, tmp_path / "x.lmdb", value=value, key=key, order=order, partition_size=1 << 16)
    check_database(tmp_path / "x.lmdb", files_of(root), value=value, key=key)
    assert names(tmp_path) == ["src", "x.lmdb"]
    assert names(tmp_path / "x.lmdb") == ["data.mdb", "data.mdb.index"]
    assert report.records == 102
    assert report.databases[0].file_size == (tmp_path / "x.lmdb/data.mdb").stat().st_size
    assert report.databases[0].partitions == len(Index.open(tmp_path / "x.lmdb").partitions) - 1 > 3


def test_numbers_in_keys_follow_the_file(tmp_path: Path) -> None:
    root = make_classes(tmp_path / "src")
    run(root, tmp_path / "x.lmdb")
    keys = [key for key, _ in stock_records(tmp_path / "x.lmdb")]
    assert [key[:9] for key in keys] == [b"%08d_" % number for number in range(15)]
    assert np.all(np.diff(Index.open(tmp_path / "x.lmdb").offsets.astype(np.int64)) > 0)


def test_the_splits_of_imagenet_share_their_classes(tmp_path: Path) -> None:
    make_tree(tmp_path / "src", ["train/a/1.JPEG", "train/b/2.JPEG", "val/b/3.JPEG", "val/c/4.JPEG"])
    report = convert(tmp_path / "src", tmp_path / "out")
    train, val = (Index.open(tmp_path / f"out/{split}.lmdb") for split in ("train", "val"))
    assert train.class_names == val.class_names == ["a", "b", "c"]
    assert train.labels is not None
    assert val.labels is not None
    assert (sorted(train.labels.tolist()), sorted(val.labels.tolist())) == ([0, 1], [1, 2])
    assert [database.split for database in report.databases] == ["train", "val"]
    assert [database.empty_classes for database in report.databases] == [1, 1]
    assert (report.records, report.classes) == (4, 3)
    assert train.metadata["source"]["split"] == "train"


def test_the_same_input_gives_the_same_bytes_whoever_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_classes(tmp_path / "src", files=30)
    run(tmp_path / "src", tmp_path / "one.lmdb", workers=1, partition_size=1 << 16)
    (tmp_path / "src").rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    run(Path("moved"), Path("seven.lmdb"), workers=7, partition_size=1 << 16)
    for name in ("data.mdb", "data.mdb.index"):
        assert (tmp_path / "one.lmdb" / name).read_bytes() == (tmp_path / "seven.lmdb" / name).read_bytes()


def test_the_sidecar_equals_the_rebuilt_one_save_what_only_the_source_knew(tmp_path: Path) -> None:
    run(make_classes(tmp_path / "src", files=30), tmp_path / "x.lmdb", partition_size=1 << 16)
    made, rebuilt = Index.open(tmp_path / "x.lmdb"), build_index(tmp_path / "x.lmdb", checksum=True)
    assert np.array_equal(made.offsets, rebuilt.offsets)
    assert np.array_equal(made.lengths, rebuilt.lengths)
    assert list(made.keys) == list(rebuilt.keys)
    assert np.array_equal(made.checksums, rebuilt.checksums)
    assert made.fingerprint == rebuilt.fingerprint


def test_a_limit_takes_records_from_every_class(tmp_path: Path) -> None:
    root = make_classes(tmp_path / "src", classes=5, files=10)
    assert run(root, tmp_path / "x.lmdb", limit=10).records == 10
    labels = Index.open(tmp_path / "x.lmdb").labels
    assert labels is not None
    assert np.bincount(labels).tolist() == [2, 2, 2, 2, 2]


def test_a_dry_run_tells_all_and_writes_nothing(tmp_path: Path) -> None:
    root = make_classes(tmp_path / "src")
    plans = run(root, tmp_path / "x.lmdb", dry_run=True)
    assert names(tmp_path) == ["src"]
    done = run(root, tmp_path / "x.lmdb")
    assert plans.dry_run
    assert not done.dry_run
    for name in ("records", "input_bytes", "file_size", "partitions", "align", "align_fell_back", "inline_records"):
        assert getattr(plans.databases[0], name) == getattr(done.databases[0], name)
    assert plans.databases[0].free_space > 0


def test_a_dry_run_of_splits_makes_no_directory(tmp_path: Path) -> None:
    make_tree(tmp_path / "src", ["train/a/1.jpg"])
    assert convert(tmp_path / "src", tmp_path / "out", dry_run=True).records == 1
    assert names(tmp_path) == ["src"]


def test_names_that_are_no_text_are_kept_exactly(tmp_path: Path) -> None:
    root = tmp_path / "a b"
    make_tree(root, [b"caf\xe9/\xff\xfe.jpg", "日本/é è.png", b"c.d/e.f.JPG"])
    run(root, tmp_path / "x y.lmdb", order="source", key="path")
    keys = {key for key, _ in stock_records(tmp_path / "x y.lmdb")}
    assert keys == {b"caf\xe9/\xff\xfe.jpg", "日本/é è.png".encode(), b"c.d/e.f.JPG"}
    assert Index.open(tmp_path / "x y.lmdb").class_names == ["c.d", "caf\udce9", "日本"]


def test_bytes_paths_are_taken(tmp_path: Path) -> None:
    make_tree(tmp_path / "src", ["c/a.jpg"])
    root, dst = os.fsencode(tmp_path / "src"), os.fsencode(tmp_path) + b"/\xff.lmdb"
    json.dumps(convert(root, dst, kind="folder").to_json())
    assert os.path.isfile(dst + b"/data.mdb")


def test_a_long_path_is_cut_in_its_key_and_counted(tmp_path: Path) -> None:
    long = "c/" + "/".join(["d" * 100] * 12) + "/x.jpg"
    report = run(make_tree(tmp_path / "src", [long, "c/y.jpg"]), tmp_path / "x.lmdb")
    assert report.databases[0].keys_cut == 1
    assert sorted(len(key) for key, _ in stock_records(tmp_path / "x.lmdb")) == [16, 511]


def test_a_huge_file_streams_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "LARGEST_EXTENT", 12_288)
    monkeypatch.setattr(folder, "_PIECE_SIZE", 3_000)
    root = make_tree(tmp_path / "src", {"c/a.jpg": JPEG * 64_000, "c/b.jpg": b"BM." * 3_333, "c/c.jpg": JPEG})
    run(root, tmp_path / "x.lmdb")
    check_database(tmp_path / "x.lmdb", files_of(root))


def test_files_that_are_not_what_they_are_called_pass_through_and_are_counted(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "src", {"c/a.JPEG": b"\x89PNG\r\n\x1a\n....", "c/b.JPEG": JPEG, "c/c.png": b"GIF8"})
    report = run(root, tmp_path / "x.lmdb")
    assert report.databases[0].misnamed == {".jpeg holding png": 1, ".png holding gif": 1}
    check_database(tmp_path / "x.lmdb", files_of(root))


def test_a_file_that_is_no_image_is_an_error_or_left_out(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "src", {"c/a.jpg": JPEG, "c/b.jpg": b"hello", "c/c.jpg": b"<html>" * 10_000})
    with pytest.raises(SourceError, match=r"[bc]\.jpg: expected an image, found another content.*--on-error skip"):
        run(root, tmp_path / "x.lmdb")
    report = run(root, tmp_path / "x.lmdb", on_error="skip")
    assert [bad.path for bad in report.skipped] == [f"{root}/c/b.jpg", f"{root}/c/c.jpg"]
    assert report.records == 1
    assert report.databases[0].misnamed == {}
    check_database(tmp_path / "x.lmdb", {b"c/a.jpg": (JPEG, 0)})


def test_litter_is_passed_over_and_counted(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "src", ["c/a.jpg", "c/.DS_Store", "c/._a.jpg", "__MACOSX/c/._a.jpg", "c/notes.txt"])
    report = run(root, tmp_path / "x.lmdb")
    assert report.databases[0].ignored == {
        "._* (AppleDouble)": 1,
        ".DS_Store": 1,
        "__MACOSX/": 1,
        "files without an image's extension": 1,
    }
    assert report.skipped == ()
    assert report.classes == 1


def test_the_first_bad_file_ends_the_conversion_by_name(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "src", {"c/a.jpg": JPEG, "c/b.jpg": b"", "c/c.jpg": b""})
    with pytest.raises(SourceError, match=r"b\.jpg: expected an image, found an empty file \(2 bad inputs in all\)"):
        run(root, tmp_path / "x.lmdb")
    assert names(tmp_path) == ["src"]


def vanish(*paths: Path) -> Callable[[Report], None]:
    """Return a callback that removes files once everything is planned."""
    return lambda plans: [path.unlink() for path in paths] and None


def test_a_file_that_goes_bad_in_between_ends_the_conversion_by_name(tmp_path: Path) -> None:
    root = make_classes(tmp_path / "src")
    with pytest.raises(SourceError, match=r"c1/3\.jpg: cannot be read: no such file or directory; --on-error skip"):
        run(root, tmp_path / "x.lmdb", planned=vanish(root / "c1/3.jpg"))
    assert names(tmp_path) == ["src"]


@pytest.mark.parametrize("key", ["number", "path"])
@pytest.mark.parametrize("size", [100, 5000])
def test_bad_files_can_be_left_out_and_are_named(size: int, key: str, tmp_path: Path) -> None:
    root = make_classes(tmp_path / "src", files=20, size=size)
    make_tree(root, {"c0/empty.jpg": b""})

    def change(plans: Report) -> None:
        (root / "c1/3.jpg").unlink()
        (root / "c2/4.jpg").write_bytes(b"another size")

    report = run(root, tmp_path / "x.lmdb", on_error="skip", planned=change, key=key, order="source")
    assert [bad.path for bad in report.skipped] == [
        f"{root}/{name}" for name in ("c0/empty.jpg", "c1/3.jpg", "c2/4.jpg")
    ]
    assert [bad.reason.split(":")[0] for bad in report.skipped] == [
        "expected an image, found an empty file",
        "cannot be read",
        "changed since it was listed",
    ]
    assert report.records == 58
    rest = {path: file for path, file in files_of(root).items() if path not in (b"c0/empty.jpg", b"c2/4.jpg")}
    check_database(tmp_path / "x.lmdb", rest, key=key)


def test_the_number_of_a_file_left_out_stays_unused(tmp_path: Path) -> None:
    root = make_classes(tmp_path / "src", classes=1)
    run(root, tmp_path / "x.lmdb", on_error="skip", order="source", planned=vanish(root / "c0/2.jpg"))
    keys = [key for key, _ in stock_records(tmp_path / "x.lmdb")]
    assert keys == [b"%08d_c0/%d.jpg" % (number, number) for number in (0, 1, 3, 4)]


def test_when_no_file_can_be_read_there_is_no_database(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "src", ["c/a.jpg", "c/b.jpg"])
    with pytest.raises(SourceError, match="src: expected an image that can be read, found none"):
        run(root, tmp_path / "x.lmdb", on_error="skip", planned=vanish(root / "c/a.jpg", root / "c/b.jpg"))
    assert names(tmp_path) == ["src"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"c/a.txt": b"x"}, "expected images in its class folders, found 1 files without an image's extension"),
        ({"c/a.jpg": b""}, "expected images in its class folders, found 1 bad inputs, the first: .*a.jpg"),
    ],
)
def test_class_folders_without_a_good_image_are_refused(
    files: dict[str | bytes, bytes], message: str, tmp_path: Path
) -> None:
    with pytest.raises(SourceError, match=message):
        run(make_tree(tmp_path / "src", files), tmp_path / "x.lmdb", on_error="skip")


def test_an_old_database_is_replaced_when_told(tmp_path: Path) -> None:
    root = make_classes(tmp_path / "src")
    run(root, tmp_path / "x.lmdb", limit=3)
    with pytest.raises(TargetError, match="--overwrite"):
        run(root, tmp_path / "x.lmdb")
    run(root, tmp_path / "x.lmdb", overwrite=True)
    check_database(tmp_path / "x.lmdb", files_of(root))
    assert names(tmp_path) == ["src", "x.lmdb"]


def test_a_failed_replacement_leaves_the_old_database(tmp_path: Path) -> None:
    root = make_classes(tmp_path / "src")
    run(root, tmp_path / "x.lmdb", limit=3)
    before = stock_records(tmp_path / "x.lmdb")
    with pytest.raises(SourceError):
        run(root, tmp_path / "x.lmdb", overwrite=True, planned=vanish(root / "c1/3.jpg"))
    assert stock_records(tmp_path / "x.lmdb") == before


def test_too_little_space_is_known_before_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space, "free_space", lambda path: 1000)
    with pytest.raises(TargetError, match="bytes free for what is to be written, found 1000"):
        run(make_classes(tmp_path / "src"), tmp_path / "x.lmdb")
    assert names(tmp_path) == ["src"]


def test_a_disk_that_fills_up_is_named_and_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    root = make_classes(tmp_path / "src")
    monkeypatch.setattr(os, "pwritev", refuse)
    with pytest.raises(TargetError, match=r"x.lmdb.*no space left on device"):
        run(root, tmp_path / "x.lmdb")
    assert names(tmp_path) == ["src"]


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path) -> None:
    def interrupt(plans: Report) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(make_classes(tmp_path / "src"), tmp_path / "x.lmdb", planned=interrupt)
    assert names(tmp_path) == ["src"]


def test_a_run_killed_in_the_middle_leaves_no_database_and_the_next_one_works(tmp_path: Path) -> None:
    root = make_classes(tmp_path / "src", files=50)
    program = (
        "import os, sys\n"
        "from lmdbio.convert import convert\n"
        "convert(*sys.argv[1:], kind='folder', partition_size=65536, progress=lambda *done: os.kill(os.getpid(), 9))\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(root), str(tmp_path / "x.lmdb")], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert "x.lmdb.partial" in names(tmp_path)
    assert "x.lmdb" not in names(tmp_path)
    run(root, tmp_path / "x.lmdb")
    check_database(tmp_path / "x.lmdb", files_of(root))
    assert names(tmp_path) == ["src", "x.lmdb"]


def test_progress_counts_up_to_everything_from_one_thread_at_a_time(tmp_path: Path) -> None:
    root = make_classes(tmp_path / "src", files=100)
    told: list[tuple[int, int]] = []
    busy = threading.Lock()

    def progress(records: int, n_bytes: int) -> None:
        assert busy.acquire(blocking=False)
        told.append((records, n_bytes))
        busy.release()

    planned: list[Report] = []
    report = run(root, tmp_path / "x.lmdb", progress=progress, planned=planned.append)
    assert told == sorted(told)
    assert told[-1] == (report.records, report.input_bytes) == (planned[0].records, planned[0].input_bytes)


@pytest.mark.parametrize("lost", [["c1/3.jpg"], ["c0/large.jpg"]])
def test_progress_counts_what_is_left_out(lost: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "LARGEST_EXTENT", 12_288)
    root = make_tree(make_classes(tmp_path / "src"), {"c0/large.jpg": JPEG + bytes(50_000)})
    told: list[tuple[int, int]] = []
    planned: list[Report] = []

    def change(plans: Report) -> None:
        planned.append(plans)
        vanish(*(root / name for name in lost))(plans)

    done: dict[str, Any] = {"progress": lambda *count: told.append(count), "planned": change, "on_error": "skip"}
    assert len(run(root, tmp_path / "x.lmdb", **done).skipped) == 1
    assert told[-1] == (planned[0].records, planned[0].input_bytes)


@pytest.mark.parametrize(
    "wrong", [{"kind": "cifar"}, {"workers": 0}, {"on_error": "warn"}, {"partition_size": 5}, {"align": 1000}]
)
def test_a_wrong_option_is_a_value_error_and_leaves_nothing(wrong: dict[str, Any], tmp_path: Path) -> None:
    root = make_classes(tmp_path / "src")
    with pytest.raises(ValueError, match="expected"):
        run(root, tmp_path / "x.lmdb", **wrong)
    assert names(tmp_path) == ["src"]


def test_no_split_stands_where_another_failed(tmp_path: Path) -> None:
    for split in ("train", "val"):
        make_classes(tmp_path / "src" / split)
    lost = next((tmp_path / "src/val").rglob("*.jpg"))
    with pytest.raises(SourceError, match=lost.name):
        convert(tmp_path / "src", tmp_path / "out", kind="imagenet", planned=lambda _: lost.unlink())
    assert not (tmp_path / "out").exists()


def test_misnamed_inputs_are_named(tmp_path: Path) -> None:
    make_tree(tmp_path / "src", ["a/1.jpg", "b/2.jpg"])
    (tmp_path / "src/b/2.jpg").write_bytes(b"GIF89a")
    found = convert(tmp_path / "src", tmp_path / "x.lmdb", kind="folder").databases[0]
    assert str(tmp_path / "src/b/2.jpg") in found.misnamed_paths
