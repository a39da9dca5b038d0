"""ArrayRecord: one uncompressed file with an index, read many record numbers at a time."""

import os
import random
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.compare.contestant import Epoch, Ranks, Record, Source, Way

if TYPE_CHECKING:
    from array_record.python.array_record_module import ArrayRecordReader

_SEQUENTIAL: Final = Way("sequential", "sequential", "none")
_SHUFFLED: Final = Way("shuffled", "shuffled", "global")
_FILE: Final = "records.array_record"
_WRITER_OPTIONS: Final = "group_size:1,uncompressed"
"""Each record can be read alone: what its documentation advises for training."""
_READER_OPTIONS: Final = "readahead_buffer_size:0,max_parallelism:0"
"""What it advises for reading by number. Its own read-ahead serves only reading one record after the other."""
_LABEL_SIZE: Final = 4
"""Bytes before each value: a record is bytes alone, so a user has to put the label in."""
_READ_SIZE: Final = 8 << 20
"""Bytes that one call reads, about. Each call walks the whole index, so many small calls cost more than they read."""
_N_READS: Final = 4
"""Calls in flight: each fills the reader's own threads, and more of them hide the wait for storage."""


class ArrayRecord:
    """Record numbers are split between ranks here; the package leaves that to Grain."""

    name = "arrayrecord"
    requirements: tuple[str, ...] = ("array-record==0.8.6",)
    ways = (_SEQUENTIAL, _SHUFFLED)

    def convert(self, source: Source, target: Path) -> None:
        """Write all records, labels before values, into one file."""
        write(source, target)

    @contextmanager
    def open(self, target: Path, way: Way, ranks: Ranks) -> Iterator[Epoch]:
        """Read in order a run of the file, or every n-th record of a permutation."""
        from array_record.python.array_record_module import ArrayRecordReader

        path = os.fspath(file_in(target))
        reader = ArrayRecordReader(path, _READER_OPTIONS)
        n_records = reader.num_records()
        mean_size = os.path.getsize(path) // max(1, n_records)
        n_at_once = max(1, _READ_SIZE // mean_size // ranks.batch_size) * ranks.batch_size

        def epoch(number: int) -> Iterator[list[memoryview]]:
            mine = _mine(n_records, way, ranks, number)
            reads = [mine[first : first + n_at_once] for first in range(0, len(mine), n_at_once)]
            for values in _read_ahead(reader, reads, pool):
                for first in range(0, len(values), ranks.batch_size):
                    yield [value_of(record) for record in values[first : first + ranks.batch_size]]

        with ThreadPoolExecutor(_N_READS) as pool:
            yield epoch
        reader.close()


def file_in(target: Path) -> Path:
    """Return the file that :func:`write` makes in a folder."""
    return target / _FILE


def write(source: Source, target: Path) -> None:
    """Write a source to a file in a new folder."""
    from array_record.python.array_record_module import ArrayRecordWriter

    target.mkdir(parents=True)
    writer = ArrayRecordWriter(os.fspath(file_in(target)), _WRITER_OPTIONS)
    for record in source:
        writer.write(_stored(record))
    writer.close()


def value_of(stored: bytes) -> memoryview:
    """Return the value in what :func:`write` stored."""
    return memoryview(stored)[_LABEL_SIZE:]


def _stored(record: Record) -> bytes:
    return record.label.to_bytes(_LABEL_SIZE, "little") + record.value


def _mine(n_records: int, way: Way, ranks: Ranks, epoch: int) -> Sequence[int]:
    """Return the record numbers that a rank reads in an epoch."""
    if way == _SEQUENTIAL:
        first, end = (n_records * rank // ranks.size for rank in (ranks.rank, ranks.rank + 1))
        return range(first, end)
    order = list(range(n_records))
    random.Random(f"{ranks.seed} {epoch}").shuffle(order)
    return order[ranks.rank :: ranks.size]


def _read_ahead(
    reader: "ArrayRecordReader", reads: Sequence[Sequence[int]], pool: ThreadPoolExecutor
) -> Iterator[list[bytes]]:
    """Yield what the reads give, in their order, with some of them under way."""
    running: deque[Future[list[bytes]]] = deque()
    for numbers in reads:
        if len(running) == _N_READS:
            yield running.popleft().result()
        running.append(pool.submit(reader.read, numbers))
    while running:
        yield running.popleft().result()


CONTESTANT = ArrayRecord()
