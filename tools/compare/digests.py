"""What must have been read, and what was: the XXH3-64 of every value. No timing here."""

import json
import os
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xxhash
from numpy.typing import NDArray

from tools.compare.contestant import Buffer, Source


@dataclass(frozen=True, slots=True)
class Expected:
    """The values of a data set, by their digests."""

    digests: NDArray[np.uint64]
    """Of all values, sorted, uint64, shape (n_records,)."""
    n_bytes: int
    """Bytes of all values."""

    @property
    def n_records(self) -> int:
        """How many there are."""
        return len(self.digests)

    @property
    def xor(self) -> int:
        """All digests combined by exclusive or."""
        return int(np.bitwise_xor.reduce(self.digests))


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of a data set's records in one epoch of all ranks."""

    n_missing: int
    """Records that nobody was given."""
    n_foreign: int
    """Values that are none of the data set's."""
    n_repeated: int
    """Values that were given again."""

    @property
    def reason(self) -> str | None:
        """Why the epoch does not count, in one line; None if it does."""
        if not self.n_missing and not self.n_foreign:
            return None
        return f"expected every record, found {self.n_missing} missing and {self.n_foreign} with other bytes"


class Tally:
    """Counts what one rank is given, touching every byte."""

    def __init__(self) -> None:
        self.digests: array[int] = array("Q")
        """Of every value given, in the order given."""
        self.n_bytes = 0
        """Bytes of all values given."""

    def add(self, values: Sequence[Buffer]) -> None:
        """Count the values of a batch."""
        # No Python code runs per value: small records are many.
        self.digests.extend(map(xxhash.xxh3_64_intdigest, values))
        self.n_bytes += sum(map(len, values))


def judge(expected: Expected, given: Iterable[NDArray[np.uint64]]) -> Finding:
    """Return what the digests of all ranks say.

    A value that was given again is no fault: some peers pad an epoch. It is told, and it counts once.
    """
    given = np.concatenate([np.empty(0, np.uint64), *given])
    wanted, wanted_counts = np.unique(expected.digests, return_counts=True)
    found, counts = np.unique(given, return_counts=True)
    places = np.minimum(np.searchsorted(wanted, found), max(0, len(wanted) - 1))
    known = wanted[places] == found if len(wanted) else np.zeros(len(found), bool)
    n_given = np.zeros(len(wanted), np.int64)
    n_given[places[known]] = counts[known]
    return Finding(
        n_missing=int(np.maximum(wanted_counts - n_given, 0).sum()),
        n_foreign=int(counts[~known].sum()),
        n_repeated=int(np.maximum(n_given - wanted_counts, 0).sum()),
    )


def expect(source: Source, cached: Path) -> Expected:
    """Return what a source holds, from the file ``cached`` if it is there; otherwise read all and make that file."""
    if not cached.exists():
        tally = Tally()
        for record in source:
            tally.add((record.value,))
        digests = np.sort(np.frombuffer(tally.digests, np.uint64))
        facts = {"records": len(digests), "bytes": tally.n_bytes, "xor": int(np.bitwise_xor.reduce(digests))}
        cached.parent.mkdir(parents=True, exist_ok=True)
        partial = cached.with_name(f"{cached.name}.partial-{os.getpid()}")
        with open(partial, "wb") as file:
            np.savez(file, digests=digests, facts=np.array(json.dumps(facts)))
        partial.rename(cached)
    with np.load(cached) as held:
        return Expected(held["digests"], json.loads(str(held["facts"]))["bytes"])
