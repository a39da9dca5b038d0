"""Several real ranks read together through MPI-IO: the batches of reading alone; errors and leavers are told alike."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI

from lmdbio.errors import ReadError
from lmdbio.reader import ParallelReader, ReadOptions
from lmdbio.reader.sequence import ORDERS, Order
from tests.launch import launch_environment, mpiexec
from tests.mpi.shared_database import SIZES, N
from tests.reader.made import make_datum_database

COMM = MPI.COMM_WORLD
RANK, SIZE = COMM.Get_rank(), COMM.Get_size()
TWO_PHASE = {"romio_cb_read": "enable", "cb_buffer_size": "65536"}


def batches_of(folder: Path, io: str, **options: object) -> list[tuple[list[int], list[bytes]]]:
    """Return (records, values) of each batch of this rank's second epoch."""
    with ParallelReader(folder, comm=COMM, io=io, **options) as reader:
        reader.set_epoch(1)
        return [(batch.indices.tolist(), [bytes(value) for value in batch.values]) for batch in reader]


@pytest.mark.parametrize(("batch_size", "coalesce"), [(7, 100_000), (50, 4 << 20)])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("order", ORDERS)
def test_batches_are_those_of_reading_alone(
    folder: Path, values: list[bytes], order: Order, drop_last: bool, batch_size: int, coalesce: int
) -> None:
    options = {"batch_size": batch_size, "drop_last": drop_last, "order": order, "seed": 5, "streams": 4}
    alone = batches_of(folder, "independent", **options)
    together = batches_of(folder, "collective", **options, options=ReadOptions(coalesce=coalesce, hints=TWO_PHASE))
    assert together == alone
    assert all(got == [values[number] for number in numbers] for numbers, got in together)


def test_epochs_that_all_leave_early_are_followed_by_others(folder: Path) -> None:
    with ParallelReader(folder, comm=COMM, batch_size=5, io="collective", options=ReadOptions(coalesce=1)) as reader:
        for _ in range(2):
            for number, _ in enumerate(reader):
                if number == 2:
                    break
        assert len(list(reader)) == len(reader)
        assert reader.epoch == 2


@pytest.mark.skipif(SIZE == 1, reason="needs others")
def test_a_rank_that_leaves_alone_is_told_to_the_others(folder: Path) -> None:
    options = ReadOptions(coalesce=1)
    reader = ParallelReader(folder, comm=COMM, batch_size=5, io="collective", options=options, on_error="raise")
    with reader:
        batches = iter(reader)
        next(batches)
        if RANK == 1:
            reader.close()
        else:
            with pytest.raises(RuntimeError, match="found that rank 1 has left it before its end"):
                list(batches)


@pytest.mark.parametrize("hints", [{}, TWO_PHASE, {"romio_cb_read": "disable"}])
def test_a_file_cut_short_is_the_same_error_on_every_rank(tmp_path: Path, hints: dict[str, str]) -> None:
    folder = Path(COMM.bcast(str(tmp_path / "a.lmdb")))
    if RANK == 0:
        make_datum_database(folder, SIZES)
    COMM.Barrier()
    with ParallelReader(
        folder, comm=COMM, batch_size=4, io="collective", options=ReadOptions(hints=hints), on_error="raise"
    ) as reader:
        offset, length = (int(part[0]) for part in reader.index.extents(np.array([105])))
        COMM.Barrier()
        if RANK == 0:
            os.truncate(folder / "data.mdb", offset + length // 2)
        COMM.Barrier()
        with pytest.raises(ReadError, match=r"data\.mdb: key b'.* before the file ends") as caught:
            list(reader)
        assert len(set(COMM.allgather(str(caught.value)))) == 1
        assert caught.value.offset >= offset


def test_each_rank_may_have_a_path_of_its_own(folder: Path, tmp_path: Path, values: list[bytes]) -> None:
    own = tmp_path / f"rank{RANK}.lmdb"
    own.symlink_to(folder)
    together = batches_of(own, "collective", batch_size=7, options=ReadOptions(hints=TWO_PHASE))
    assert all(got == [values[number] for number in numbers] for numbers, got in together)


def test_what_cannot_be_collective_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="io: expected a communicator for 'collective'"):
        ParallelReader(folder, rank=0, world_size=2, batch_size=1, io="collective")
    if SIZE > 1:
        for name, options in (
            ("coalesce", ReadOptions(coalesce=RANK + 1)),
            ("hints", ReadOptions(hints={"a": f"{RANK}"})),
        ):
            with pytest.raises(ValueError, match=f"{name}: expected the same on every rank"):
                ParallelReader(folder, comm=COMM, batch_size=1, io="collective", options=options)


def test_one_process_needs_no_communicator(folder: Path, values: list[bytes]) -> None:
    with ParallelReader(folder, batch_size=50, io="collective", order="block", verify="checksum") as reader:
        read = {
            number: bytes(value) for batch in reader for number, value in zip(batch.indices, batch.values, strict=True)
        }
    assert [read[number] for number in range(N)] == values


_JOB = """
import hashlib, os, sys
from mpi4py import MPI
from lmdbio.reader import ParallelReader
comm = MPI.COMM_WORLD
digests = []
for io in ("independent", "collective"):
    with ParallelReader(sys.argv[1], comm=comm, batch_size=5, order="block", streams=4, io=io) as reader:
        digest = hashlib.sha256()
        for step, batch in enumerate(reader):
            {event}
            for value in batch.values:
                digest.update(value)
        digests.append(digest.digest())
assert digests[0] == digests[1]
print("same")
"""


def run_job(folder: Path, event: str, n_ranks: int, *, nodes: int | None = None) -> subprocess.CompletedProcess[str]:
    """Run the job with something that happens at each step."""
    script = folder.parent / "job.py"
    script.write_text(_JOB.format(event=event))
    env = launch_environment(is_clean=True, nodes=nodes, timeout_s=60)
    return subprocess.run(
        [mpiexec(), "-n", str(n_ranks), sys.executable, script, folder],
        env=env,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


@pytest.mark.skipif(SIZE > 1, reason="launches a job of its own")
def test_two_nodes_read_the_same(folder: Path) -> None:
    done = run_job(folder, "pass", 4, nodes=2)
    assert (done.returncode, done.stdout.count("same")) == (0, 4), done.stderr


@pytest.mark.skipif(SIZE > 1, reason="launches a job of its own")
@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ("if io == 'collective' and comm.rank == 1: break", "RuntimeError: epoch: expected every rank to take equally"),
        ("if io == 'collective': os.truncate(sys.argv[1] + '/data.mdb', 8192)", "data.mdb: key b'"),
        ("if io == 'collective' and comm.rank == 1: raise ValueError('lost')", "lmdbio: rank 1: Traceback"),
    ],
)
def test_a_failing_rank_ends_the_job(tmp_path: Path, event: str, expected: str) -> None:
    make_datum_database(tmp_path / "a.lmdb", SIZES * 2, partition_size=16 << 10)
    done = run_job(tmp_path / "a.lmdb", event, 2)
    assert done.returncode == 1
    assert expected in done.stderr
