"""Every rank reads its part of an epoch and compares each value with its checksum; rank 0 counts what all have read.

``mpiexec -n 4 python -m tools.read_epoch DB [--order block] [--batch-size 16] [--seed 0]``. Exit status 1 if a record
was not read, or read more often than padding explains.
"""

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from lmdbio.cli.sizes import format_rate, format_size
from lmdbio.reader import ParallelReader


def main(
    database: Annotated[Path, typer.Argument(metavar="DB", help="The database.")],
    order: Annotated[str, typer.Option(help="sequential, block or global.")] = "block",
    batch_size: Annotated[int, typer.Option(help="Records of a batch.", min=1)] = 16,
    seed: Annotated[int, typer.Option(help="Of the order.")] = 0,
) -> None:
    """Read an epoch by all ranks, and check that every record was read once."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    options: Any = {"order": order, "batch_size": batch_size, "seed": seed}
    with ParallelReader(database, comm=comm, verify="checksum", **options) as reader:
        comm.Barrier()
        started = time.perf_counter()
        n_bytes, indices = 0, []
        for batch in reader:
            indices.append(batch.indices)
            n_bytes += int(batch.lengths.sum())
        comm.Barrier()
        seconds = time.perf_counter() - started
        numbers = np.concatenate(indices) if indices else np.empty(0, np.int64)
        all_numbers: list[NDArray[np.int64]] = comm.allgather(numbers)
        all_bytes: list[int] = comm.allgather(n_bytes)
        n_records = len(reader.index)
    if comm.Get_rank() == 0:
        for rank, (read, size) in enumerate(zip(all_numbers, all_bytes, strict=True)):
            print(f"rank {rank}: {len(read):,} records in {len(indices):,} batches, {format_size(size)}")
        print(_summary(n_records, np.concatenate(all_numbers), n_ranks=comm.Get_size()))
        print(f"every checksum right; {sum(all_bytes):,} bytes in {seconds:.2f} s, ", end="")
        print(f"{format_rate(sum(all_bytes), seconds)} together (cached, checksums included)")


def _summary(n_records: int, read: NDArray[np.int64], *, n_ranks: int) -> str:
    """Return in one line that each record was read once, padding aside; else raise SystemExit with what was found."""
    counts = np.bincount(read, minlength=n_records)
    padding = len(read) - n_records
    if len(counts) != n_records or not counts.all() or not 0 <= padding < n_ranks:
        raise SystemExit(
            f"expected each of {n_records} records once, found {np.count_nonzero(counts == 0)} missing, "
            f"{len(read)} read"
        )
    padded = f" ({padding} again, to give every rank equally many)" if padding else ""
    return f"{n_records:,} records, each read exactly once{padded}"


if __name__ == "__main__":
    typer.run(main)
