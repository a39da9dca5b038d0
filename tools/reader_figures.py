"""Figures of the reader that no comparison gives: planning at size, the first batch, overlap with computing, memory.

    python -m tools.reader_figures plan --records 1281167
    python -m tools.reader_figures first --records 1281167
    python -m tools.reader_figures overlap --order block
    python -m tools.reader_figures memory

Each answers with one JSON object. What it needs is made in a temporary folder; ``--folder`` says where.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from lmdbio.layout import Index, build_index
from lmdbio.layout.fingerprint import Fingerprint
from lmdbio.layout.key_pattern import DecimalKeys
from lmdbio.layout.keys import Keys
from lmdbio.layout.writer import write_database
from lmdbio.reader import ParallelReader, ReadOptions, page_cache
from lmdbio.reader.schedule import Schedule
from lmdbio.reader.sequence import ORDERS
from lmdbio.reader.settings import Settings
from lmdbio.reader.space import Space
from lmdbio.reader.unit import UnitPlanner

_PAGE: Final = 4096
_RECORD: Final = 110_000
_PREFETCH: Final = 256 << 20


def plan(options: argparse.Namespace) -> dict[str, Any]:
    """Plan whole epochs of one rank, in each order, with nothing read."""
    index = _index_of(options.records)
    told: dict[str, Any] = {"records": options.records, "index_peak_mib": _peak_mib()}
    space = Space.of(["none"], [index.fingerprint.file_size])
    for order in ORDERS:
        for name, waits in (("cached", False), ("cold", True)) if order == "block" else (("", False),):
            begun = time.perf_counter()
            settings = Settings(256, order, 0, False, "independent", "none", 4, None, "abort")
            schedule = Schedule(index, settings, streams=8, rank=0, world_size=1, prefetch_bytes=None)
            planner = schedule.planner(
                UnitPlanner,
                epoch=0,
                start=0,
                space=space,
                options=ReadOptions(),
                align=1,
                record_size=schedule.record_size,
            )
            if waits:
                planner.expect_waits()
            units = planner.units()
            first = next(units)
            first_s = time.perf_counter() - begun
            n_records = len(first.records) + sum(len(unit.records) for unit in units)
            assert n_records == options.records
            told[f"{order} {name}".strip()] = {
                "first_unit_s": round(first_s, 3),
                "epoch_s": round(time.perf_counter() - begun, 2),
                "peak_mib": _peak_mib(),
            }
    return told


def _index_of(n_records: int) -> Index:
    """Return an index as a converted data set of 1,281,167 photographs or so has: each value on pages of its own."""
    rng = np.random.default_rng(0)
    lengths = np.minimum(rng.lognormal(np.log(_RECORD) - 0.18, 0.6, n_records), 1e7).astype(np.int64)
    spans = -(-(lengths + 16) // _PAGE) * _PAGE
    offsets = np.cumsum(spans) - spans + 2 * _PAGE + 16
    size = int(offsets[-1] + spans[-1])
    fingerprint = Fingerprint(1, size, _PAGE, 2, n_records, size // _PAGE, "0" * 64, "0" * 64, "0" * 64)
    order = rng.permutation(n_records)
    placed = np.empty(n_records, np.uint64)
    placed[order] = offsets
    numbered = np.empty(n_records, np.int64)
    numbered[order] = lengths
    return Index.make(
        fingerprint=fingerprint,
        page_size=_PAGE,
        keys=_keys(n_records),
        key_order="bytes",
        offsets=placed,
        lengths=numbered,
        layout_order=order,
    )


def _keys(n_records: int) -> Keys:
    """Return decimal numbers from 0 on, of eight digits."""
    rows = DecimalKeys(n_records=n_records, start=0, size=8).rows(np.arange(n_records))
    return Keys(rows.reshape(-1), np.arange(n_records + 1) * 8)


def first(options: argparse.Namespace) -> dict[str, Any]:
    """Open a data set of many small records in a fresh process and take a batch, its index in memory."""
    path = _make(options.folder, n_records=options.records, size=100)
    code = (
        "import sys, time; from lmdbio.reader import ParallelReader; begun = time.perf_counter();"
        "reader = ParallelReader(sys.argv[1], batch_size=256, order=sys.argv[2]); next(iter(reader));"
        "print(time.perf_counter() - begun); reader.close()"
    )
    told: dict[str, Any] = {"records": options.records}
    for order in ORDERS:
        seconds = [
            float(subprocess.run([sys.executable, "-c", code, path, order], capture_output=True, check=True).stdout)
            for _ in range(options.rounds)
        ]
        told[order] = _spread(seconds)
    return told


def overlap(options: argparse.Namespace) -> dict[str, Any]:
    """Read a cold epoch without computing, then with as much of it (a sleep) as reading takes."""
    path = _make(options.folder, n_records=options.records, size=_RECORD)
    more = ReadOptions(direct=options.direct)
    reading, together = [], []

    def epoch(sleep_s: float) -> tuple[float, int]:
        page_cache.empty(path)
        with ParallelReader(path, batch_size=64, order=options.order, options=more) as reader:
            begun, n = time.perf_counter(), 0
            for batch in reader:
                batch.release()
                n += 1
                if sleep_s:
                    time.sleep(sleep_s)
            return time.perf_counter() - begun, n

    epoch(0)
    for _ in range(options.rounds):
        seconds, n = epoch(0)
        begun = time.perf_counter()
        for _ in range(n):
            time.sleep(seconds / n)
        computing = time.perf_counter() - begun
        reading.append(seconds)
        together.append(epoch(seconds / n)[0] / max(seconds, computing))
    return {
        "order": options.order,
        "records": options.records,
        "reading_s": _spread(reading),
        "together_of_the_longer": _spread(together),
    }


def memory(options: argparse.Namespace) -> dict[str, Any]:
    """Read an epoch of a database four times as large as prefetch_bytes and 300 MB together, in fresh processes."""
    limit = _PREFETCH + 300_000_000
    path = _make(options.folder, n_records=4 * limit // _RECORD, size=_RECORD)
    code = (
        "import sys; from lmdbio.reader import ParallelReader, ReadOptions;"
        "reader = ParallelReader(sys.argv[1], batch_size=64, order=sys.argv[2], prefetch_bytes=int(sys.argv[4]),"
        "options=ReadOptions(direct=sys.argv[3] == 'direct'), shuffle_window=1);\n"
        "for batch in reader: batch.release()\n"
        "reader.close()\n"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    told: dict[str, Any] = {"limit_mib": limit >> 20, "database_mib": path.stat().st_size >> 20}
    for order in ORDERS:
        for way in ("buffered", "direct"):
            page_cache.empty(path)
            command = [sys.executable, "-c", code, path, order, way, str(_PREFETCH)]
            peak = int(subprocess.run(command, capture_output=True, check=True).stdout)
            told[f"{order} {way}, peak MiB"] = peak >> 10
    return told


def _make(folder: Path, *, n_records: int, size: int) -> Path:
    """Make a database with its index, unless it is there."""
    path = folder / f"{n_records}-of-{size}.mdb"
    if not Path(f"{path}.index").exists():
        path.unlink(missing_ok=True)
        rng = np.random.default_rng(0)

        def records() -> Iterator[tuple[bytes, bytes]]:
            block = rng.bytes(2 * size)
            for number in range(n_records):
                start = number * 7919 % size
                yield b"%08d" % number, block[start : start + size]

        write_database(path, records(), align=_PAGE)
        build_index(path).save(f"{path}.index")
    return path


def _spread(numbers: list[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(numbers), 3),
        "least": round(min(numbers), 3),
        "most": round(max(numbers), 3),
    }


def _peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


_FIGURES: Final[dict[str, Callable[[argparse.Namespace], dict[str, Any]]]] = {
    "plan": plan,
    "first": first,
    "overlap": overlap,
    "memory": memory,
}


def main() -> None:
    """Print a figure."""
    parser = argparse.ArgumentParser(prog="python -m tools.reader_figures", description=__doc__.partition("\n")[0])
    parser.add_argument("figure", choices=_FIGURES)
    parser.add_argument("--records", type=int, help="of the data set: 1,281,167, and 10,000 of overlap's")
    parser.add_argument("--rounds", type=int, default=5, help="(default %(default)s)")
    parser.add_argument("--order", choices=ORDERS, default="sequential", help="of overlap (default %(default)s)")
    parser.add_argument("--direct", action="store_true", help="overlap: reads past the page cache")
    parser.add_argument("--folder", type=Path, help="where data is made, and kept; otherwise it goes away")
    options = parser.parse_args()
    options.records = options.records or (10_000 if options.figure == "overlap" else 1_281_167)
    with tempfile.TemporaryDirectory(prefix="lmdbio-figures-") as folder:
        options.folder = options.folder or Path(folder)
        options.folder.mkdir(parents=True, exist_ok=True)
        print(json.dumps({"figure": options.figure, **_FIGURES[options.figure](options)}, indent=2))


if __name__ == "__main__":
    main()
