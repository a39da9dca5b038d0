"""Read some epochs of a database with every rank there is, as a training script would.

mpiexec -n 4 python examples/read_epochs.py train.lmdb --epochs 2
"""

import argparse
import time

from mpi4py import MPI

from lmdbio.reader import ParallelReader


def main() -> None:
    """Read, count and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("database")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=64, help="records of a step on each rank (default 64)")
    parser.add_argument("--order", choices=["sequential", "block", "global"], default="block")
    args = parser.parse_args()

    comm = MPI.COMM_WORLD
    with ParallelReader(args.database, comm=comm, batch_size=args.batch_size, order=args.order, seed=0) as reader:
        for epoch in range(args.epochs):
            reader.set_epoch(epoch)
            begin, n_records, n_bytes = time.perf_counter(), 0, 0
            for batch in reader:
                # batch.data: a memoryview of each image's bytes; batch.labels: int64. Decode, augment and train here.
                n_records += len(batch)
                n_bytes += sum(map(len, batch.data))
            n_records, n_bytes = comm.allreduce(n_records), comm.allreduce(n_bytes)
            seconds = comm.allreduce(time.perf_counter() - begin, MPI.MAX)
            if comm.Get_rank() == 0:
                print(f"epoch {epoch}: {n_records:,} records, {n_bytes / 1e6 / seconds:,.0f} MB/s on all ranks")


if __name__ == "__main__":
    main()
