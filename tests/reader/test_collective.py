"""Every rank gets its own batches by reading together; one that fails or leaves is told to all. Ranks are threads."""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmdbio.errors import ReadError
from lmdbio.layout import Index
from lmdbio.layout.pool import BufferPool
from lmdbio.reader.collective import CollectiveLoader
from lmdbio.reader.epoch import EpochReader
from lmdbio.reader.fetch import RecordFile
from lmdbio.reader.meter import Meter
from lmdbio.reader.options import ReadOptions
from lmdbio.reader.request import Request
from lmdbio.reader.sequence import ORDERS, Order, Sequence, Steps
from lmdbio.reader.together import TogetherPlanner, options_together
from lmdbio.reader.unit import Unit
from tests.reader.made import make_datum_database, stock_values

SIZES = [3000, 0, 20_000, 7] * 30
N = len(SIZES)
N_RANKS = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("collective") / "a.lmdb"
    make_datum_database(folder, SIZES)
    return folder


class Meeting:
    """Where the threads that stand for ranks wait for each other, not for ever."""

    def __init__(self) -> None:
        self._barrier = threading.Barrier(N_RANKS, timeout=30)
        self._said: list[Any] = [None] * N_RANKS

    def exchange(self, rank: int, said: Any) -> list[Any]:
        self._said[rank] = said
        self._barrier.wait()
        everything = list(self._said)
        self._barrier.wait()
        return everything


class FakeFile:
    """What MPI-IO is to one rank: every call waits for all ranks, and must be the same call on each."""

    def __init__(self, rank: int, path: Path, meeting: Meeting, *, is_alone: bool = False) -> None:
        self._rank, self._path, self._meeting = rank, path, meeting
        self.is_alone = is_alone
        self.is_lost = False
        self.sizes: list[int] = []  # bytes of each read
        self.trouble: BaseException | None = None  # what the next read ends with on this rank

    def read(self, request: Request, buffer: np.ndarray) -> None:
        assert set(self._meeting.exchange(self._rank, "read")) == {"read"}
        self.sizes.append(request.size)
        if self.trouble is not None:
            raise self.trouble
        place = 0
        with self._path.open("rb") as file:
            for offset, length in zip(request.offsets.tolist(), request.lengths.tolist(), strict=True):
                file.seek(offset)
                content = np.frombuffer(file.read(length), np.uint8)
                buffer[place : place + len(content)] = content
                place += length
        assert place == request.size

    def highest(self, number: int) -> int:
        everything = self._meeting.exchange(self._rank, ("highest", int(number)))
        assert {name for name, _ in everything} == {"highest"}
        return max(number for _, number in everything)

    def allgather(self, said: Any) -> list[Any]:
        return self._meeting.exchange(self._rank, said)

    def lose(self) -> None:
        self.is_lost = True


class Rank:
    """One rank's epoch over a database."""

    def __init__(
        self,
        folder: Path,
        rank: int,
        meeting: Meeting,
        *,
        order: Order = "sequential",
        batch_size: int = 4,
        shares_errors: bool = True,
        is_alone: bool = False,
    ) -> None:
        index = Index.open(folder)
        path = folder / "data.mdb"
        sequence = Sequence(
            N, index.layout_order, index.partitions, order=order, seed=1, epoch=0, streams=4, shuffle_window=1
        )
        self.steps = Steps(N, streams=sequence.streams, world_size=N_RANKS, batch_size=batch_size, drop_last=False)
        self.wanted = [sequence.records(self.steps.positions(step, rank)).tolist() for step in range(len(self.steps))]
        self.file = FakeFile(rank, path, meeting, is_alone=is_alone)
        source = RecordFile(path)
        options = options_together(
            ReadOptions(coalesce=50_000), page_size=4096, record_size=5800, prefetch_bytes=1 << 20
        )
        self.planner = TogetherPlanner(
            index,
            sequence,
            self.steps,
            rank=rank,
            world_size=N_RANKS,
            batch_size=batch_size,
            space=source.space,
            options=options,
            align=1,
            record_size=5800,
            group_span=int(np.diff(index.partitions).max()) if order == "block" else None,
        )
        self.loader = CollectiveLoader(
            self.planner.units_together(10),
            file=self.file,
            source=source,
            index=index,
            pool=BufferPool(keep=1 << 20),
            shares_errors=shares_errors,
            meter=Meter(),
        )
        self.batches = EpochReader(
            index=index,
            source=source,
            loader=self.loader,
            pool=BufferPool(keep=0),
            epoch=0,
            steps=self.steps,
            verify="none",
            on_error=lambda error: None,
            meter=Meter(),
            prefetch_bytes=1 << 20,
        )

    def read(self) -> list[tuple[list[int], list[bytes]]]:
        return [(batch.indices.tolist(), [bytes(value) for value in batch.values]) for batch in self.batches]


def on_all(folder: Path, work: Callable[[int, Rank], Any], **options: Any) -> list[Any]:
    """Return what the work returns, or raises, on each rank."""
    meeting = Meeting()

    def run(number: int) -> Any:
        rank = Rank(folder, number, meeting, **options)
        try:
            return work(number, rank)
        except Exception as exc:  # noqa: BLE001  # the test looks at it
            return exc
        finally:
            rank.batches.close()

    with ThreadPoolExecutor(N_RANKS) as executor:
        return list(executor.map(run, range(N_RANKS)))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("batch_size", [1, 7, 50])
def test_every_rank_gets_its_batches(folder: Path, order: Order, batch_size: int) -> None:
    values = stock_values(folder)

    def read(number: int, rank: Rank) -> list[int]:
        batches = rank.read()
        assert [records for records, _ in batches] == rank.wanted
        assert all(got == [values[record] for record in records] for records, got in batches)
        return rank.file.sizes

    sizes = on_all(folder, read, order=order, batch_size=batch_size)
    assert all(isinstance(one, list) for one in sizes), sizes
    assert len({len(one) for one in sizes}) == 1


@pytest.mark.parametrize("cause", ["it closes the epoch", "it cannot plan"])
def test_a_rank_that_leaves_is_told_to_the_others(folder: Path, cause: str) -> None:
    def read(number: int, rank: Rank) -> object:
        first = next(rank.batches)
        if number == 1:
            if cause == "it closes the epoch":
                rank.batches.close()
            else:
                rank.loader._units = unplannable()
                with pytest.raises(ReadError, match="cut short"):
                    rank.read()
            return len(first)
        return rank.read()

    told = on_all(folder, read)
    assert told[1] == 4
    for error in (told[0], told[2]):
        assert isinstance(error, RuntimeError)
        assert "found that rank 1 has left it before its end" in str(error)


def unplannable() -> Iterator[Unit]:
    """Fail at the first unit, and end by that, as a generator does."""
    yield from ()
    raise ReadError("a", 0, 0, "cut short")


def test_all_may_leave_at_the_same_step(folder: Path) -> None:
    assert on_all(folder, lambda number, rank: len(next(rank.batches))) == [4] * N_RANKS


def test_after_the_last_unit_leaving_is_nothing_to_tell(folder: Path) -> None:
    def read(number: int, rank: Rank) -> int:
        while rank.loader.peek() is not None:
            next(rank.batches)
        n_reads = len(rank.file.sizes)
        rank.batches.close()
        return len(rank.file.sizes) - n_reads

    assert on_all(folder, read) == [0] * N_RANKS


def test_a_file_cut_short_is_the_same_error_on_every_rank(tmp_path: Path) -> None:
    make_datum_database(tmp_path / "a.lmdb", SIZES)
    offset, length = (int(part[0]) for part in Index.open(tmp_path / "a.lmdb").extents(np.array([110])))

    def read(number: int, rank: Rank) -> object:
        rank.file.allgather("has opened the file")
        if number == 0:
            os.truncate(tmp_path / "a.lmdb" / "data.mdb", offset + length - 1)
        rank.file.allgather("finds it short")
        return rank.read()

    told = on_all(tmp_path / "a.lmdb", read)
    assert all(isinstance(error, ReadError) for error in told), told
    assert {str(error) for error in told} == {str(told[0])}
    assert (told[0].key, told[0].offset, told[0].length) == (b"00000110_x.JPEG", offset, length)
    assert f"found {length - 1} before the file ends" in str(told[0])


def test_an_error_of_mpi_is_shared_where_no_rank_reads_for_another(folder: Path) -> None:
    def read(number: int, rank: Rank) -> object:
        next(rank.batches)
        if number == 2:
            rank.file.trouble = ReadError("a", 0, 100, "found an error of MPI-IO: EIO")
        try:
            return rank.read()
        finally:
            assert not rank.file.is_lost

    told = on_all(folder, read, is_alone=True)
    assert [str(error) for error in told] == [str(told[0])] * N_RANKS
    assert "found an error of MPI-IO: EIO" in str(told[0])


def test_after_an_error_of_mpi_one_rank_expects_nothing_of_the_others(folder: Path) -> None:
    rank = Rank(folder, 0, Alone())
    rank.file.trouble = ReadError("a", 0, 100, "found an error of MPI-IO: EIO")
    with pytest.raises(ReadError, match="MPI-IO: EIO"):
        next(rank.batches)
    assert rank.file.is_lost
    rank.batches.close()
    assert len(rank.file.sizes) == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError()])
def test_after_an_interrupt_within_a_read_one_rank_expects_nothing_of_the_others(
    folder: Path, error: BaseException
) -> None:
    rank = Rank(folder, 0, Alone())
    rank.file.trouble = error
    with pytest.raises(type(error)):
        next(rank.batches)
    assert rank.file.is_lost
    rank.batches.close()
    assert len(rank.file.sizes) == 1
    with pytest.raises(RuntimeError, match="found it closed"):
        rank.loader.peek()


class Alone(Meeting):
    """A meeting to which only one comes."""

    def exchange(self, rank: int, said: Any) -> list[Any]:
        return [said]
