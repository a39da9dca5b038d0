"""Compare the bulk writer with stock LMDB and with dd: the same bytes to the same place, in turns.

Every contestant makes its file and syncs it. The bulk writer and stock LMDB take records from memory; dd copies the
bulk writer's own file from memory (``/dev/shm``). One round runs each contestant once, so that a ratio within a round
compares neighbours in time.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import lmdb
import numpy as np
import xxhash

from lmdbio.layout.writer import write_database

Record = tuple[bytes, bytes]
DD_WAYS = [
    ["bs=1M", "conv=fsync"],
    ["bs=16M", "conv=fsync"],
    ["bs=1M", "oflag=direct", "conv=fsync"],
    ["bs=4M", "oflag=direct", "conv=fsync"],
    ["bs=16M", "oflag=direct", "conv=fsync"],
]


def make_records(n_records: int, mean_size: int, seed: int) -> list[Record]:
    """Return records of lognormal sizes (sigma 0.5), random bytes."""
    rng = np.random.default_rng(seed)
    sizes = rng.lognormal(np.log(mean_size) - 0.125, 0.5, n_records).astype(int)
    noise = rng.bytes(max(int(sizes.max()), 1))
    # Not all alike, and not slow to make: each value is the noise from another place on.
    return [(b"%08d" % number, (noise[number % 977 :] + noise)[:size]) for number, size in enumerate(sizes.tolist())]


def bulk(path: Path, records: list[Record], *, checksum: bool) -> None:
    """Write with lmdbio."""
    write_database(path, records, checksum=checksum)


def stock(path: Path, records: list[Record]) -> None:
    """Write with stock LMDB: one transaction, appending."""
    size = 2 * sum(len(value) for _, value in records) + (64 << 20)
    with lmdb.open(str(path), subdir=False, map_size=size, lock=False) as env:
        with env.begin(write=True) as txn:
            for key, value in records:
                txn.put(key, value, append=True)
        env.sync(True)


def dd(path: Path, source: Path, way: list[str]) -> None:
    """Copy a file with dd."""
    subprocess.run(["dd", f"if={source}", f"of={path}", *way], check=True, capture_output=True)


def timed(write: Callable[[Path], None], folder: Path) -> float:
    """Return the seconds that making one file takes; the file is removed again."""
    path = folder / "data.mdb"
    begin = time.perf_counter()
    write(path)
    seconds = time.perf_counter() - begin
    path.unlink()
    return seconds


def race(folder: Path, source: Path, records: list[Record], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each contestant in each round; one more round goes before, to warm up."""
    contestants: dict[str, Callable[[Path], None]] = {
        "bulk": lambda path: bulk(path, records, checksum=True),
        "stock": lambda path: stock(path, records),
        "bulk, no checksums": lambda path: bulk(path, records, checksum=False),
    }
    for way in DD_WAYS:
        contestants[f"dd {' '.join(way)}"] = lambda path, way=way: dd(path, source, way)
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name, write in contestants.items():
            try:
                taken = timed(write, folder)
            except subprocess.CalledProcessError:  # direct writes are not for every file system
                taken = float("inf")
            if number:
                seconds[name].append(taken)
        print(f"{folder}: round {number} of {rounds}", file=sys.stderr)
    return {name: taken for name, taken in seconds.items() if max(taken) < float("inf")}


def summary(seconds: dict[str, list[float]], n_bytes: int) -> dict[str, object]:
    """Return medians, and medians of the ratios within each round."""
    best_dd = [min(taken) for taken in zip(*(s for name, s in seconds.items() if name.startswith("dd")), strict=True)]

    def ratio(others: list[float]) -> float:
        return statistics.median(other / ours for other, ours in zip(others, seconds["bulk"], strict=True))

    return {
        "gb_per_s": {name: n_bytes / statistics.median(taken) / 1e9 for name, taken in seconds.items()},
        "seconds": {name: [min(taken), statistics.median(taken), max(taken)] for name, taken in seconds.items()},
        "times_stock": ratio(seconds["stock"]),
        "of_best_dd": ratio(best_dd),
        "of_best_dd_no_checksums": statistics.median(
            other / ours for other, ours in zip(best_dd, seconds["bulk, no checksums"], strict=True)
        ),
    }


def checksum_seconds(records: list[Record]) -> float:
    """Return the seconds that all checksums take alone."""
    begin = time.perf_counter()
    for _, value in records:
        xxhash.xxh3_64_intdigest(value)
    return time.perf_counter() - begin


def file_system(folder: Path) -> str:
    """Return the type of a folder's file system."""
    found = subprocess.run(["stat", "-f", "-c", "%T", str(folder)], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def print_table(name: str, figures: dict[str, object]) -> None:
    """Print one place's figures."""
    print(f"{name}: {figures['times_stock']:.2f} x stock, {figures['of_best_dd']:.2f} of the best dd")
    for contestant, (low, middle, high) in figures["seconds"].items():
        rate = figures["gb_per_s"][contestant]
        print(f"  {contestant:36} {rate:6.2f} GB/s   {middle:6.2f} s  ({low:.2f} to {high:.2f})")


def main() -> None:
    """Run the race in each folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, default=[Path("/dev/shm"), Path("/var/tmp")])
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--size", type=int, default=110_000, help="mean bytes of a value")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory", type=Path, default=Path("/dev/shm"), help="where dd copies from")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    records = make_records(options.records, options.size, options.seed)
    report: dict[str, object] = {
        "machine": f"{os.cpu_count()} x {platform.machine()}, {platform.system()} {platform.release()}",
        "records": options.records,
        "bytes": sum(len(value) for _, value in records),
        "checksum_seconds": checksum_seconds(records),
    }
    with TemporaryDirectory(dir=options.memory, prefix="bench-") as memory:
        source = Path(memory) / "source.mdb"
        write_database(source, records)
        report["file_bytes"] = source.stat().st_size
        for place in options.folders:
            with TemporaryDirectory(dir=place, prefix="bench-") as folder:
                seconds = race(Path(folder), source, records, options.rounds)
            report[f"{place} ({file_system(place)})"] = summary(seconds, source.stat().st_size)
    if options.json:
        print(json.dumps(report, indent=2))
        return
    print(f"{options.records} records, {report['bytes']} bytes, checksums alone {report['checksum_seconds']:.3f} s")
    for name, figures in report.items():
        if isinstance(figures, dict):
            print_table(name, figures)


if __name__ == "__main__":
    main()
