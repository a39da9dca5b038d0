"""A database as a data set of one process: any record by number or key, many at once; no MPI."""

import operator
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from lmdbio.comm import SingleProcess
from lmdbio.errors import ReadError
from lmdbio.layout.path import PathLike
from lmdbio.layout.pool import BufferPool
from lmdbio.reader.databases import DatabaseFiles, Databases, find_databases
from lmdbio.reader.fetch import end_of_task, find_unreadable, read_all, read_cached, reads_of
from lmdbio.reader.joined_index import RecordIndex
from lmdbio.reader.opening import check_states, mean_length, open_files, open_indexes
from lmdbio.reader.options import ReadOptions, options_or_default
from lmdbio.reader.plan import ReadPlan, plan_reads
from lmdbio.reader.record import Record
from lmdbio.reader.unit import check_extents
from lmdbio.reader.views import Views

_KEEP: Final = 64 << 20  # bytes of buffers kept between fetches


class Dataset:
    """Records of a database by number or key, for one process and its data loader's workers.

    Safe to share between threads, to pickle, and to use after a fork: each process opens the file for itself. No lock
    file, no map, no limit of readers. Iterating gives the records by number; for an epoch in a good order of reading
    there is :class:`lmdbio.reader.ParallelReader`.

    Parameters
    ----------
    database
        ``x.lmdb``, ``x.lmdb/data.mdb`` or a single file; or several of them that are read as one: a list, a glob, or a
        directory of databases whose names differ by numbers alone. Records are numbered on from one to the next, in the
        order of the list, or of names, their digits counted as numbers; a key in two of them is found in the first.
        Class numbers are those of one list, in which the databases' class names are merged.
    index
        The sidecar, where it does not stand beside the data file; of several databases, a list of them. Without a
        sidecar an index is made in memory.
    options
        Finer knobs of :meth:`fetch`.

    Raises
    ------
    TypeError
        If ``options`` are no :class:`ReadOptions`.
    MissingDatabaseError, MissingIndexError, StaleIndexError, FormatError
        If the database or its index is not there or not fit to read.

    Examples
    --------
    >>> data = Dataset("train.lmdb")  # doctest: +SKIP
    >>> data[5].label, bytes(data[b"00000005_n01440764/x.JPEG"].data[:4])  # doctest: +SKIP
    (0, b'GIF8')
    >>> [record.key for record in data.fetch([3, 1, 2])]  # doctest: +SKIP
    """

    def __init__(
        self,
        database: Databases,
        *,
        index: PathLike | Sequence[PathLike] | None = None,
        options: ReadOptions | None = None,
    ) -> None:
        self._found = find_databases(database, index)
        self._options = options_or_default(options)
        self.index, self._has_sidecar = open_indexes(self._found)
        self._opened: _Opened | None = _Opened(self._found, self.index, self._options)

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, record: int | bytes) -> Record:
        """Return a record by number (negative: from the end) or key.

        Raises
        ------
        KeyError
            If no record has the key.
        IndexError
            If the number is out of range.
        ReadError
            If it cannot be read.
        """
        return self.fetch([record])[0]

    def __iter__(self) -> Iterator[Record]:
        return map(self.__getitem__, range(len(self)))

    def __contains__(self, record: object) -> bool:
        """Return whether there is a record of this number or key; nothing is read."""
        if isinstance(record, bytes):
            return self.index.keys.find(record) is not None
        return isinstance(record, int) and -len(self) <= record < len(self)

    def fetch(self, records: Iterable[int | bytes]) -> list[Record]:
        """Return many records, read together, in the order asked; the same one may be asked for more than once.

        All share one buffer, which lives as long as any of them.

        Raises
        ------
        KeyError
            If no record has one of the keys, which the message names, and the database; nothing is read then.
        IndexError
            If a number is out of range; nothing is read then.
        ReadError
            If one cannot be read; it is named.
        StaleIndexError
            If this is another process than the one that opened the data set, and the file has changed meanwhile.
        ValueError
            If the data set is closed.
        """
        numbers = np.fromiter((self._number(record) for record in records), np.int64)
        offsets, lengths = self.index.extents(numbers)

        def key_of(place: int) -> bytes:
            return self.index.keys[int(numbers[place])]

        with self._open() as opened:
            check_extents(offsets, lengths, space=opened.file.space, key_of=key_of)
            plan = plan_reads(
                offsets,
                lengths,
                gap=self._options.gap,
                read_size=self._options.read_size,
                align=opened.file.align,
            )
            try:
                buffer = opened.read(plan)
            except ReadError as exc:
                raise find_unreadable(opened.file, exc, offsets.astype(np.int64), lengths, key_of) from exc
        return self._records(numbers, plan, buffer)

    def close(self) -> None:
        """Close the file; records that were fetched stay good. A second call does nothing.

        Fetches that other threads have begun come to their end first: the last of them closes the file then.
        """
        opened, self._opened = self._opened, None
        if opened is not None and opened.pid == os.getpid():
            opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Dataset({self._name!r}, n_records={len(self)})"

    def __getstate__(self) -> dict[str, Any]:
        # A sidecar is read again where it is unpickled; what was made in memory travels along.
        return {
            "data": self._found.data,
            "indexes": self._found.indexes,
            "options": self._options,
            "index": None if self._has_sidecar else self.index,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._found = DatabaseFiles(state["data"], state["data"], state["indexes"])
        self._options = state["options"]
        self._has_sidecar = state["index"] is None
        self.index = open_indexes(self._found)[0] if self._has_sidecar else state["index"]
        self._opened = _Opened(self._found, self.index, self._options)

    def _number(self, record: int | bytes) -> int:
        if isinstance(record, bytes):
            found = self.index.keys.find(record)
            if found is None:
                raise KeyError(self._no_such_key(record))
            return found
        try:
            number = operator.index(record)
        except TypeError:
            raise TypeError(
                f"record: expected a number or a key in bytes, found {record!r:.80} of type {type(record).__name__}"
            ) from None
        n = len(self)
        if not -n <= number < n:
            raise IndexError(f"record: expected a number of at least {-n} and below {n}, found {number}")
        return number % n

    @property
    def _name(self) -> str:
        first, *more = self._found.data
        return f"{first} and {len(more)} more" if more else first

    def _no_such_key(self, key: bytes) -> str:
        keys = self.index.keys
        example = f" such as {keys[0]!r}" if len(keys) else ""
        return f"{self._name}: expected a record's key in bytes{example}, or its number as an int, found no key {key!r}"

    def _open(self) -> "_Opened":
        """Return what this very process has open."""
        opened = self._opened
        if opened is None:
            raise ValueError(f"{self._name}: expected an open data set, found it closed")
        if opened.pid != os.getpid():
            # After a fork: the threads are not here, locks may be held for ever, the descriptor is the parent's.
            opened = self._opened = _Opened(self._found, self.index, self._options)
        return opened

    def _records(self, numbers: NDArray[np.int64], plan: ReadPlan, buffer: memoryview) -> list[Record]:
        index = self.index
        values = Views(buffer, plan.record_places, plan.record_lengths)
        data = values
        if index.has_payloads:
            starts, lengths = index.payloads(numbers)
            data = Views(buffer, plan.record_places + starts, lengths)
        labels = [-1] * len(numbers) if index.labels is None else index.labels[numbers].tolist()
        keys = (index.keys[number] for number in numbers.tolist())
        return [Record(*parts) for parts in zip(keys, values, data, labels, strict=True)]


class _Opened:
    """What one process needs to read: the file, buffers, and threads once they are needed.

    A context manager of one fetch, of which there may be many at once: closing waits for the last to leave.
    """

    def __init__(self, found: DatabaseFiles, index: RecordIndex, options: ReadOptions) -> None:
        self.pid = os.getpid()
        self.file = open_files(found, direct=options.direct, in_order=False, retries=options.retries)
        check_states(index, self.file, SingleProcess())
        self._pool = BufferPool(keep=_KEEP)
        self._index = index
        self._options = options
        self._lock = Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._n_fetches = 0
        self._is_closing = False

    def __enter__(self) -> Self:
        with self._lock:
            if self._is_closing:
                raise ValueError(f"{self.file.space.paths[0]}: expected an open data set, found it closed")
            self._n_fetches += 1
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._n_fetches -= 1
            is_last = self._is_closing and not self._n_fetches
        if is_last:
            self._dispose()

    def read(self, plan: ReadPlan) -> memoryview:
        """Return the plan's bytes, read-only."""
        buffer = self._pool.take(plan.size)
        view = buffer.data
        reads = reads_of(plan)
        # What is in memory is read here, the rest by threads, unless it is one piece of work anyway.
        first = read_cached(self.file, reads, 0, view)
        tasks = []
        while first < len(reads):
            end = end_of_task(reads, first)
            tasks.append(reads[first:end])
            first = end
        if len(tasks) == 1:
            read_all(self.file, tasks[0], view, on_miss=lambda: None)
        elif tasks:
            executor = self._threads()
            futures = [executor.submit(read_all, self.file, task, view, on_miss=lambda: None) for task in tasks]
            errors = [future.exception() for future in futures]  # waits for all: the buffer may go back after that
            for error in errors:
                if error is not None:
                    raise error
        return view.toreadonly()

    def close(self) -> None:
        """End the threads and close the file, at once or after the last fetch; a second call does nothing."""
        with self._lock:
            is_first, self._is_closing = not self._is_closing, True
            is_idle = not self._n_fetches
        if is_first and is_idle:
            self._dispose()

    def _dispose(self) -> None:
        if self._executor is not None:
            self._executor.shutdown()
        self._pool.clear()
        self.file.close()

    def _threads(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._executor is None:
                depth = self._options.depth_of(mean_length(self._index))
                self._executor = ThreadPoolExecutor(depth, thread_name_prefix="lmdbio-read")
            return self._executor
