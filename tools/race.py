"""One process reads a database in several ways, under the same conditions: stock LMDB's, and ours.

Every contestant opens the database, takes the XXH3-64 of each value, so that every byte is touched, and closes it; what
it read is compared with the index's checksums after the clock has stopped. Rounds are interleaved, and the median
counts.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Final, TypeAlias

import lmdb
import numpy as np
import xxhash
from numpy.typing import NDArray

from lmdbio.layout import Index
from lmdbio.layout.path import resolve
from lmdbio.layout.permutation import Permutation
from lmdbio.reader import ParallelReader
from lmdbio.reader.sequence import Order
from tools import page_cache

_BATCH_BYTES: Final = 4 << 20

Read: TypeAlias = tuple[NDArray[np.int64], list[int]]
"""Record numbers, and the checksum of each value, in the order read."""


@dataclass(frozen=True, slots=True)
class Race:
    """The database that is read, and what must be known of it beforehand."""

    database: str
    index: Index

    @property
    def data_file(self) -> str:
        """Path of the data file."""
        return os.fspath(resolve(self.database).data)

    @property
    def n_bytes(self) -> int:
        """Bytes of all values."""
        return int(self.index.lengths.sum())

    @property
    def batch_size(self) -> int:
        """Records of a batch of about 4 MiB."""
        return max(1, _BATCH_BYTES * len(self.index) // max(1, self.n_bytes))


@dataclass(frozen=True, slots=True)
class Result:
    """What one contestant needed."""

    name: str
    records: int
    n_bytes: int
    cold_seconds: float | None
    """Median; None where the file could not be dropped from memory."""
    warm_seconds: float
    """Median."""


def stock_cursor(race: Race) -> Read:
    """Read in key order, with a cursor."""
    with _stock(race) as environment, environment.begin(buffers=True) as transaction:
        checksums = [xxhash.xxh3_64_intdigest(value) for _, value in transaction.cursor()]
    return np.arange(len(checksums)), checksums


def stock_get(race: Race) -> Read:
    """Read in random order, by key."""
    numbers = Permutation(len(race.index), seed=0, purpose="race")(np.arange(len(race.index)))
    keys = [race.index.keys[number] for number in numbers.tolist()]
    with _stock(race) as environment, environment.begin(buffers=True) as transaction:
        checksums = [xxhash.xxh3_64_intdigest(transaction.get(key, b"")) for key in keys]
    return numbers, checksums


def ours(order: Order) -> Callable[[Race], Read]:
    """Return a contestant that reads in one of our orders."""

    def read(race: Race) -> Read:
        numbers: list[NDArray[np.int64]] = []
        checksums: list[int] = []
        with ParallelReader(race.database, batch_size=race.batch_size, order=order) as reader:
            for batch in reader:
                numbers.append(batch.indices)
                checksums.extend(map(xxhash.xxh3_64_intdigest, batch.values))
        return np.concatenate(numbers), checksums

    return read


CONTESTANTS: Final[dict[str, Callable[[Race], Read]]] = {
    "stock cursor, key order": stock_cursor,
    "lmdbio, sequential": ours("sequential"),
    "lmdbio, block": ours("block"),
    "stock get, random": stock_get,
    "lmdbio, global": ours("global"),
}


def run(database: str | os.PathLike[str], *, rounds: int) -> list[Result]:
    """Return what each contestant needed, all having read every record once and rightly.

    Raises
    ------
    RuntimeError
        If one of them did not.
    """
    race = Race(os.fspath(database), Index.open(database))
    cold: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    warm: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    for _ in range(rounds):
        for name, contestant in CONTESTANTS.items():
            if page_cache.drop(race.data_file):
                cold[name].append(_time(race, name, contestant))
            page_cache.fill(race.data_file)
            warm[name].append(_time(race, name, contestant))
    return [
        Result(
            name,
            len(race.index),
            race.n_bytes,
            median(cold[name]) if len(cold[name]) == rounds else None,
            median(warm[name]),
        )
        for name in CONTESTANTS
    ]


def _time(race: Race, name: str, contestant: Callable[[Race], Read]) -> float:
    started = time.perf_counter()
    numbers, checksums = contestant(race)
    seconds = time.perf_counter() - started
    if not np.array_equal(np.sort(numbers), np.arange(len(race.index))):
        raise RuntimeError(f"{name}: expected every record once, found {len(numbers)} reads of {len(race.index)}")
    expected = race.index.checksums
    if expected is not None and not np.array_equal(np.array(checksums, np.uint64), expected[numbers]):
        raise RuntimeError(f"{name}: expected the checksums of the index, found others")
    return seconds


def _stock(race: Race) -> lmdb.Environment:
    return lmdb.open(race.data_file, subdir=False, readonly=True, lock=False)
