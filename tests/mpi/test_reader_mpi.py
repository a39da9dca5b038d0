"""Several real ranks read: every record once, one sequence for every world size, errors alike."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mpi4py import MPI

from lmdbio.errors import MissingDatabaseError, StaleIndexError
from lmdbio.reader import ParallelReader, ReadOptions
from lmdbio.reader.sequence import ORDERS, Order, Sequence, Steps
from lmdbio.reader.settings import Io
from tests.launch import launch_environment, mpiexec
from tests.mpi.shared_database import SIZES, N
from tests.reader.made import make_datum_database, overwrite

COMM = MPI.COMM_WORLD
RANK, SIZE = COMM.Get_rank(), COMM.Get_size()


@pytest.mark.parametrize("batch_size", [1, 7, 16, 50, 200])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("order", ORDERS)
def test_all_ranks_together_read_every_record_once(
    folder: Path, values: list[bytes], order: Order, drop_last: bool, batch_size: int
) -> None:
    with ParallelReader(
        folder, comm=COMM, batch_size=batch_size, order=order, drop_last=drop_last, seed=4, streams=4
    ) as reader:
        reader.set_epoch(2)
        index = reader.index
        steps: list[list[int]] = []
        for batch in reader:
            assert [bytes(value) for value in batch.values] == [values[number] for number in batch.indices.tolist()]
            steps.append(batch.indices.tolist())
        assert COMM.allgather(len(steps)) == [len(reader)] * SIZE
    ranks = COMM.allgather(steps)
    together = [[number for steps in ranks for number in steps[step]] for step in range(len(steps))]
    sequence = Sequence(
        N, index.layout_order, index.partitions, order=order, seed=4, epoch=2, streams=4, shuffle_window=4
    )
    alone = Steps(N, streams=sequence.streams, world_size=1, batch_size=batch_size * SIZE, drop_last=drop_last)
    wanted = [sequence.records(alone.positions(step, 0)).tolist() for step in range(alone.n_steps)]
    assert len(together) == len(wanted)
    assert together[:-1] == wanted[:-1]
    if wanted:
        padding = len(together[-1]) - len(wanted[-1])
        assert padding == (0 if drop_last else -N % SIZE)
        first = sequence.records(alone.positions(0, 0)).tolist()
        assert sorted(together[-1]) != [] and set(together[-1]) - set(wanted[-1]) <= set(first)
    read = [number for step in together for number in step]
    assert len(set(read)) == (len(wanted) * batch_size * SIZE if drop_last else N)


def test_a_cold_epoch_is_the_same(folder: Path, values: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmdbio.reader.fetch.RecordFile.read_cached", lambda self, offset, buffer: 0)
    options = ReadOptions(coalesce=30_000, read_size=8192)
    with ParallelReader(folder, comm=COMM, batch_size=5, order="block", options=options) as reader:
        digests = {
            number: hashlib.sha256(value).digest()
            for batch in reader
            for number, value in zip(batch.indices.tolist(), batch.values, strict=True)
        }
    everywhere = {number: digest for part in COMM.allgather(digests) for number, digest in part.items()}
    assert everywhere == {number: hashlib.sha256(value).digest() for number, value in enumerate(values)}


def test_errors_of_opening_are_raised_alike(folder: Path) -> None:
    with pytest.raises(MissingDatabaseError):
        ParallelReader(folder / "none", comm=COMM, batch_size=1)
    if SIZE > 1:
        with pytest.raises(ValueError, match="batch_size: expected the same on every rank, found 1 on rank 0, 2"):
            ParallelReader(folder, comm=COMM, batch_size=1 + (RANK == 1))
        with pytest.raises(ValueError, match="batch_size: expected 1 or more, found 0"):
            ParallelReader(folder, comm=COMM, batch_size=RANK)


@pytest.mark.parametrize("at", [4096 - 4, -10])  # a meta page, and a page that the fingerprint samples
def test_ranks_on_copies_that_differ_are_told_alike(folder: Path, tmp_path: Path, at: int) -> None:
    copy = tmp_path / "a.lmdb"
    shutil.copytree(folder, copy)
    with ParallelReader(copy, comm=COMM, batch_size=10) as reader:
        assert len(list(reader)) == len(reader)
    if RANK == SIZE - 1:
        overwrite(copy / "data.mdb", at % (copy / "data.mdb").stat().st_size, b"xxxx")
    COMM.Barrier()
    with pytest.raises(StaleIndexError, match=f"on rank {SIZE - 1}" if SIZE > 1 else "lmdbio-index"):
        ParallelReader(copy, comm=COMM, batch_size=10)


def test_an_epoch_that_differs_between_ranks_is_refused(folder: Path) -> None:
    with ParallelReader(folder, comm=COMM, batch_size=10, on_error="raise") as reader:
        if SIZE > 1:
            with pytest.raises(ValueError, match="epoch: expected the same on every rank"):
                reader.set_epoch(RANK)
        with pytest.raises(ValueError, match="epoch: expected 0 or more"):
            reader.set_epoch(-(RANK == 0))


@pytest.mark.parametrize("io", ["independent", "collective"])
def test_any_communicator_will_do(folder: Path, values: list[bytes], io: Io) -> None:
    backwards = COMM.Split(0, key=-RANK)
    halves = COMM.Split(RANK % 2, key=RANK)
    for comm in (backwards, halves, COMM.Dup()):
        with ParallelReader(folder, comm=comm, batch_size=9, order="block", io=io, streams=4) as reader:
            assert (reader.rank, reader.world_size) == (comm.Get_rank(), comm.Get_size())
            read = []
            for batch in reader:
                assert [bytes(value) for value in batch.values] == [values[number] for number in batch.indices.tolist()]
                read += batch.indices.tolist()
        together = [number for part in comm.allgather(read) for number in part]
        assert len(together) == N + -N % comm.Get_size()
        assert set(together) == set(range(N))
        comm.Free()


def test_ranks_may_be_told_without_a_communicator(folder: Path) -> None:
    with ParallelReader(folder, rank=RANK, world_size=SIZE, batch_size=9, order="global") as reader:
        read = [number for batch in reader for number in batch.indices.tolist()]
    together = [number for part in COMM.allgather(read) for number in part]
    assert len(together) == N + -N % SIZE
    assert set(together) == set(range(N))


_FAILING_JOB = """
import os, sys
from mpi4py import MPI
from lmdbio.reader import ParallelReader
comm = MPI.COMM_WORLD
with ParallelReader(sys.argv[1], comm=comm, batch_size=4) as reader:
    if comm.Get_rank() == 1:
        {failure}
    comm.Barrier()
    list(reader)
"""


@pytest.mark.skipif(SIZE > 1, reason="launches a job of its own")
@pytest.mark.parametrize(
    ("failure", "expected", "status"),
    [
        ("os.truncate(sys.argv[1] + '/data.mdb', 8192)", "data.mdb: key b'", 1),
        ("raise ValueError('lost')", "ValueError: lost", 1),
        ("sys.exit(3)", "lmdbio: rank 1: ended by sys.exit(3)", 3),
    ],
)
def test_a_failing_rank_ends_the_job(tmp_path: Path, failure: str, expected: str, status: int) -> None:
    make_datum_database(tmp_path / "a.lmdb", SIZES)
    script = tmp_path / "job.py"
    script.write_text(_FAILING_JOB.format(failure=failure))
    env = launch_environment(is_clean=True, timeout_s=60)
    done = subprocess.run(
        [mpiexec(), "-n", "2", sys.executable, script, tmp_path / "a.lmdb"],
        env=env,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == status
    assert expected in done.stderr
    assert ("Traceback" in done.stderr) == ("ValueError" in failure)
    assert "lmdbio: rank 1" in done.stderr or "lmdbio: rank 0" in done.stderr
