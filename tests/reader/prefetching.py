"""Units of a file in memory, and what reads them ahead."""

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from lmdbio.layout.pool import BufferPool
from lmdbio.reader.meter import Meter
from lmdbio.reader.plan import plan_reads
from lmdbio.reader.prefetch import Prefetcher
from lmdbio.reader.unit import Unit
from tests.reader.sources import FakeSource

CONTENT = np.random.default_rng(0).bytes(4 << 20)
SIZE = 1 << 16
N_UNITS = len(CONTENT) // SIZE


def make_unit(step: int, offset: int, length: int, *, read_size: int = 1 << 14) -> Unit:
    offsets, lengths = np.array([offset]), np.array([length])
    plan = plan_reads(offsets, lengths, gap=0, read_size=read_size, align=1)
    return Unit(step, np.array([0, 1]), np.zeros(1, np.int64), np.array([step]), offsets, plan)


def units(n_units: int = N_UNITS) -> Iterator[Unit]:
    return (make_unit(step, step * SIZE, SIZE) for step in range(n_units))


def make_prefetcher(source: FakeSource, *, n_units: int = N_UNITS, **options: Any) -> Prefetcher:
    settings: dict[str, Any] = {
        "depth_of": lambda _: 4,
        "prefetch_bytes": 8 * SIZE,
        "window": 2 * SIZE,
        "least_window": 0,
        "on_wait": lambda: None,
        "meter": Meter(),
    } | options
    return Prefetcher(iter([units(n_units)]), source=source, pool=BufferPool(keep=1 << 22), **settings)


def drain(prefetcher: Prefetcher) -> list[bytes]:
    taken = []
    while prefetcher.peek() is not None:
        load = prefetcher.take()
        if load.error is not None:
            raise load.error
        taken.append(load.buffer.tobytes())
        prefetcher.give_back(load)
    return taken


def whole(n_units: int = N_UNITS) -> list[bytes]:
    return [CONTENT[start : start + SIZE] for start in range(0, n_units * SIZE, SIZE)]


def n_reading_threads() -> int:
    return sum(thread.name == "lmdbio-read" for thread in threading.enumerate())
