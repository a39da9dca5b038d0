"""Indexes opened and built by several ranks: all get the same bytes, or raise alike."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI

from lmdbio.errors import FormatError, MissingDatabaseError, MissingIndexError, StaleIndexError
from lmdbio.layout import Index, build_index
from lmdbio.layout.broadcast import broadcast_bytes
from lmdbio.layout.writer import write_database

COMM = MPI.COMM_WORLD
RANK = COMM.Get_rank()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Give every rank rank 0's folder, and keep it until all are done."""
    yield Path(COMM.bcast(str(tmp_path)))
    COMM.Barrier()


@pytest.fixture
def database(folder: Path) -> Path:
    """A database with its index, written by rank 0; values of mixed sizes, keys out of layout order."""
    if RANK == 0:
        rng = np.random.default_rng(0)
        records = [(b"%d" % (i * 7919 % 500), rng.bytes(int(rng.choice([0, 100, 3000, 20_000])))) for i in range(500)]
        write_database(folder / "data.mdb", records, partition_size=1 << 20)
        build_index(folder, checksum=True).save(folder / "data.mdb.index")
    COMM.Barrier()
    return folder


def same_everywhere(content: bytes) -> bool:
    return len(set(COMM.allgather(content))) == 1


def errors_everywhere(error: BaseException) -> set[tuple[type[BaseException], str]]:
    return set(COMM.allgather((type(error), str(error))))


def test_every_rank_opens_the_same_index(database: Path) -> None:
    index = Index.open(database, comm=COMM)
    assert same_everywhere(index.to_bytes())
    assert same_everywhere(index.path.encode())
    assert index.to_bytes() == (database / "data.mdb.index").read_bytes()


def test_every_rank_builds_the_index_that_one_rank_builds(database: Path) -> None:
    done: list[tuple[int, int]] = []
    index = build_index(database, comm=COMM, checksum=True, progress=lambda *parts: done.append(parts))
    assert index.to_bytes() == (database / "data.mdb.index").read_bytes()
    assert sum(last[0] for last in COMM.allgather(done[-1] if done else (0, 0))) == len(index)


def test_more_ranks_than_records_take_checksums(folder: Path) -> None:
    if RANK == 0:
        write_database(folder / "data.mdb", [(b"a", b"b")])
    COMM.Barrier()
    index = build_index(folder, comm=COMM, checksum=True)
    assert same_everywhere(index.to_bytes())


def test_bytes_in_many_pieces_reach_every_rank() -> None:
    for root in range(COMM.Get_size()):
        held = np.arange(1000, dtype=np.uint8) if root == RANK else None
        assert np.arange(1000, dtype=np.uint8).tolist() == broadcast_bytes(COMM, held, root=root, piece=33).tolist()


def test_a_missing_index_is_an_error_of_every_rank(database: Path) -> None:
    if RANK == 0:
        (database / "data.mdb.index").unlink()
    with pytest.raises(MissingIndexError) as error:
        Index.open(database, comm=COMM)
    assert len(errors_everywhere(error.value)) == 1


def test_a_missing_database_is_an_error_of_every_rank(folder: Path) -> None:
    for call in (Index.open, build_index):
        with pytest.raises(MissingDatabaseError) as error:
            call(folder / "none", comm=COMM)
        assert len(errors_everywhere(error.value)) == 1


def test_a_stale_index_is_an_error_of_every_rank(database: Path) -> None:
    if RANK == 0:
        (database / "data.mdb").unlink()
        write_database(database / "data.mdb", [(b"a", b"b")])
    with pytest.raises(StaleIndexError) as error:
        Index.open(database, comm=COMM)
    assert len(errors_everywhere(error.value)) == 1


def test_an_index_cut_short_is_an_error_of_every_rank(database: Path) -> None:
    if RANK == 0:
        content = (database / "data.mdb.index").read_bytes()
        (database / "data.mdb.index").write_bytes(content[:-5])
    with pytest.raises(FormatError, match="is it cut short") as error:
        Index.open(database, comm=COMM)
    assert len(errors_everywhere(error.value)) == 1


def test_bytes_that_one_rank_cannot_read_are_an_error_of_every_rank(database: Path) -> None:
    def fail(*_done: int) -> None:
        if COMM.Get_size() - 1 == RANK:
            raise OSError(5, "the disk of one rank")

    with pytest.raises(OSError, match="the disk of one rank"):
        build_index(database, comm=COMM, checksum=True, progress=fail)
