"""Warnings come where they are due, once, and nowhere else."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.layout import Index
from lmdbio.layout.file import DataFile
from lmdbio.layout.fingerprint import take_fingerprint
from lmdbio.layout.meta import read_meta
from lmdbio.reader import ParallelReader, ReadOptions, notices
from tests.reader.made import make_datum_database


@pytest.fixture(autouse=True)
def afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "_said", set())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("notices") / "a.lmdb"
    make_datum_database(folder, [3000] * 400)
    return folder


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records if record.name == "lmdbio.reader"]
    caplog.clear()
    return found


def relabelled(folder: Path, labels: np.ndarray, *, order: np.ndarray | None = None) -> Index:
    """Return the folder's index with these labels in layout order."""
    index = Index.open(folder)
    in_layout = np.arange(len(index)) if order is None else order
    by_number = np.empty(len(index), np.int64)
    by_number[in_layout] = labels
    with DataFile(folder / "data.mdb") as file:
        fingerprint = take_fingerprint(file, read_meta(file))
    return Index.make(
        fingerprint=fingerprint,
        page_size=4096,
        keys=index.keys.held,
        key_order="bytes",
        offsets=index.offsets,
        lengths=index.lengths,
        layout_order=order,
        labels=by_number,
    )


@pytest.mark.parametrize("shuffled", [False, True])
def test_sorted_classes_are_told_from_mixed_ones(folder: Path, shuffled: bool) -> None:
    rng = np.random.default_rng(0)
    order = rng.permutation(400) if shuffled else None
    rare = np.zeros(400, np.int64)
    rare[rng.choice(400, 12, replace=False)] = 1
    for labels, is_sorted in (
        (np.arange(400) // 20, True),
        (np.arange(400) // 200, True),
        (rng.permutation(np.arange(400) // 20), False),
        (rng.permutation(np.arange(400) // 200), False),
        (rare, False),
        (np.sort(rare), True),
        (np.zeros(400, np.int64), False),
        (np.arange(400), False),
    ):
        assert notices.is_class_sorted(relabelled(folder, labels, order=order)) == is_sorted


@given(st.integers(0, 2**32), st.integers(2, 50))
def test_chance_is_never_taken_for_sorted(folder: Path, seed: int, n_classes: int) -> None:
    labels = np.random.default_rng(seed).integers(0, n_classes, 400)
    assert not notices.is_class_sorted(relabelled(folder, labels))


def test_block_order_over_sorted_classes_is_warned_of_once(
    tmp_path: Path, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    index = tmp_path / "sorted.index"
    relabelled(folder, np.arange(400) // 20).save(index)
    for order, n in (("sequential", 0), ("global", 0), ("block", 1), ("block", 0)):
        ParallelReader(folder, batch_size=8, order=order, index=index).close()  # type: ignore[arg-type]
        found = messages(caplog)
        assert len(found) == n
        assert all("sorted by class" in line and "--order shuffle" in line for line in found)
    ParallelReader(folder, rank=1, world_size=2, batch_size=8, order="block", index=index).close()
    ParallelReader(folder, batch_size=8, order="block").close()
    assert messages(caplog) == []


def test_fewer_cpus_than_threads_are_warned_of(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    for n_cpus, depth, decode_threads, n in ((8, 32, None, 0), (2, None, None, 0), (1, None, None, 1), (4, 6, 5, 1)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, n_cpus=n_cpus: set(range(n_cpus)))
        ParallelReader(
            folder, batch_size=8, options=ReadOptions(depth=depth), decode=bytes, decode_threads=decode_threads
        ).close()
        found = messages(caplog)
        assert len(found) == n
        for line in found:
            assert f"may use {n_cpus} of 8 CPUs" in line
            assert "--cpus-per-task" in line
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    notices.warn_of_affinity(16)
    assert messages(caplog) == []


@pytest.mark.parametrize(
    ("system", "setting", "n"), [("nfs", "4\n", 1), ("nfs", "128\n", 0), (None, "4\n", 0), ("nfs", None, 0)]
)
def test_a_network_file_system_that_reads_a_page_ahead_is_warned_of(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    system: str | None,
    setting: str | None,
    n: int,
) -> None:
    monkeypatch.setattr(notices, "network_file_system", lambda fd: system)
    path = tmp_path / "file"
    path.touch()
    device = path.stat().st_dev
    place = tmp_path / f"sys/class/bdi/{os.major(device)}:{os.minor(device)}"
    place.mkdir(parents=True)
    if setting is not None:
        (place / "read_ahead_kb").write_text(setting)
    with path.open() as file:
        for _ in range(2):
            notices.warn_of_readahead(file.fileno(), str(path), root=tmp_path)
    found = messages(caplog)
    assert len(found) == n
    assert all("reads 4 KiB ahead" in line and "direct=True" in line for line in found)


def test_holding_on_to_many_batches_is_warned_of_and_goes_on(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    options = ReadOptions(coalesce=20_000)
    with ParallelReader(folder, batch_size=4, prefetch_bytes=100_000, options=options) as reader:
        held = list(reader)
        assert len(held) == len(reader)
        (line,) = messages(caplog)
        assert "of batches are held" in line
        assert "copy()" in line
        assert reader._pool.lent_size > 200_000
        del held
        reader.set_epoch(1)
        kept = [batch.copy() for batch in reader]
        assert sum(len(batch) for batch in kept) == 400
        assert messages(caplog) == []
        assert reader._pool.lent_size <= 200_000
