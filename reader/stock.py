"""Passes of stock LMDB: by cursor in key order, and by key in random order."""

import itertools
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import cast

import lmdb
import numpy as np

from lmdbio.comm import Comm
from lmdbio.errors import ReadError
from lmdbio.layout.index import Index
from lmdbio.layout.permutation import Permutation
from lmdbio.reader.subject import Passes, Subject, Work, hashed
from lmdbio.reader.ways import Way


@contextmanager
def open_stock(way: Way, subject: Subject, comm: Comm, *, seed: int) -> Generator[Passes]:
    """Give the passes of stock LMDB on this rank."""
    with _open(subject.data, readahead=way.readahead) as transaction:
        share = _Share(subject, comm)
        if way.is_shuffled:
            yield _GetPasses(transaction, subject.index, share, seed=seed)
        else:
            yield _CursorPasses(transaction, share)


@contextmanager
def _open(data: str, *, readahead: bool) -> Generator[lmdb.Transaction]:
    try:
        environment = lmdb.open(data, subdir=False, readonly=True, lock=False, readahead=readahead)
    except lmdb.Error as exc:
        raise ReadError(data, 0, 0, f"expected a database that stock LMDB opens, found it refused: {exc}") from exc
    with environment, environment.begin(buffers=True) as transaction:
        yield transaction


class _Share:
    """Which records of each step stock LMDB's ranks read."""

    def __init__(self, subject: Subject, comm: Comm) -> None:
        self.n_records = len(subject.index)
        self.batch_size = subject.batch_size
        self.rank = comm.Get_rank()
        self.n_ranks = comm.Get_size()
        self.n_steps = -(-self.n_records // (self.batch_size * self.n_ranks))
        self.step_size = subject.step_size(self.n_ranks)

    def positions(self, step: int) -> range:
        """Return this rank's slice of a step."""
        first = (step * self.n_ranks + self.rank) * self.batch_size
        return range(min(first, self.n_records), min(first + self.batch_size, self.n_records))


class _CursorPasses:
    """Caffe's pattern: the cursor of each rank walks all keys, and takes its own values."""

    def __init__(self, transaction: lmdb.Transaction, share: _Share) -> None:
        self._transaction = transaction
        self._share = share
        self.n_steps = share.n_steps
        self.step_size = share.step_size
        self.period = 1

    def prepare(self, steps: range) -> None:
        pass

    def begin(self) -> Iterator[Work]:
        share = self._share
        values = cast(Iterator[memoryview], self._transaction.cursor().iternext(keys=False, values=True))
        for _ in range(self.n_steps):
            step = itertools.islice(values, share.batch_size * share.n_ranks)
            yield hashed(itertools.islice(step, share.rank, None, share.n_ranks))


class _GetPasses:
    """Values by key, in random order; the keys are at hand beforehand, as a program's own list would be."""

    def __init__(self, transaction: lmdb.Transaction, index: Index, share: _Share, *, seed: int) -> None:
        self._transaction = transaction
        self._all_keys = index.keys
        self._share = share
        self._shuffled = Permutation(share.n_records, seed=seed, purpose="measure")
        self._keys: dict[int, list[bytes]] = {}
        self.n_steps = share.n_steps
        self.step_size = share.step_size
        self.period = 1

    def prepare(self, steps: range) -> None:
        for step in steps:
            if step not in self._keys:
                numbers = self._shuffled(np.array(self._share.positions(step), np.int64))
                self._keys[step] = [self._all_keys[number] for number in numbers.tolist()]

    def begin(self) -> Iterator[Work]:
        get = cast(Callable[[bytes], memoryview], self._transaction.get)
        for step in range(self.n_steps):
            yield hashed(map(get, self._keys[step]))
