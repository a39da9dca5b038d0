"""Does a job end whole when one of its ranks does? Many jobs, one rank of each killed, or raising, at a random moment.

Each job reads epochs with a ParallelReader until its rank is gone. Then all ranks must end within a limit, nothing of
lmdbio's may stay in shared memory, and from time to time a job that nobody disturbs must read as ever.

    python -m tools.kill_ranks --times 200
    python -m tools.kill_ranks --times 20 --how raise
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np

from lmdbio.layout import build_index
from lmdbio.layout.writer import write_database
from tools.launch import MPI_SETTINGS

_POLL_S: Final = 0.02
_START_S: Final = 120.0
_SHM: Final = Path("/dev/shm")
_LAUNCHERS_OWN: Final = ("mpich_shm_", "ompi", "vader", "sm_segment", "pmix", "prte")
"""What MPI libraries leave in shared memory by themselves when a job is killed."""
_N_RECORDS: Final = 2000
_MESSAGE: Final = "the training loop fails here"
_RANK: Final = """
import os, pathlib, sys, time
from mpi4py import MPI
from lmdbio.reader import ParallelReader

database, folder, order, io, n_epochs, failing, after_s = sys.argv[1:]
comm = MPI.COMM_WORLD
with ParallelReader(database, comm=comm, batch_size=16, order=order, io=io) as reader:
    pathlib.Path(folder, f"rank-{comm.Get_rank()}").write_text(str(os.getpid()))
    begun, n_records = time.monotonic(), 0
    for epoch in range(int(n_epochs)):
        reader.set_epoch(epoch)
        for batch in reader:
            n_records += len(batch)
            time.sleep(0.001)
            if comm.Get_rank() == int(failing) and time.monotonic() - begun > float(after_s):
                raise RuntimeError("the training loop fails here")
    total = comm.allreduce(n_records)
    if comm.Get_rank() == 0:
        print(total)
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one disturbed job ended."""

    seconds: float
    """From the kill, or from the exception, until all ranks were gone."""
    left: tuple[str, ...]
    """What it left in shared memory that is not the MPI's own."""
    output: str
    """Its standard error."""


@dataclass(frozen=True, slots=True)
class Job:
    """How ranks are started."""

    database: Path
    n_ranks: int
    order: str
    io: str

    @contextlib.contextmanager
    def running(self, *, n_epochs: int, failing: int = -1, after_s: float = 0) -> Iterator["Running"]:
        """Start the ranks; they are gone afterwards in any case."""
        with tempfile.TemporaryDirectory(prefix="lmdbio-kill-") as folder:
            arguments = [self.database, folder, self.order, self.io, n_epochs, failing, after_s]
            launcher = Path(sys.executable).with_name("mpiexec")
            process = subprocess.Popen(
                [launcher, "-n", str(self.n_ranks), sys.executable, "-c", _RANK, *map(str, arguments)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
                env=os.environ | MPI_SETTINGS,
            )
            try:
                yield Running(process, Path(folder), self.n_ranks)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


class Running:
    """A job under way."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path, n_ranks: int) -> None:
        self.process = process
        self._folder = folder
        self._n_ranks = n_ranks

    def pids(self) -> list[int]:
        """Wait until every rank reads, and return their processes."""
        deadline = time.monotonic() + _START_S
        files = [self._folder / f"rank-{rank}" for rank in range(self._n_ranks)]
        while time.monotonic() < deadline:
            texts = [path.read_text() if path.exists() else "" for path in files]
            if all(texts):
                return [int(text) for text in texts]
            if self.process.poll() is not None:
                raise SystemExit(f"kill_ranks: the job ended before it was disturbed: {self.process.communicate()[1]}")
            time.sleep(_POLL_S)
        raise SystemExit(f"kill_ranks: the ranks did not start within {_START_S:.0f} s")

    def wait_gone(self, pids: list[int], limit_s: float) -> float:
        """Wait until all ranks and the launcher are gone, and return how long that took; the limit if they are not."""
        begun = time.monotonic()
        while time.monotonic() - begun < limit_s:
            if self.process.poll() is not None and not any(map(is_alive, pids)):
                return time.monotonic() - begun
            time.sleep(_POLL_S)
        return limit_s


def is_alive(pid: int) -> bool:
    """Return whether a process runs: one that is dead and not waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def shared_memory() -> set[str]:
    """Return what stands in shared memory."""
    return {entry.name for entry in _SHM.iterdir()} if _SHM.is_dir() else set()


def disturb(job: Job, how: str, *, rank: int, after_s: float, limit_s: float) -> Outcome:
    """Start a job, kill one of its ranks after a while, or have it raise, and see what becomes of the others."""
    before = shared_memory()
    failing = rank if how == "raise" else -1
    with job.running(n_epochs=1_000_000, failing=failing, after_s=after_s) as running:
        pids = running.pids()
        time.sleep(after_s)
        if how == "kill":
            os.kill(pids[rank], signal.SIGKILL)
        seconds = running.wait_gone(pids, limit_s)
        output = running.process.communicate()[1] if seconds < limit_s else ""
    left = {name for name in shared_memory() - before if not name.startswith(_LAUNCHERS_OWN)}
    return Outcome(seconds, tuple(sorted(left)), output)


def undisturbed(job: Job) -> bool:
    """Return whether a job that nobody disturbs reads every record twice in two epochs."""
    with job.running(n_epochs=2) as running:
        output = running.process.communicate(timeout=_START_S)[0]
        padded = _N_RECORDS + -_N_RECORDS % job.n_ranks
        return running.process.returncode == 0 and output.strip() == str(2 * padded)


def main() -> None:
    """Disturb many jobs, and tell how they ended."""
    parser = argparse.ArgumentParser(prog="python -m tools.kill_ranks", description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=20, help="jobs (default %(default)s)")
    parser.add_argument("--ranks", type=int, default=4, help="of each (default %(default)s)")
    parser.add_argument("--how", choices=("kill", "raise"), default="kill", help="(default %(default)s)")
    parser.add_argument("--order", default="block", help="of reading (default %(default)s)")
    parser.add_argument("--io", default="independent", help="way of reading (default %(default)s)")
    parser.add_argument("--limit", type=float, default=10.0, help="seconds for all to be gone (default %(default)s)")
    parser.add_argument(
        "--check-every", type=int, default=20, help="jobs between undisturbed ones (default %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of ranks and moments (default %(default)s)")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    outcomes, n_bad_checks, n_checks, n_silent = [], 0, 0, 0
    with tempfile.TemporaryDirectory(prefix="lmdbio-kill-") as folder:
        job = Job(_make_database(Path(folder)), options.ranks, options.order, options.io)
        for number in range(options.times):
            rank, after_s = rng.randrange(options.ranks), rng.uniform(0, 1)
            outcome = disturb(job, options.how, rank=rank, after_s=after_s, limit_s=options.limit)
            outcomes.append(outcome)
            if options.how == "raise" and not (f"rank {rank}: " in outcome.output and _MESSAGE in outcome.output):
                n_silent += 1
            if (number + 1) % options.check_every == 0 or number + 1 == options.times:
                n_checks += 1
                n_bad_checks += not undisturbed(job)
                print(f"kill_ranks: {number + 1} of {options.times}", file=sys.stderr, flush=True)
    seconds = [outcome.seconds for outcome in outcomes]
    told = {
        "jobs": len(outcomes),
        "ranks": options.ranks,
        "how": options.how,
        "io": options.io,
        "gone_in_time": sum(one < options.limit for one in seconds),
        "median_s": round(median(seconds), 3),
        "most_s": round(max(seconds), 3),
        "left_in_shared_memory": sorted({name for outcome in outcomes for name in outcome.left}),
        "undisturbed_jobs": n_checks,
        "of_which_failed": n_bad_checks,
        "without_its_message": n_silent,
    }
    print(json.dumps(told, indent=2))
    is_good = told["gone_in_time"] == len(outcomes) and not told["left_in_shared_memory"]
    sys.exit(0 if is_good and not n_bad_checks and not n_silent else 1)


def _make_database(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    path = folder / "a.mdb"
    write_database(path, [(b"%08d" % number, rng.bytes(20_000)) for number in range(_N_RECORDS)], align=4096)
    build_index(path).save(f"{path}.index")
    return path


if __name__ == "__main__":
    main()
