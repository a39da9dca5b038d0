"""An epoch gives every record once, the same at every world size; errors say which record and end the job."""

import gc
import itertools
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.errors import MissingIndexError
from lmdbio.layout import build_index
from lmdbio.layout.writer import write_database
from lmdbio.reader import ParallelReader, ReadOptions, fetch
from lmdbio.reader.sequence import ORDERS, Order
from tests.reader.made import make_datum_database, stock_values

SIZES = [0, 1, 100, 3000, 5000, 20_000, 40_000] * 29
N = len(SIZES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parallel") / "a.lmdb"
    make_datum_database(folder, SIZES)
    return folder


@pytest.fixture(scope="module")
def values(folder: Path) -> list[bytes]:
    return stock_values(folder)


def epoch(folder: Path, world_size: int, **options: object) -> list[list[int]]:
    """Return the records of each step, of all ranks end to end, with values checked by the caller's fixture."""
    readers = [ParallelReader(folder, rank=rank, world_size=world_size, **options) for rank in range(world_size)]
    steps = []
    for batches in zip(*readers, strict=True):
        assert len({len(batch) for batch in batches}) == 1
        steps.append([number for batch in batches for number in batch.indices.tolist()])
    assert {len(reader) for reader in readers} == {len(steps)}
    for reader in readers:
        reader.close()
    return steps


@given(
    st.sampled_from(ORDERS),
    st.integers(1, 70),
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from([1, 30_000, 4 << 20]),
    st.booleans(),
)
def test_every_record_comes_once_and_is_what_stock_lmdb_reads(
    folder: Path, values: list[bytes], order: Order, batch_size: int, world_size: int, drop_last: bool, coalesce, cold
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if cold:
            patch.setattr(fetch.RecordFile, "read_cached", lambda self, offset, buffer: 0)
        seen: list[int] = []
        for rank in range(world_size):
            with ParallelReader(
                folder,
                rank=rank,
                world_size=world_size,
                batch_size=batch_size,
                order=order,
                drop_last=drop_last,
                streams=3,
                options=ReadOptions(coalesce=coalesce, read_size=1 << 14, depth=3),
                verify="checksum",
            ) as reader:
                for batch in reader:
                    for number, value, data, label in zip(
                        batch.indices.tolist(), batch.values, batch.data, batch.labels.tolist(), strict=True
                    ):
                        assert value == values[number]
                        assert (len(data), label) == (SIZES[number], number % 7)
                        seen.append(number)
    global_batch = batch_size * world_size
    expected = N // global_batch * global_batch if drop_last else N + -N % world_size
    assert len(seen) == expected
    assert len(set(seen)) == min(expected, N)


@pytest.mark.parametrize("order", ORDERS)
def test_the_sequence_is_the_same_at_every_world_size(folder: Path, order: Order) -> None:
    alone, *others = [
        epoch(folder, size, batch_size=12 // size, order=order, streams=4, seed=5) for size in (1, 2, 3, 4)
    ]
    for steps in others:
        assert steps[:-1] == alone[:-1]
        assert set(alone[-1]) <= set(steps[-1]) <= set(alone[-1]) | set(alone[0])


def test_epochs_differ_and_repeat(folder: Path) -> None:
    with ParallelReader(folder, batch_size=50, order="block", seed=1) as reader:

        def read() -> list[int]:
            return [number for batch in reader for number in batch.indices.tolist()]

        first, second = read(), read()
        assert reader.epoch == 1
        reader.set_epoch(0)
        assert read() == first
        reader.set_epoch(1)
        assert read() == second
        reader.set_epoch(7)
        read()
        assert reader.epoch == 7
        assert sorted(first) == sorted(second) == list(range(N))
        assert first != second
        with pytest.raises(ValueError, match="epoch: expected 0 or more, found -1"):
            reader.set_epoch(-1)
        with pytest.raises(TypeError):
            reader.set_epoch(1.5)


def test_a_second_iteration_ends_the_first(folder: Path) -> None:
    with ParallelReader(folder, batch_size=10) as reader:
        first = iter(reader)
        next(first)
        second = iter(reader)
        assert reader.epoch == 1
        with pytest.raises(RuntimeError, match="another was begun"):
            next(first)
        assert len(list(second)) == len(reader)
        assert list(second) == []


def test_batches_that_are_kept_stay_good(folder: Path, values: list[bytes]) -> None:
    with ParallelReader(folder, batch_size=16, order="block") as reader:
        kept = list(reader)
    kept_views = [view for batch in kept for view in batch.values]
    numbers = [number for batch in kept for number in batch.indices.tolist()]
    del kept
    gc.collect()
    assert [bytes(view) for view in kept_views] == [values[number] for number in numbers]


def test_closing_with_reads_in_flight_ends_all_threads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch.RecordFile, "read_cached", lambda self, offset, buffer: 0)
    reader = ParallelReader(folder, batch_size=4, options=ReadOptions(coalesce=1))
    next(iter(reader))
    reader.close()
    reader.close()
    assert not any(thread.name == "lmdbio-read" for thread in threading.enumerate())
    with pytest.raises(ValueError, match="found it closed"):
        iter(reader)


def test_descriptors_and_threads_do_not_pile_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch.RecordFile, "read_cached", lambda self, offset, buffer: 0)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(200):
        reader = ParallelReader(folder, batch_size=50)
        next(iter(reader))
        reader.close()
    for _ in range(10):
        next(iter(ParallelReader(folder, batch_size=50)))  # dropped, not closed
    gc.collect()
    for thread in threading.enumerate():
        if thread.name == "lmdbio-read":
            thread.join(5)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("n_records", [0, 1, 2])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("drop_last", [False, True])
def test_tiny_databases_are_read_by_more_ranks_than_records(
    tmp_path: Path, n_records: int, order: Order, drop_last: bool
) -> None:
    make_datum_database(tmp_path / "a.lmdb", [100] * n_records)
    steps = epoch(tmp_path / "a.lmdb", 4, batch_size=3, order=order, drop_last=drop_last)
    if drop_last or not n_records:
        assert steps == []
    else:
        assert len(steps) == 1
        assert sorted(set(steps[0])) == list(range(n_records))
        assert len(steps[0]) == 4


@pytest.mark.parametrize("order", ["sequential", "block"])
@pytest.mark.parametrize("cold", [False, True])
def test_what_is_written_to_a_batch_is_in_no_other(
    tmp_path: Path, order: Order, cold: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if cold:
        monkeypatch.setattr(fetch.RecordFile, "read_cached", lambda self, offset, buffer: 0)
    for n_records in (1, 2, 5, 20):
        records = [(b"%08d" % number, b"%05d" % number * 20) for number in range(n_records)]
        path = tmp_path / f"{n_records}.mdb"
        write_database(path, records)
        build_index(path).save(f"{path}.index")
        for world_size, batch_size in itertools.product((2, 3, 8), (1, 3, 7)):
            for rank in range(world_size):
                with ParallelReader(
                    path, rank=rank, world_size=world_size, batch_size=batch_size, order=order
                ) as reader:
                    for batch in reader:
                        for number, value in zip(batch.indices.tolist(), batch.values, strict=True):
                            assert value == records[number][1]
                            value[:] = bytes(len(value))


def test_equal_records_are_one_array(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    records = [(b"%08d" % number, rng.bytes(3072)) for number in range(100)]
    write_database(tmp_path / "a.mdb", records)
    build_index(tmp_path / "a.mdb").save(tmp_path / "a.mdb.index")
    for order, world_size in itertools.product(ORDERS, (1, 2)):
        with ParallelReader(tmp_path / "a.mdb", rank=0, world_size=world_size, batch_size=7, order=order) as reader:
            for batch in reader:
                assert batch.array.shape == (len(batch), 3072)
                assert [row.tobytes() for row in batch.array] == [records[number][1] for number in batch.indices]
                assert (batch.labels == -1).all()


def test_works_without_a_sidecar(folder: Path, values: list[bytes], tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes((folder / "data.mdb").read_bytes())
    with ParallelReader(tmp_path, batch_size=100) as reader:
        read = {
            number: bytes(value) for batch in reader for number, value in zip(batch.indices, batch.values, strict=True)
        }
        assert [read[number] for number in range(N)] == values
    with pytest.raises(MissingIndexError):
        ParallelReader(tmp_path, batch_size=100, index=tmp_path / "none")
    with ParallelReader(tmp_path, batch_size=100, index=folder / "data.mdb.index") as reader:
        assert reader.index.value_kind == "datum"


def test_memory_held_ahead_is_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch.RecordFile, "read_cached", lambda self, offset, buffer: 0)
    with ParallelReader(folder, batch_size=8, prefetch_bytes=200_000, options=ReadOptions(coalesce=50_000)) as reader:
        epoch_reader = iter(reader)
        for _ in epoch_reader:
            assert epoch_reader._loader._window.held <= 200_000 + 8 * 40_000


def test_block_order_reads_whole_groups_from_the_first_step_where_the_file_is_not_in_memory(
    folder: Path, values: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    read_cached = fetch.RecordFile.read_cached

    def recorded(file: fetch.RecordFile, offset: int, buffer: memoryview) -> int | None:
        reads.append(buffer.nbytes)
        return read_cached(file, offset, buffer)

    monkeypatch.setattr(fetch.RecordFile, "read_cached", recorded)
    n_reads = {}
    for is_cold in (True, False):
        monkeypatch.setattr(fetch.RecordFile, "is_cold", lambda file, is_cold=is_cold: is_cold)
        reads.clear()
        with ParallelReader(folder, batch_size=4, order="block", options=ReadOptions(coalesce=1)) as reader:
            for batch in reader:
                assert [bytes(value) for value in batch.values] == [values[number] for number in batch.indices.tolist()]
        n_reads[is_cold] = len(reads)
    assert 3 * n_reads[True] < n_reads[False]
