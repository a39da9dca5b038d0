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

from lmdbio.comm import SingleProcess
from lmdbio.errors import ChecksumError, MissingDatabaseError, MissingIndexError, ReadError, StaleIndexError
from lmdbio.layout import Index, build_index
from lmdbio.layout.writer import write_database
from lmdbio.reader import ParallelReader, ReadOptions, fetch, opening
from lmdbio.reader.sequence import ORDERS, Order
from tests.reader.made import make_datum_database, overwrite, stock_values

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


class FailedJobError(BaseException):
    """What a communicator's Abort is in these tests."""


class Rank(SingleProcess):
    """One of several ranks, alone: the others are said to agree."""

    def __init__(self, rank: int, size: int) -> None:
        self._rank, self._size = rank, size

    def Get_rank(self) -> int:
        return self._rank

    def Get_size(self) -> int:
        return self._size

    def allgather(self, sendobj: object) -> list[object]:
        return [sendobj] * self._size

    def Abort(self, errorcode: int = 0) -> None:
        raise FailedJobError(errorcode)


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"io": "node"}, "io: expected independent or collective, found 'node'"),
        ({"order": "shuffle"}, "order: expected"),
        ({"batch_size": 0}, "batch_size: expected 1 or more"),
        ({"prefetch_bytes": 0}, "prefetch_bytes: expected 1 or more"),
        ({"prefetch_bytes": 700_000, "order": "block"}, "prefetch_bytes: expected 1437387 or more, .* found 700000"),
        ({"rank": 0}, "rank, world_size: expected both or neither"),
        ({"rank": 0, "world_size": 10**12}, "world_size: expected 1048576 or less, found 1000000000000"),
        ({"streams": 1 << 40, "order": "block"}, "streams: expected 65536 or less"),
        ({"batch_size": 1 << 70}, "batch_size: expected 1099511627776 or less"),
    ],
)
def test_a_bad_argument_is_named(folder: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ParallelReader(folder, **({"batch_size": 1} | options))


def test_a_missing_database_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingDatabaseError, match=r"none\.lmdb"):
        ParallelReader(tmp_path / "none.lmdb", batch_size=1)


def test_checksums_that_are_not_there_cannot_be_verified(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes((folder / "data.mdb").read_bytes())
    with pytest.raises(ValueError, match=r"verify: expected an index with checksums.*lmdbio-index --checksum"):
        ParallelReader(tmp_path, batch_size=1, verify="checksum")


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A database with one byte of record 104 changed where no fingerprint looks."""
    make_datum_database(tmp_path / "a.lmdb", SIZES)
    with ParallelReader(tmp_path / "a.lmdb", batch_size=1) as reader:
        offset = int(reader.index.offsets[104])
    overwrite(tmp_path / "a.lmdb" / "data.mdb", offset + 5000, b"?!")
    return tmp_path / "a.lmdb"


@pytest.mark.parametrize("order", ORDERS)
def test_damage_is_found_by_checksum_and_named(damaged: Path, order: Order) -> None:
    with (
        ParallelReader(damaged, batch_size=10, verify="checksum", order=order) as reader,
        pytest.raises(
            ChecksumError, match=r"data.mdb: key b'00000104_x.JPEG', .* bytes at offset .*: expected checksum"
        ),
    ):
        list(reader)
    with ParallelReader(damaged, batch_size=10, order=order) as reader:
        assert len(list(reader)) == len(reader)


def cut_short(reader: ParallelReader, number: int) -> tuple[int, int]:
    """Cut the file one byte before the record's end, and return its extent."""
    offset, length = (int(part[0]) for part in reader.index.extents(np.array([number])))
    os.truncate(reader._file.path, offset + length - 1)
    return offset, length


def test_a_record_that_cannot_be_read_is_an_error_at_its_step(tmp_path: Path) -> None:
    make_datum_database(tmp_path / "a.lmdb", [3000] * N)
    with ParallelReader(tmp_path / "a.lmdb", batch_size=10, options=ReadOptions(coalesce=1)) as reader:
        offset, length = cut_short(reader, 195)
        batches = iter(reader)
        for _ in range(19):
            next(batches)
        with pytest.raises(ReadError, match=r"key b'00000195_x.JPEG', expected .* before the file ends") as caught:
            next(batches)
        assert (caught.value.offset, caught.value.length) == (offset, length)


def test_an_error_of_one_of_several_ranks_ends_the_job_with_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_datum_database(tmp_path / "a.lmdb", [3000] * N)
    reader = ParallelReader(tmp_path / "a.lmdb", comm=Rank(0, 2), batch_size=10)
    offset, length = cut_short(reader, 185)
    with pytest.raises(FailedJobError):
        list(reader)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith(
        f"lmdbio: rank 0: {tmp_path / 'a.lmdb' / 'data.mdb'}: key b'00000185_x.JPEG', expected {length}"
    )
    assert f"at offset {offset}, found" in said
    reader.close()


def test_an_error_is_left_to_the_caller_where_asked(tmp_path: Path) -> None:
    make_datum_database(tmp_path / "a.lmdb", [3000] * N)
    with (
        pytest.raises(ReadError),
        ParallelReader(tmp_path / "a.lmdb", comm=Rank(0, 2), batch_size=10, on_error="raise") as reader,
    ):
        cut_short(reader, 185)
        list(reader)


def test_an_exception_that_leaves_the_with_block_ends_the_job(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(FailedJobError), ParallelReader(folder, comm=Rank(0, 2), batch_size=10):
        raise KeyError("of the training loop")
    said = capsys.readouterr().err
    assert said.startswith("lmdbio: rank 0: Traceback")
    assert "KeyError: 'of the training loop'" in said


@pytest.mark.parametrize(
    ("leaving", "status", "text"),
    [
        (SystemExit(3), 3, "ended by sys.exit(3)"),
        (SystemExit(256), 1, "ended by sys.exit(256)"),
        (SystemExit("no more data"), 1, "no more data"),
    ],
)
def test_leaving_by_a_status_ends_the_job_with_it_and_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], leaving: SystemExit, status: int, text: str
) -> None:
    with pytest.raises(FailedJobError) as caught, ParallelReader(folder, comm=Rank(0, 2), batch_size=10):
        raise leaving
    assert caught.value.args == (status,)
    assert capsys.readouterr().err == f"lmdbio: rank 0: {text}\n"


def test_another_file_than_was_indexed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_datum_database(tmp_path / "a.lmdb", SIZES)
    index = Index.open(tmp_path / "a.lmdb")
    monkeypatch.setattr(opening, "open_index", lambda *_, **__: (index, True))
    overwrite(tmp_path / "a.lmdb" / "data.mdb", 4096 - 4, b"xxxx")
    with pytest.raises(StaleIndexError, match="found one with another metas on rank 0"):
        ParallelReader(tmp_path / "a.lmdb", comm=Rank(0, 2), batch_size=10)


@pytest.mark.parametrize("leaving", [SystemExit(0), SystemExit(), GeneratorExit()])
def test_ways_of_ending_in_order_do_not_abort(folder: Path, leaving: BaseException) -> None:
    with pytest.raises(type(leaving)), ParallelReader(folder, comm=Rank(0, 2), batch_size=10):
        raise leaving


def test_one_process_never_aborts(folder: Path) -> None:
    with pytest.raises(KeyError), ParallelReader(folder, comm=Rank(0, 1), batch_size=10):
        raise KeyError


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
