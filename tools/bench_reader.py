"""Reading a whole database, side by side: stock LMDB's cursor, ours, and parallel dd; cold and warm, at several ranks.

Every rank is a process of its own under mpiexec. Stock: each rank's cursor walks all keys, and it takes its own values
(Caffe's pattern). Ours: :class:`lmdbio.reader.ParallelReader`. Both take the XXH3-64 of every byte; dd drops them. A
round runs every contestant once; ratios are taken within a round, and medians over the rounds. A time is that of one
epoch, from a common barrier to the last rank's end; opening is told apart.

    python -m tools.bench_reader --rounds 7
"""

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import lmdb
import numpy as np
import xxhash

from lmdbio.layout import build_index
from lmdbio.layout.path import resolve
from lmdbio.layout.writer import write_database
from lmdbio.reader import ParallelReader, ReadOptions
from tools import page_cache

_DD_BLOCK_SIZES: Final = (1 << 20, 8 << 20)
_DD_PROCESSES: Final = (1, 2, 4, 8)
_DD_FINALISTS: Final = 3


@dataclass(frozen=True, slots=True)
class Work:
    """What one rank has read."""

    records: int
    n_bytes: int
    digest: int
    """All values' XXH3-64, combined by exclusive or, so that order does not matter."""


@contextmanager
def open_stock(database: str, _: argparse.Namespace) -> Generator[Callable[[], Work]]:
    """Give a function that reads as one rank of Caffe's pattern."""
    rank, size = _rank_and_size()

    def read() -> Work:
        n_records = n_bytes = digest = 0
        for number, (_, value) in enumerate(transaction.cursor()):
            if number % size == rank:
                digest ^= xxhash.xxh3_64_intdigest(value)
                n_bytes += len(value)
                n_records += 1
        return Work(n_records, n_bytes, digest)

    with lmdb.open(database, readonly=True, lock=False) as environment, environment.begin(buffers=True) as transaction:
        yield read


@contextmanager
def open_ours(database: str, options: argparse.Namespace) -> Generator[Callable[[], Work]]:
    """Give a function that reads one epoch."""
    from mpi4py import MPI

    def read() -> Work:
        n_records = n_bytes = digest = 0
        for batch in reader:
            for value in batch.values:
                digest ^= xxhash.xxh3_64_intdigest(value)
                n_bytes += len(value)
            n_records += len(batch)
            batch.release()  # the next batch can have its buffer, which is in the cache
        return Work(n_records, n_bytes, digest)

    read_options = ReadOptions(
        **{
            name: value
            for name, value in (
                ("depth", options.depth),
                ("read_size", options.read_size),
                ("coalesce", options.coalesce),
            )
            if value is not None
        }
    )
    with ParallelReader(
        database,
        comm=MPI.COMM_WORLD,
        batch_size=options.batch_size,
        order=options.order,
        options=read_options,
        prefetch_bytes=options.prefetch_bytes,
    ) as reader:
        yield read


CONTESTANTS: Final = {"stock": open_stock, "ours": open_ours}


def run_rank(name: str, options: argparse.Namespace) -> None:
    """Read as one rank; rank 0 prints what all ranks did as JSON."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    comm.Barrier()
    begun = time.perf_counter()
    with CONTESTANTS[name](options.database, options) as read:
        opened = time.perf_counter()
        comm.Barrier()
        # One machine, one monotonic clock: from the first rank's start to the last rank's end.
        started = time.perf_counter()
        work = read()
        ended = time.perf_counter()
        ranks = comm.gather((begun, opened, started, ended, work))
    if ranks is not None:
        begins, opens, starts, ends, works = zip(*ranks, strict=True)
        digest = 0
        for work in works:
            digest ^= work.digest
        report = {
            "open_seconds": max(opens) - min(begins),
            "seconds": max(ends) - min(starts),
            "records": sum(work.records for work in works),
            "bytes": sum(work.n_bytes for work in works),
            "digest": digest,
        }
        print(json.dumps(report))


def _rank_and_size() -> tuple[int, int]:
    from mpi4py import MPI

    return MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()


def launch(name: str, options: argparse.Namespace, *, n_ranks: int) -> dict[str, Any]:
    """Return the report of a contestant's ranks."""
    launcher = Path(sys.executable).with_name("mpiexec")
    command = [
        str(launcher) if launcher.exists() else "mpiexec",
        "-n",
        str(n_ranks),
        sys.executable,
        "-m",
        __spec__.name,
    ]
    for option in ("batch_size", "order", "depth", "read_size", "coalesce", "prefetch_bytes"):
        value = getattr(options, option)
        if value is not None:
            command += [f"--{option.replace('_', '-')}", str(value)]
    environment = os.environ | {"HYDRA_LAUNCHER": "fork", "MPIR_CVAR_POLLS_BEFORE_YIELD": "1"}
    done = subprocess.run(
        [*command, "--rank-of", name, "--database", options.database],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def run_dd(path: Path, *, processes: int, block_size: int, direct: bool) -> float:
    """Return the seconds that parallel dd needs for the whole file, each process a part of it."""
    n_blocks = -(-path.stat().st_size // block_size)
    bounds = [n_blocks * part // processes for part in range(processes + 1)]
    started = time.perf_counter()
    running = [
        subprocess.Popen(
            ["dd", f"if={path}", "of=/dev/null", f"bs={block_size}", f"skip={first}", f"count={end - first}"]
            + (["iflag=direct"] if direct else []),
            stderr=subprocess.DEVNULL,
        )
        for first, end in itertools.pairwise(bounds)
    ]
    statuses = [process.wait() for process in running]
    seconds = time.perf_counter() - started
    if any(statuses):
        raise RuntimeError(f"{path}: dd ended with {statuses}")
    return seconds


def choose_dd(path: Path) -> list[dict[str, Any]]:
    """Return the fastest ways of parallel dd of one cold trial each."""
    ways: list[dict[str, Any]] = [
        {"processes": processes, "block_size": block_size, "direct": direct}
        for processes, block_size, direct in itertools.product(_DD_PROCESSES, _DD_BLOCK_SIZES, (False, True))
    ]
    seconds = []
    for way in ways:
        page_cache.drop(path)
        seconds.append(run_dd(path, **way))
    return [ways[place] for place in np.argsort(seconds)[:_DD_FINALISTS]]


def make_database(folder: Path, *, n_records: int, mean_size: int) -> None:
    """Make a database of random values around a mean size, spread like photographs, with its sidecar."""
    rng = np.random.default_rng(0)
    noise = rng.bytes(4 << 20)
    sizes = np.clip(rng.lognormal(0, 0.4, n_records) / np.exp(0.08) * mean_size, 1, len(noise)).astype(np.int64)
    starts = rng.integers(0, len(noise) - sizes + 1)
    folder.mkdir(parents=True)
    records = (
        (b"%08d" % number, noise[start : start + size])
        for number, (start, size) in enumerate(zip(starts.tolist(), sizes.tolist(), strict=True))
    )
    write_database(folder / "data.mdb", records)
    build_index(folder).save(folder / "data.mdb.index")


def bench(options: argparse.Namespace) -> dict[str, Any]:
    """Return all times, in rounds of all contestants."""
    path = resolve(options.database).data
    finalists = choose_dd(path) if "cold" in options.states else []
    results: dict[str, Any] = {"file_bytes": path.stat().st_size, "dd": finalists, "runs": []}
    for number in range(options.rounds):
        for state, n_ranks in itertools.product(options.states, options.ranks):
            names = list(CONTESTANTS)
            for name in names if number % 2 else reversed(names):
                _prepare(path, state)
                report = launch(name, options, n_ranks=n_ranks)
                results["runs"].append({"round": number, "state": state, "ranks": n_ranks, "name": name} | report)
        if "cold" in options.states:
            for place, way in enumerate(finalists):
                _prepare(path, "cold")
                seconds = run_dd(path, **way)
                results["runs"].append({"round": number, "state": "cold", "name": f"dd{place}", "seconds": seconds})
    digests = {(run["records"], run["digest"]) for run in results["runs"] if "digest" in run}
    if len(digests) != 1:
        raise RuntimeError(f"expected all contestants to read the same, found (records, digest) {digests}")
    return results


def _prepare(path: Path, state: str) -> None:
    if state == "warm":
        page_cache.fill(path)
    elif not page_cache.drop(path):
        raise RuntimeError(f"{path}: expected the system to forget the file, found it in memory: is it on tmpfs?")


def summarize(results: dict[str, Any]) -> list[str]:
    """Return the table: medians of rates, and of ratios within a round."""
    runs = results["runs"]

    def seconds(state: str, name: str, n_ranks: int | None = None) -> list[float]:
        return [
            run["seconds"] for run in runs if (run["state"], run["name"], run.get("ranks")) == (state, name, n_ranks)
        ]

    n_bytes = next(run["bytes"] for run in runs if "bytes" in run)
    lines = [f"{'state':6} {'ranks':>5} {'stock MB/s':>11} {'ours MB/s':>10} {'ours/stock':>11} {'ours/dd':>8}"]
    dds = [seconds("cold", f"dd{place}") for place in range(len(results["dd"]))]
    best_dd = min(dds, key=median) if dds else []
    for state, n_ranks in dict.fromkeys((run["state"], run["ranks"]) for run in runs if "ranks" in run):
        stock, ours = seconds(state, "stock", n_ranks), seconds(state, "ours", n_ranks)
        versus_stock = median(theirs / own for theirs, own in zip(stock, ours, strict=True))
        versus_dd = ""
        if state == "cold":
            scale = n_bytes / results["file_bytes"]
            versus_dd = f"{median(dd * scale / own for dd, own in zip(best_dd, ours, strict=True)):.2f}"
        lines.append(
            f"{state:6} {n_ranks:5} {n_bytes / median(stock) / 1e6:11,.0f} {n_bytes / median(ours) / 1e6:10,.0f} "
            f"{versus_stock:11.2f} {versus_dd:>8}"
        )
    for way, dd in zip(results["dd"], dds, strict=True):
        lines.append(f"dd cold, {way}: {results['file_bytes'] / median(dd) / 1e6:,.0f} MB/s")
    return lines


def parse_arguments() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", help="with its index; made in a temporary folder, and removed, if not given")
    parser.add_argument("--records", type=int, default=20_000, help="of the database made (default %(default)s)")
    parser.add_argument("--mean-size", type=int, default=110_000, help="of its values, in bytes (default %(default)s)")
    parser.add_argument("--folder", help="where it is made")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--states", nargs="+", choices=["cold", "warm"], default=["cold", "warm"])
    parser.add_argument("--batch-size", type=int, default=64, help="records of a batch (default %(default)s)")
    parser.add_argument("--order", default="sequential", help="of ours (default %(default)s)")
    parser.add_argument("--depth", type=int)
    parser.add_argument("--read-size", type=int)
    parser.add_argument("--coalesce", type=int)
    parser.add_argument("--prefetch-bytes", type=int)
    parser.add_argument("--json", action="store_true", help="print all times as one JSON object instead of a table")
    parser.add_argument("--rank-of", choices=list(CONTESTANTS), help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Run the rounds, or one rank of a contestant."""
    options = parse_arguments()
    if options.rank_of:
        run_rank(options.rank_of, options)
        return
    made = None
    if options.database is None:
        made = Path(tempfile.mkdtemp(prefix="bench-reader-", dir=options.folder))
        options.database = str(made / "bench.lmdb")
    try:
        if made is not None:
            make_database(Path(options.database), n_records=options.records, mean_size=options.mean_size)
        results = bench(options)
    finally:
        if made is not None:
            shutil.rmtree(made)
    print(json.dumps(results) if options.json else "\n".join(summarize(results)))


if __name__ == "__main__":
    main()
