"""Bad arguments, damage and failures: which record it is, and the end of the job with one message."""

import os
from pathlib import Path

import numpy as np
import pytest

from lmdbio.comm import SingleProcess
from lmdbio.errors import ChecksumError, MissingDatabaseError, ReadError, StaleIndexError
from lmdbio.layout import Index
from lmdbio.reader import ParallelReader, ReadOptions, opening
from lmdbio.reader.sequence import ORDERS, Order
from tests.reader.made import make_datum_database, overwrite

SIZES = [0, 1, 100, 3000, 5000, 20_000, 40_000] * 29
N = len(SIZES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parallel") / "a.lmdb"
    make_datum_database(folder, SIZES)
    return folder


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
