"""Several real ranks read together through MPI-IO: the batches of reading alone; errors and leavers are told alike."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from mpi4py import MPI

from lmdbio.reader import ParallelReader, ReadOptions
from lmdbio.reader.sequence import ORDERS, Order
from tests.reader.made import make_datum_database, stock_values

COMM = MPI.COMM_WORLD
RANK, SIZE = COMM.Get_rank(), COMM.Get_size()
SIZES = [0, 1, 100, 3000, 5000, 20_000, 40_000] * 23
N = len(SIZES)
TWO_PHASE = {"romio_cb_read": "enable", "cb_buffer_size": "16384"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = Path(COMM.bcast(str(tmp_path_factory.mktemp("collective") / "a.lmdb")))
    if RANK == 0:
        make_datum_database(folder, SIZES)
    COMM.Barrier()
    yield folder
    COMM.Barrier()


@pytest.fixture(scope="module")
def values(folder: Path) -> list[bytes]:
    return stock_values(folder)


def batches_of(folder: Path, io: str, **options: object) -> list[tuple[list[int], list[bytes]]]:
    """Return (records, values) of each batch of this rank's second epoch."""
    with ParallelReader(folder, comm=COMM, io=io, **options) as reader:
        reader.set_epoch(1)
        return [(batch.indices.tolist(), [bytes(value) for value in batch.values]) for batch in reader]


@pytest.mark.parametrize("batch_size", [7, 50])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("coalesce", [100_000, 4 << 20])
def test_batches_are_those_of_reading_alone(
    folder: Path, values: list[bytes], order: Order, drop_last: bool, batch_size: int, coalesce: int
) -> None:
    options = {"batch_size": batch_size, "drop_last": drop_last, "order": order, "seed": 5, "streams": 4}
    alone = batches_of(folder, "independent", **options)
    together = batches_of(folder, "collective", **options, options=ReadOptions(coalesce=coalesce, hints=TWO_PHASE))
    assert together == alone
    assert all(got == [values[number] for number in numbers] for numbers, got in together)
