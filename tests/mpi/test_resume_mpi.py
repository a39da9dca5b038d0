"""A state is the same on every real rank, and a reader of any way of reading goes on from it."""

import json
from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI

from lmdbio.reader import ParallelReader
from lmdbio.reader.sequence import ORDERS, Order, Sequence
from lmdbio.reader.settings import Io
from tests.mpi.shared_database import N

COMM = MPI.COMM_WORLD
RANK, SIZE = COMM.Get_rank(), COMM.Get_size()


def taken(reader: ParallelReader, n_steps: int | None = None) -> list[int]:
    """Return the records of the next steps, of all ranks end to end, step by step."""
    steps = []
    batches = iter(reader)
    while n_steps is None or len(steps) < n_steps:
        batch = next(batches, None)
        if batch is None:
            break
        steps.append(batch.indices.tolist())
    ranks = COMM.allgather(steps)
    return [number for step in range(len(steps)) for rank in ranks for number in rank[step]]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("before", "after"), [("independent", "collective"), ("collective", "independent")])
@pytest.mark.parametrize("n_steps", [0, 1, 3, 1000])
def test_the_sequence_goes_on_with_another_batch_size_and_way_of_reading(
    folder: Path, values: list[bytes], order: Order, before: Io, after: Io, n_steps: int
) -> None:
    with ParallelReader(folder, comm=COMM, batch_size=7, order=order, streams=3, io=before, seed=2) as reader:
        reader.set_epoch(1)
        first = taken(reader, n_steps)
        index, text = reader.index, json.dumps(reader.state_dict())
    assert COMM.allgather(text) == [text] * SIZE
    assert len(text) < 1024
    sequence = Sequence(
        N, index.layout_order, index.partitions, order=order, seed=2, epoch=1, streams=3, shuffle_window=4
    )
    whole = sequence.records(np.arange(N)).tolist()
    position = min(n_steps * 7 * SIZE, N)
    assert sorted(first[:position] if n_steps < 1000 else set(first)) == sorted(whole[:position])
    with ParallelReader(folder, comm=COMM, batch_size=4, order=order, streams=3, io=after, seed=2) as reader:
        reader.load_state_dict(json.loads(text))
        reader.set_epoch(1)
        rest = taken(reader)
        left = whole[position:]
        padding = -len(left) % SIZE
        assert len(rest) == len(left) + padding
        assert set(rest) <= set(left) | set(whole[:padding])
        assert set(left) <= set(rest)
        assert reader.state_dict()["position"] == N


def test_a_state_that_differs_between_ranks_is_refused_alike(folder: Path) -> None:
    with ParallelReader(folder, comm=COMM, batch_size=7, on_error="raise") as reader:
        state = reader.state_dict() | {"position": RANK}
        if SIZE > 1:
            with pytest.raises(ValueError, match="position: expected the same on every rank, found 0 on rank 0, 1 on"):
                reader.load_state_dict(state)
        if RANK == 0:
            state = state | {"seed": 99}
        with pytest.raises(ValueError, match="state: expected seed 0 as this reader has, found 99"):
            reader.load_state_dict(state)


def test_several_databases_are_read_by_all_ranks(folder: Path, values: list[bytes], tmp_path: Path) -> None:
    copies = [Path(path) for path in COMM.bcast([str(tmp_path / f"{number}.mdb") for number in range(3)])]
    if RANK == 0:
        for copy in copies:
            copy.write_bytes((folder / "data.mdb").read_bytes())
            Path(f"{copy}.index").write_bytes((folder / "data.mdb.index").read_bytes())
    COMM.Barrier()
    with ParallelReader(copies, comm=COMM, batch_size=9, order="block", streams=4) as reader:
        own = []
        for batch in reader:
            for number, value in zip(batch.indices.tolist(), batch.values, strict=True):
                assert value == values[number % N]
                own.append(number)
    together = [number for part in COMM.allgather(own) for number in part]
    assert len(together) == 3 * N + -3 * N % SIZE
    assert set(together) == set(range(3 * N))
    if SIZE > 1:
        with pytest.raises(ValueError, match="databases: expected the same on every rank, found 3 on rank 0, 2"):
            ParallelReader(copies[: 3 - (RANK == 1)], comm=COMM, batch_size=9)
