"""One rank that reads a database: with lmdbio's reader in one of its orders, or with stock LMDB's cursor.

Run under mpiexec, a rank a node: ``python -m tools.ablation.rank TASK``, where the task is JSON.
"""

import json
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import lmdb
import xxhash
from mpi4py import MPI

from lmdbio.reader import ParallelReader, ReadOptions


@dataclass(frozen=True, slots=True)
class Task:
    """What all ranks of a run do."""

    databases: list[str]
    """The database as each node sees it."""
    order: str
    """``sequential``, ``block`` or ``global``: lmdbio's reader; ``cursor``: stock LMDB in key order."""
    readahead: bool = False
    """Whether the kernel may read ahead of stock LMDB."""
    batch_size: int = 256
    """Records of a global batch."""
    most_s: float = 0
    """Seconds after which stock LMDB's ranks stop; 0: never."""
    options: dict[str, Any] | None = None
    """Of :class:`lmdbio.reader.ReadOptions`."""


@dataclass(slots=True)
class Work:
    """What one rank has read."""

    records: int = 0
    n_bytes: int = 0
    digest: int = 0
    """All values' XXH3-64, combined by addition modulo 2^64, so that order does not matter."""

    def add(self, value: memoryview) -> None:
        """Count a value and touch every byte of it."""
        self.digest = (self.digest + xxhash.xxh3_64_intdigest(value)) & (1 << 64) - 1
        self.n_bytes += len(value)
        self.records += 1


def main() -> None:
    """Read as one rank; rank 0 prints what all ranks did as JSON."""
    task = Task(**json.loads(sys.argv[1]))
    comm = MPI.COMM_WORLD
    comm.Barrier()
    begun = time.perf_counter()
    opener = _open_stock if task.order == "cursor" else _open_lmdbio
    with opener(task, comm) as read:
        opened = time.perf_counter()
        comm.Barrier()
        # One machine, one monotonic clock: from the first rank's start to the last rank's end.
        started, cpu_before = time.perf_counter(), time.process_time()
        work = read()
        ended, cpu_after = time.perf_counter(), time.process_time()
        ranks = comm.gather((begun, opened, started, ended, cpu_after - cpu_before, asdict(work)))
    if ranks is not None:
        print(json.dumps(_report(ranks)))


def _report(ranks: list[tuple[float, float, float, float, float, dict[str, int]]]) -> dict[str, Any]:
    begins, opens, starts, ends, cpus, works = zip(*ranks, strict=True)
    return {
        "open_s": max(opens) - min(begins),
        "seconds": max(ends) - min(starts),
        "cpu_s": sum(cpus),
        "records": sum(work["records"] for work in works),
        "n_bytes": sum(work["n_bytes"] for work in works),
        "digest": sum(work["digest"] for work in works) & (1 << 64) - 1,
    }


@contextmanager
def _open_stock(task: Task, comm: MPI.Intracomm) -> Generator[Callable[[], Work]]:
    """Give a function that reads as Caffe does: every rank walks all keys, and takes its own values."""
    rank, size = comm.Get_rank(), comm.Get_size()

    def read() -> Work:
        work = Work()
        deadline = time.perf_counter() + (task.most_s or float("inf"))
        for number, (_, value) in enumerate(transaction.cursor()):
            if number % size == rank:
                work.add(value)
                if time.perf_counter() > deadline:
                    break
        return work

    with (
        lmdb.open(task.databases[rank], readonly=True, lock=False, readahead=task.readahead) as environment,
        environment.begin(buffers=True) as transaction,
    ):
        yield read


@contextmanager
def _open_lmdbio(task: Task, comm: MPI.Intracomm) -> Generator[Callable[[], Work]]:
    """Give a function that reads one epoch."""

    def read() -> Work:
        work = Work()
        for batch in reader:
            for value in batch.values:
                work.add(value)
            batch.release()  # the next batch can have its buffer
        return work

    with ParallelReader(
        task.databases[comm.Get_rank()],
        comm=comm,
        batch_size=task.batch_size // comm.Get_size(),
        order=task.order,
        options=ReadOptions(**(task.options or {})),
    ) as reader:
        yield read


if __name__ == "__main__":
    main()
