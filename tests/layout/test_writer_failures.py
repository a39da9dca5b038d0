"""What fails on the way leaves no database, and says why."""

import os
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lmdbio.errors import SourceError, TargetError
from lmdbio.layout.writer import DatabaseWriter, write_database
from tests.layout.databases import stock_records
from tests.layout.new_databases import assert_no_database, data_file, plan_of, write_regions
from tests.layout.record_sets import make_records


def test_a_file_without_its_end_is_no_database():
    records = make_records(50, page_size=4096, seed=2, keys="any", values="mixed", order="shuffled")
    with data_file() as path:
        with DatabaseWriter(path, plan_of(records)) as writer:
            assert_no_database(path)
            write_regions(writer, records)
            assert_no_database(path)
        assert_no_database(path)


def test_a_region_left_out_or_a_second_end_is_an_error():
    records = [(b"a", bytes(5000)), (b"b", bytes(5000))]
    with data_file() as path, DatabaseWriter(path, plan_of(records, n_partitions=2)) as writer:
        write_regions(writer, records, regions=[1])
        with pytest.raises(ValueError, match="region 0 missing"):
            writer.finish()
        assert_no_database(path)
        write_regions(writer, records, regions=[0])
        steps: list[str] = []
        writer.finish(progress=steps.append)
        assert steps == ["trees", "sync", "commit"]
        with pytest.raises(ValueError, match="finished"):
            writer.finish()


def test_a_target_that_exists_is_left_alone():
    with data_file() as path:
        path.write_bytes(b"precious")
        with pytest.raises(TargetError, match="expected no file, found one"):
            write_database(path, [(b"a", b"b")])
        assert path.read_bytes() == b"precious"


@pytest.fixture
def small_disk(tmp_path: Path):
    path = tmp_path / "small"
    path.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(path)], capture_output=True)
    if mount.returncode:
        pytest.skip("mounting a small file system needs root")
    yield path
    subprocess.run(["umount", str(path)], check=True)


@pytest.mark.parametrize("direct", [False, True])
def test_a_full_disk_is_named_and_leaves_no_database(small_disk: Path, direct: bool):
    records = make_records(40, page_size=4096, seed=2, keys="any", values="large", order="shuffled")
    path = small_disk / "data.mdb"
    with DatabaseWriter(path, plan_of(records), direct=direct) as writer:
        with pytest.raises(TargetError, match=r"data\.mdb: cannot write: no space left on device: make room"):
            write_regions(writer, records)
        assert_no_database(path)
    path.unlink()
    with pytest.raises(TargetError, match="no space left"):
        write_database(path, records, direct=direct)
    assert not path.exists()


@pytest.mark.parametrize("failing", ["trees", "sync", "commit"])
def test_a_failure_at_the_end_leaves_no_database(monkeypatch: pytest.MonkeyPatch, failing: str):
    records = [(b"a", bytes(5000)), (b"b", bytes(5000))]
    state = {"step": ""}

    def failing_version(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            if state["step"] == failing:
                state["step"] = "failed"
                raise OSError(5, "Input/output error")
            return real(*arguments)

        return call

    for name in ("pwritev", "fsync"):
        monkeypatch.setattr(os, name, failing_version(getattr(os, name)))
    with data_file() as path, DatabaseWriter(path, plan_of(records, n_partitions=2)) as writer:
        write_regions(writer, records)
        with pytest.raises(TargetError, match="input/output error: the device reports an error"):
            writer.finish(progress=lambda step: state.update(step=step))
        assert_no_database(path)


def test_a_failed_last_sync_takes_the_commit_back(monkeypatch: pytest.MonkeyPatch):
    records = [(b"a", bytes(5000))]
    calls = []
    real = os.fsync

    def failing_sync(fd: int) -> None:
        calls.append(fd)
        if len(calls) == 2:
            raise OSError(5, "Input/output error")
        real(fd)

    monkeypatch.setattr(os, "fsync", failing_sync)
    with data_file() as path, DatabaseWriter(path, plan_of(records)) as writer:
        write_regions(writer, records)
        with pytest.raises(TargetError):
            writer.finish()
        assert_no_database(path)


def test_an_error_of_one_thread_does_not_stop_the_others():
    records = [(b"%02d" % number, bytes([number]) * 200_000) for number in range(40)]
    plan = plan_of(records, n_partitions=20)
    failed = threading.Event()

    def one(writer: DatabaseWriter, region: int) -> None:
        wanted = plan.region_records(region).tolist()
        if region == 3:
            with pytest.raises(SourceError):
                writer.write_region(region, [[b"short"]] * len(wanted))
            failed.set()
        writer.write_region(region, [[records[record][1]] for record in wanted])

    with data_file() as path:
        with DatabaseWriter(path, plan, direct=True) as writer, ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda region: one(writer, region), range(plan.n_regions)))
            writer.finish()
        assert failed.is_set()
        assert stock_records(path) == records
