"""Passes over a database in each way of reading: step by step, every byte hashed and none kept."""

import itertools
import mmap
import os
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, cast

import xxhash

from lmdbio.comm import Comm
from lmdbio.errors import ReadError
from lmdbio.reader.options import ReadOptions
from lmdbio.reader.parallel import ParallelReader
from lmdbio.reader.sequence import Order
from lmdbio.reader.settings import Io
from lmdbio.reader.stock import open_stock
from lmdbio.reader.subject import Passes, Subject, Work, hashed
from lmdbio.reader.ways import Way

_O_DIRECT: Final[int] = getattr(os, "O_DIRECT", 0)


@contextmanager
def open_way(way: Way, subject: Subject, comm: Comm, *, seed: int) -> Generator[Passes]:
    """Collective. Give the passes of a way of reading, on every rank of the communicator."""
    if way.by == "lmdbio":
        with _open_reader(way, subject, comm, seed=seed) as reader:
            yield _ReaderPasses(reader, subject, n_ranks=comm.Get_size(), is_block=way.order == "block")
    elif way.by == "plain":
        yield _PlainPasses(subject, comm, direct=way.direct)
    else:
        with open_stock(way, subject, comm, seed=seed) as passes:
            yield passes


def _open_reader(way: Way, subject: Subject, comm: Comm, *, seed: int) -> ParallelReader:
    return ParallelReader(
        subject.database,
        comm=comm,
        batch_size=subject.batch_size,
        order=cast(Order, way.order),
        seed=seed,
        io=cast(Io, way.io),
        streams=subject.streams,
        shuffle_window=subject.shuffle_window,
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
            yield hashed(batch.values)
            batch.release()  # the next batch can have its buffer, which is in the cache


class _PlainPasses:
    """Reads of the file itself, in order, as large and as many at a time as ours; ranks take blocks by turns."""

    def __init__(self, subject: Subject, comm: Comm, *, direct: bool) -> None:
        options = ReadOptions()
        self._block_size = options.read_size
        self._depth = options.depth_of(self._block_size)
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
