"""Passes over a database in each way of reading: step by step, every byte hashed and none kept."""

import inspect
import itertools
import mmap
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, cast

import lmdb
import numpy as np
import xxhash

from lmdbio.comm import Comm
from lmdbio.errors import ReadError
from lmdbio.layout.index import Index
from lmdbio.layout.path import PathLike
from lmdbio.layout.permutation import Permutation
from lmdbio.reader.options import ReadOptions
from lmdbio.reader.parallel import ParallelReader
from lmdbio.reader.sequence import Order
from lmdbio.reader.settings import Io
from lmdbio.reader.ways import Way

_O_DIRECT: Final[int] = getattr(os, "O_DIRECT", 0)
_SHUFFLE_WINDOW: Final[int] = inspect.signature(ParallelReader).parameters["shuffle_window"].default


class Work(NamedTuple):
    """What has been read."""

    n_records: int
    n_bytes: int


@dataclass(frozen=True, slots=True)
class Subject:
    """The database that is read, and in what steps."""

    database: PathLike
    """As it was named."""
    data: str
    """Its data file."""
    file_size: int
    """Bytes of the data file."""
    index: Index
    """Where the records are."""
    index_path: PathLike | None
    """The index's file, where it does not lie beside the data file."""
    batch_size: int
    """Records of a step on each rank."""
    streams: int
    """Streams of ``block`` order."""

    @property
    def shuffled_together(self) -> int:
        """Records that ``block`` order shuffles at a time, in all streams together, about."""
        n_partitions = max(1, len(self.index.partitions) - 1)
        return min(len(self.index), self.streams * _SHUFFLE_WINDOW * len(self.index) // n_partitions)

    def step_size(self, n_ranks: int) -> int:
        """Return the bytes of a step of so many ranks, about, and rather too many: of the file for each record."""
        return max(1, self.file_size * self.batch_size * n_ranks // max(1, len(self.index)))


class Passes(Protocol):
    """One way of reading, open on one rank of those that read together."""

    n_steps: int
    """Steps of a pass, the same on every rank."""
    step_size: int
    """Bytes of a step of all ranks, about."""
    period: int
    """Steps from one time that much is read at once to the next, where a reader does so; 1 where it does not."""

    def prepare(self, steps: range) -> None:
        """Make ready what a program would have at hand before these steps."""

    def begin(self) -> Iterator[Work]:
        """Begin a pass; what is given for each step is this rank's part of it."""


@contextmanager
def open_way(way: Way, subject: Subject, comm: Comm, *, seed: int) -> Generator[Passes]:
    """Collective. Give the passes of a way of reading, on every rank of the communicator."""
    if way.by == "lmdbio":
        with _open_reader(way, subject, comm, seed=seed) as reader:
            yield _ReaderPasses(reader, subject, n_ranks=comm.Get_size(), is_block=way.order == "block")
    elif way.by == "plain":
        yield _PlainPasses(subject, comm, direct=way.direct)
    else:
        with _open_stock(subject.data, readahead=way.readahead) as transaction:
            share = _Share(subject, comm)
            if way.is_shuffled:
                yield _GetPasses(transaction, subject.index, share, seed=seed)
            else:
                yield _CursorPasses(transaction, share)


def _hashed(values: Iterable[memoryview]) -> Work:
    n_records = n_bytes = 0
    for value in values:
        xxhash.xxh3_64_intdigest(value)
        n_bytes += len(value)
        n_records += 1
    return Work(n_records, n_bytes)


def _open_reader(way: Way, subject: Subject, comm: Comm, *, seed: int) -> ParallelReader:
    return ParallelReader(
        subject.database,
        comm=comm,
        batch_size=subject.batch_size,
        order=cast(Order, way.order),
        seed=seed,
        io=cast(Io, way.io),
        streams=subject.streams,
        options=ReadOptions(direct=way.direct),
        index=subject.index_path,
        # Ranks that read together cannot go on when one has failed.
        on_error="abort" if way.io == "collective" else "raise",
    )


class _ReaderPasses:
    def __init__(self, reader: ParallelReader, subject: Subject, *, n_ranks: int, is_block: bool) -> None:
        self._reader = reader
        self.n_steps = len(reader)
        self.step_size = subject.step_size(n_ranks)
        self.period = 1
        if is_block:
            # A group of each stream is read before its first record is handed out.
            n_records = subject.shuffled_together
            self.period = -(-n_records // (subject.batch_size * n_ranks))

    def prepare(self, steps: range) -> None:
        pass

    def begin(self) -> Iterator[Work]:
        self._reader.set_epoch(0)
        for batch in self._reader:
            yield _hashed(batch.values)
            batch.release()  # the next batch can have its buffer, which is in the cache


@contextmanager
def _open_stock(data: str, *, readahead: bool) -> Generator[lmdb.Transaction]:
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
            yield _hashed(itertools.islice(step, share.rank, None, share.n_ranks))


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
            yield _hashed(map(get, self._keys[step]))


class _PlainPasses:
    """Reads of the file itself, in order, as large and as many at a time as ours; ranks take blocks by turns."""

    def __init__(self, subject: Subject, comm: Comm, *, direct: bool) -> None:
        options = ReadOptions()
        self._depth = options.depth
        self._block_size = options.read_size
        self._path = subject.data
        self._flags = os.O_RDONLY | os.O_CLOEXEC | (_O_DIRECT if direct else 0)
        n_blocks = -(-subject.file_size // self._block_size)
        self._blocks = range(comm.Get_rank(), n_blocks, comm.Get_size())
        self.n_steps = -(-n_blocks // comm.Get_size())
        self.step_size = self._block_size * comm.Get_size()
        self.period = 1

    def prepare(self, steps: range) -> None:
        pass

    def begin(self) -> Iterator[Work]:
        fd = os.open(self._path, self._flags)
        free = deque(mmap.mmap(-1, self._block_size) for _ in range(self._depth))  # at page bounds, as O_DIRECT asks
        reads: deque[Future[Work]] = deque()

        def read(block: int) -> Work:
            buffer = free.popleft()
            offset = block * self._block_size
            try:
                n_bytes = os.preadv(fd, [buffer], offset)
            except OSError as exc:
                raise ReadError(self._path, offset, self._block_size, f"found {exc.strerror}") from exc
            with memoryview(buffer) as view:
                xxhash.xxh3_64_intdigest(view[:n_bytes])
            free.append(buffer)
            return Work(0, n_bytes)

        try:
            with ThreadPoolExecutor(self._depth) as pool:
                blocks = iter(self._blocks)
                reads.extend(pool.submit(read, block) for block in itertools.islice(blocks, self._depth))
                for _ in range(self.n_steps):
                    yield reads.popleft().result() if reads else Work(0, 0)
                    reads.extend(pool.submit(read, block) for block in itertools.islice(blocks, 1))
        finally:
            os.close(fd)
