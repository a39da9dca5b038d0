import json
from pathlib import Path

import lmdb
import pytest

from lmdbio.layout import Index
from tests.cli.commands import MakeFolder, Run


def _records(database: Path) -> dict[bytes, bytes]:
    with lmdb.open(str(database), readonly=True, lock=False) as environment, environment.begin() as txn:
        return dict(txn.cursor())


def test_a_folder_becomes_a_database_with_its_index(run: Run, make_folder: MakeFolder, tmp_path: Path) -> None:
    source, out = make_folder(), tmp_path / "out.lmdb"
    told = run("lmdbio-convert", "folder", source, out).ok()
    assert "10 records" in told
    assert f"{out}/data.mdb.index" in told
    assert "MB/s" in told
    assert len(_records(out)) == len(Index.open(out)) == 10
    run("lmdbio", "verify", out, "--cross-check").ok()


def test_the_splits_of_imagenet_become_a_database_each(run: Run, make_folder: MakeFolder, tmp_path: Path) -> None:
    files = {f"{split}/n0{number}/{number}.JPEG": 5000 for split in ("train", "val") for number in range(6)}
    told = run("lmdbio", "convert", "imagenet", make_folder(files), tmp_path / "out").ok()
    assert "12 records" in told
    for split in ("train", "val"):
        assert len(_records(tmp_path / "out" / f"{split}.lmdb")) == 6
        assert f"{split}.lmdb/data.mdb.index" in told


def test_every_option_reaches_the_library(run: Run, make_folder: MakeFolder, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ["--order", "stratified", "--seed", "7", "--partitions", "3", "--align", "8KiB", "--value", "raw"]
    options += ["--key", "path", "--no-checksum", "--workers", "1", "--limit", "8"]
    source = make_folder({f"{word}/{number}.jpg": 6000 for word in ("cat", "dog") for number in range(5)})
    told = json.loads(run("lmdbio-convert", "folder", source, out, *options, "--json").ok())
    index = Index.open(out)
    assert told["records"] == len(index) == 8
    assert told["databases"][0]["align"] == 8192
    assert told["databases"][0]["partitions"] == len(index.partitions) - 1 == 3
    assert index.checksums is None
    assert index.value_kind == "raw"
    assert all(key.startswith((b"cat/", b"dog/")) for key in _records(out))
    assert index.source is not None
    assert (index.source["seed"], index.source["order"], index.source["key"]) == (7, "stratified", "path")


def test_equal_options_give_equal_bytes_and_another_seed_does_not(
    run: Run, make_folder: MakeFolder, tmp_path: Path
) -> None:
    source = make_folder()
    for name, seed in (("a", "0"), ("b", "0"), ("c", "1")):
        run("lmdbio-convert", "folder", source, tmp_path / name, "--seed", seed, "--quiet").ok()
    a, b, c = ([(tmp_path / n / f).read_bytes() for f in ("data.mdb", "data.mdb.index")] for n in "abc")
    assert a == b
    assert a[0] != c[0]


def test_a_dry_run_tells_all_and_writes_nothing(run: Run, make_folder: MakeFolder, tmp_path: Path) -> None:
    source, out = make_folder(), tmp_path / "out"
    told = run("lmdbio-convert", "folder", source, out, "--dry-run").ok()
    for word in ("would write", "records", "partitions", "file", "free space"):
        assert word in told
    planned = json.loads(run("lmdbio-convert", "folder", source, out, "--dry-run", "--json").ok())
    assert planned["dry_run"] is True
    assert not list(tmp_path.glob("out*"))
    made = json.loads(run("lmdbio-convert", "folder", source, out, "--json").ok())
    assert made["records"] == planned["records"] == 10
    assert made["file_size"] == planned["file_size"] == (out / "data.mdb").stat().st_size


def test_quiet_says_nothing(run: Run, make_folder: MakeFolder, tmp_path: Path) -> None:
    assert run("lmdbio-convert", "folder", make_folder(), tmp_path / "out", "--quiet").ok() == ""


def test_overwrite_replaces_a_database(run: Run, make_folder: MakeFolder, database: Path, tmp_path: Path) -> None:
    other = make_folder({"bird/1.jpg": 10}, name="other")
    run("lmdbio-convert", "folder", other, database, "--overwrite").ok()
    assert len(_records(database)) == 1
    assert sorted(path.name for path in tmp_path.glob("made*")) == ["made.lmdb"]


def test_what_was_passed_over_and_why_is_told(run: Run, make_folder: MakeFolder, tmp_path: Path) -> None:
    files = {"cat/1.jpg": 10, "cat/.DS_Store": 10, "cat/._1.jpg": 10, "cat/2.jpg": 0, "dog/x.txt": 10}
    done = run("lmdbio-convert", "folder", make_folder(files), tmp_path / "out", "--on-error", "skip")
    assert done.status == 1
    for word in (".DS_Store", "AppleDouble", "image's extension", "left out", "cat/2.jpg", "empty"):
        assert word in done.out
    assert "1 of them empty" in done.out


def test_long_keys_are_cut_and_counted(run: Run, make_folder: MakeFolder, tmp_path: Path) -> None:
    deep = "/".join(["d" * 100] * 6)
    told = run("lmdbio-convert", "folder", make_folder({f"cat/{deep}/1.jpg": 10}), tmp_path / "out").ok()
    assert "at 511 bytes" in told
    assert [len(key) for key in _records(tmp_path / "out")] == [511]


@pytest.mark.parametrize("environment", [{}, {"LC_ALL": "C"}])
def test_a_source_may_be_relative_and_have_blanks(
    run: Run, make_folder: MakeFolder, tmp_path: Path, environment: dict[str, str]
) -> None:
    make_folder({"a cat/1 é.jpg": 10}, name="my pictures")
    run("lmdbio-convert", "folder", "../my pictures", "../my out.lmdb", **environment).ok()
    assert list(_records(tmp_path / "my out.lmdb")) == ["00000000_a cat/1 é.jpg".encode()]
