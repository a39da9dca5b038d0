"""Train in pieces: each run goes on where the one before it has stopped, on as many ranks as it has.

mpiexec -n 4 python examples/resume_training.py train.lmdb --checkpoint run.json --steps 100
mpiexec -n 2 python examples/resume_training.py train.lmdb --checkpoint run.json --steps 100
"""

import argparse
import json
from pathlib import Path

from mpi4py import MPI

from lmdbio.reader import ParallelReader


def main() -> None:
    """Read some steps, and leave word where the next run is to begin."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("database", nargs="+", help="one, or several that are read as one")
    parser.add_argument("--checkpoint", type=Path, required=True, help="where the state is kept, a JSON file")
    parser.add_argument("--epochs", type=int, default=2, help="(default 2)")
    parser.add_argument("--steps", type=int, default=100, help="that this run takes at most (default 100)")
    parser.add_argument("--batch-size", type=int, default=64, help="records of a step on each rank (default 64)")
    args = parser.parse_args()

    comm = MPI.COMM_WORLD
    with ParallelReader(args.database, comm=comm, batch_size=args.batch_size, order="block", seed=0) as reader:
        first = 0
        # Every rank needs the same state: one reads the file, for all.
        text = comm.bcast(args.checkpoint.read_text() if comm.Get_rank() == 0 and args.checkpoint.exists() else None)
        if text is not None:
            state = json.loads(text)
            reader.load_state_dict(state)
            first = state["epoch"]
        left = args.steps
        for epoch in range(first, args.epochs):
            reader.set_epoch(epoch)  # keeps the position within the epoch that was loaded
            n_records = 0
            for batch in reader:
                n_records += len(batch)  # decode, augment and train here
                left -= 1
                if not left:
                    break
            n_records = comm.allreduce(n_records)
            state = reader.state_dict()
            if comm.Get_rank() == 0:
                args.checkpoint.write_text(json.dumps(state))
                print(f"epoch {epoch}: {n_records:,} records, up to position {state['position']:,}")
            if not left:
                break


if __name__ == "__main__":
    main()
