"""Stock LMDB through py-lmdb: written by append, read by a cursor as Caffe does, or by key in random order."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tools.compare.contestant import Epoch, Ranks, Source, Way

_MAP_SIZE: Final = 1 << 40
_COMMIT_EVERY: Final = 1000
"""Records of a transaction, as in Caffe's convert_imageset."""
_KEYS: Final = "keys"
_NO_READAHEAD: Final = "no readahead"
_CURSOR: Final = "cursor"


class Stock:
    """The library that everybody has.

    The records lie in the source's order, so a cursor gives them sorted by class: who stored them so and reads so has
    no shuffle.
    """

    name = "stock"
    requirements: tuple[str, ...] = ()
    ways = (
        Way(_CURSOR, "sequential", "none"),
        Way(f"{_CURSOR}, {_NO_READAHEAD}", "sequential", "none"),
        Way("get", "shuffled", "global"),
        Way(f"get, {_NO_READAHEAD}", "shuffled", "global"),
    )

    def convert(self, source: Source, target: Path) -> None:
        """Append all records, a thousand a transaction, the number first in the key as Caffe has it."""
        import lmdb

        target.mkdir()
        # Without a sync at each commit, as loaders of whole data sets do; one at the end.
        environment = lmdb.open(str(target), map_size=_map_size(source), sync=False)
        transaction = environment.begin(write=True)
        keys = []
        for number, record in enumerate(source):
            keys.append(b"%09d_%s" % (number, record.name.encode()))
            transaction.put(keys[-1], record.value, append=True)
            if number % _COMMIT_EVERY == _COMMIT_EVERY - 1:
                transaction.commit()
                transaction = environment.begin(write=True)
        transaction.commit()
        environment.sync(True)
        environment.close()
        (target / _KEYS).write_bytes(b"\n".join(keys))

    @contextmanager
    def open(self, target: Path, way: Way, ranks: Ranks) -> Iterator[Epoch]:
        """Open the database for one rank."""
        import lmdb

        readahead = _NO_READAHEAD not in way.name
        with (
            lmdb.open(str(target), readonly=True, lock=False, readahead=readahead) as environment,
            environment.begin(buffers=True) as transaction,
        ):
            if way.name.startswith(_CURSOR):
                yield lambda _: _walk(transaction, ranks)
            else:
                # From a list beside the database, as torchvision's LSUN keeps one: a walk would read all leaves.
                keys = (target / _KEYS).read_bytes().split(b"\n")
                yield lambda number: _look_up(transaction, keys, ranks, number)


def _map_size(source: Source) -> int:
    """Return room enough on a 64-bit machine: it is address space, not memory or disk."""
    return max(_MAP_SIZE, len(source) << 13)


def _walk(transaction: Any, ranks: Ranks) -> Iterator[list[memoryview]]:
    """Yield every n-th value: each rank walks over all of them, as Caffe's readers do."""
    batch: list[memoryview] = []
    for number, value in enumerate(transaction.cursor().iternext(keys=False)):
        if number % ranks.size == ranks.rank:
            batch.append(value)
            if len(batch) == ranks.batch_size:
                yield batch
                batch = []
    if batch:
        yield batch


def _look_up(transaction: Any, keys: list[bytes], ranks: Ranks, number: int) -> Iterator[list[memoryview]]:
    """Yield this rank's values in an order of its own in each epoch, looked up by key."""
    order = list(range(len(keys)))
    random.Random(f"{ranks.seed} {number}").shuffle(order)
    mine = order[ranks.rank :: ranks.size]
    for first in range(0, len(mine), ranks.batch_size):
        yield [transaction.get(keys[place]) for place in mine[first : first + ranks.batch_size]]


CONTESTANT = Stock()
