"""Every record read twice, by its extent and by stock LMDB, and compared; findings are data, nothing is printed."""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

import lmdb
import numpy as np
import xxhash
from numpy.typing import NDArray

from lmdbio.comm import Comm, agreement, comm_or_single
from lmdbio.errors import CorruptDatabaseError, LmdbioError, ReadError
from lmdbio.layout.checksums import plan_groups
from lmdbio.layout.file import DataFile
from lmdbio.layout.index import Index
from lmdbio.layout.keys import Keys
from lmdbio.layout.meta import read_meta
from lmdbio.layout.path import DatabasePath, PathLike, resolve
from lmdbio.layout.tree import TreeRecords, walk

READ_SIZE = 16 << 20
"""Bytes of one step: a run of records is cut where it crosses a multiple of this, a longer value is read in pieces."""
_MAX_GAP = 64 << 10  # reading this much in vain costs less than another read
_DEPTH = 4  # runs in flight: the disk works on some while others are compared

Difference: TypeAlias = Literal["count", "extent", "key", "length", "value", "checksum", "unreadable"]
Progress: TypeAlias = Callable[[int, int], None]
"""Called with the records and the bytes of their values that have been compared so far."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that differs."""

    difference: Difference
    """What differs: the number of records, an extent of the index or a key from the tree's (or stock LMDB does not find
    the key), a value's length or bytes from stock LMDB's, its checksum from the stored one, or it cannot be read."""
    number: int | None
    """The record's number; None where the whole database is meant."""
    key: bytes | None
    """The record's key."""
    detail: str
    """What was expected and what was found."""


@dataclass(frozen=True, slots=True)
class CrossCheck:
    """What a check of a whole database came to."""

    n_records: int
    """Records that were compared."""
    n_bytes: int
    """Bytes of their values."""
    has_checksums: bool
    """Whether the index stores checksums, so that they could be compared."""
    n_findings: int
    """How many things differ."""
    findings: tuple[Finding, ...]
    """The first of them, in the order of the records' numbers."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Records that one read covers, or one long value."""

    start: int
    stop: int
    records: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Job:
    """What a thread needs to check a run."""

    file: DataFile
    index: Index
    offsets: NDArray[np.int64]
    lengths: NDArray[np.int64]
    checksums: NDArray[np.uint64] | None
    stock: lmdb.Environment | None


def cross_check(
    database: PathLike,
    index: PathLike | None = None,
    *,
    stock: bool = True,
    comm: Comm | None = None,
    planned: Callable[[int], None] | None = None,
    progress: Progress | None = None,
    max_findings: int = 100,
) -> CrossCheck:
    """Collective. Compare every record, read by its extent, with its stored checksum and with stock LMDB's value.

    The tree is walked first, by positioned reads, every page and extent checked against the size of the file: only then
    may stock LMDB map the file, since a page that it misses there, or a bad one, would kill the process. Records
    are read in file order, in runs of up to `READ_SIZE` bytes, so stock LMDB finds their pages in memory. Each rank
    checks its share of the runs. Nobody may cut the file short meanwhile: its size is looked at again before each run
    and piece, but a cut between that look and stock LMDB's would kill the process.

    Parameters
    ----------
    database
        A database directory or data file.
    index
        The sidecar, where it does not lie beside the data file.
    stock
        Whether stock LMDB is asked too; else extents are compared with the tree and values with their checksums.
    comm
        The ranks that share the work; None is one process.
    planned
        Called once with the number of records that this rank will compare.
    progress
        Called in the caller's thread after each run of this rank.
    max_findings
        How many findings are kept; the others are counted.

    Raises
    ------
    MissingDatabaseError, MissingIndexError, StaleIndexError
        If there is nothing to compare.
    FormatError
        If the file is no database, or one that contradicts itself or is cut short (CorruptDatabaseError).
    LmdbioError
        If this process has the database open with stock LMDB, which may not open it twice.
    """
    comm = comm_or_single(comm)
    with agreement(comm):
        path = resolve(database, index)
        with DataFile(path.data) as file:
            read_meta(file)  # that it is no database at all goes before that it has no index
    held = Index.open(database, index, comm=comm)
    with agreement(comm):
        n_bytes, findings = _check_share(path, held, comm, stock=stock, planned=planned, progress=progress)
    findings.sort(key=_by_number)
    shares = comm.allgather((n_bytes, len(findings), findings[:max_findings]))
    kept = sorted((finding for share in shares for finding in share[2]), key=_by_number)[:max_findings]
    return CrossCheck(
        n_records=len(held),
        n_bytes=sum(share[0] for share in shares),
        has_checksums=held.checksums is not None,
        n_findings=sum(share[1] for share in shares),
        findings=tuple(kept),
    )


def _by_number(finding: Finding) -> int:
    return -1 if finding.number is None else finding.number


def _check_share(
    path: DatabasePath,
    index: Index,
    comm: Comm,
    *,
    stock: bool,
    planned: Callable[[int], None] | None,
    progress: Progress | None,
) -> tuple[int, list[Finding]]:
    rank, size = comm.Get_rank(), comm.Get_size()
    with DataFile(path.data) as file:
        meta = read_meta(file)
        # Raises where the file is cut short: stock LMDB must not come near it then.
        tree_findings, good = compare_with_tree(index, walk(file, meta))
        environment = _open_stock(path) if stock else None
        try:
            findings = list(tree_findings) if rank == 0 else []
            if environment is not None and rank == 0:
                findings += _compare_counts(environment, len(index))
            job = _Job(file, index, index.offsets.astype(np.int64), index.lengths, index.checksums, environment)
            runs = plan_runs(job.offsets, job.lengths, good)[rank::size]
            if planned is not None:
                planned(sum(len(run.records) for run in runs))
            n_records = n_bytes = 0
            for run, found in _in_flight(job, runs):
                n_records += len(run.records)
                n_bytes += int(job.lengths[run.records].sum())
                findings += found
                if progress is not None:
                    progress(n_records, n_bytes)
        finally:
            if environment is not None:
                environment.close()
    return n_bytes, findings


def _open_stock(path: DatabasePath) -> lmdb.Environment:
    try:
        environment = lmdb.open(
            os.fspath(path.data), subdir=False, readonly=True, create=False, lock=False, readahead=False, max_dbs=0
        )
        environment.begin().abort()  # some damage shows only here
    except lmdb.Error as exc:
        if "already open in this process" in str(exc):
            raise LmdbioError(
                f"{path.data}: expected one that stock LMDB has not open, found it open in this process already: "
                "close that environment, or check without stock LMDB"
            ) from exc
        raise CorruptDatabaseError(f"{path.data}: expected a database that stock LMDB opens, found {exc}") from exc
    return environment


def _compare_counts(environment: lmdb.Environment, n_records: int) -> list[Finding]:
    entries = environment.stat()["entries"]
    if entries == n_records:
        return []
    return [Finding("count", None, None, f"expected {n_records} records, stock LMDB counts {entries}")]


def compare_with_tree(index: Index, tree: TreeRecords) -> tuple[list[Finding], NDArray[np.int64]]:
    """Return where the index's keys and extents differ from the tree's, and the numbers of the records that do not.

    The second is int64, shape (n,), ascending. Pure.
    """
    if len(index) != len(tree.keys):
        detail = f"expected {len(tree.keys)} records as in the tree, found {len(index)} in the index"
        return [Finding("count", None, None, detail)], np.empty(0, np.int64)
    offsets, lengths = index.offsets, index.lengths
    moved = (offsets != tree.offsets) | (lengths != tree.lengths)
    findings = [
        Finding(
            "extent",
            number,
            tree.keys[number],
            f"expected {tree.lengths[number]} bytes at offset {tree.offsets[number]} as in the tree, "
            f"found {lengths[number]} at {offsets[number]} in the index",
        )
        for number in np.flatnonzero(moved).tolist()
    ]
    keys = index.keys.expand()
    renamed = _differing_keys(keys, tree.keys) & ~moved
    findings += [
        Finding("key", number, keys[number], f"expected key {tree.keys[number]!r} as in the tree")
        for number in np.flatnonzero(renamed).tolist()
    ]
    return findings, np.flatnonzero(~(moved | renamed))


def _differing_keys(keys: Keys, others: Keys) -> NDArray[np.bool_]:
    """Return which keys differ, shape (n_records,)."""
    if np.array_equal(keys.offsets, others.offsets) and np.array_equal(keys.blob, others.blob):
        return np.zeros(len(keys), np.bool_)
    return np.fromiter((key != other for key, other in zip(keys, others, strict=True)), np.bool_, len(keys))


def plan_runs(offsets: NDArray[np.int64], lengths: NDArray[np.int64], records: NDArray[np.int64]) -> list[_Run]:
    """Return the records in file order, cut into runs that one read each covers. Pure.

    A run ends before a gap of more than 64 KiB, where the next record begins beyond a multiple of `READ_SIZE`, and
    around a value that is longer than that.
    """
    order = records[np.argsort(offsets[records], kind="stable")]
    starts, lengths = offsets[order], lengths[order]
    stops = starts + lengths
    bounds = plan_groups(starts, lengths, read_size=READ_SIZE, gap=_MAX_GAP).tolist()
    return [
        _Run(int(starts[first:last].min()), int(stops[first:last].max()), order[first:last])
        for first, last in pairwise(bounds)
    ]


def _in_flight(job: _Job, runs: list[_Run]) -> Iterator[tuple[_Run, list[Finding]]]:
    """Give each run with its findings, in order, while the threads work on the next few."""
    waiting: deque[tuple[_Run, Future[list[Finding]]]] = deque()
    with ThreadPoolExecutor(_DEPTH) as pool:
        for run in runs:
            waiting.append((run, pool.submit(_check_run, job, run)))
            if len(waiting) > _DEPTH:
                done, future = waiting.popleft()
                yield done, future.result()
        for done, future in waiting:
            yield done, future.result()


def _check_run(job: _Job, run: _Run) -> list[Finding]:
    try:
        size = run.stop - run.start
        if size > 2 * READ_SIZE:  # one long value: in pieces, so that memory stays bounded
            _check_size(job.file, run.start, size)
            return _check_records(job, run, lambda offset, length: _pieces(job.file, offset, length))
        held = job.file.read_array(run.start, size).data
        _check_size(job.file, run.start, size)
    except ReadError as exc:
        number = int(run.records[0])
        return [Finding("unreadable", number, job.index.keys[number], exc.reason)]
    return _check_records(job, run, lambda offset, length: iter((held[offset - run.start :][:length],)))


def _pieces(file: DataFile, offset: int, length: int) -> Iterator[memoryview]:
    for done in range(0, length, READ_SIZE):
        piece = file.read_array(offset + done, min(READ_SIZE, length - done)).data
        _check_size(file, offset, length)
        yield piece


def _check_size(file: DataFile, offset: int, length: int) -> None:
    """Raise ReadError if the file was cut short since it was opened: stock LMDB must not touch its map then."""
    size = os.fstat(file.fileno()).st_size
    if size < file.size:
        raise ReadError(
            file.path, offset, length, f"found the file cut short from {file.size} to {size} bytes meanwhile"
        )


def _check_records(job: _Job, run: _Run, read: Callable[[int, int], Iterator[memoryview]]) -> list[Finding]:
    findings = []
    transaction = None if job.stock is None else job.stock.begin(buffers=True)
    try:
        for number in run.records.tolist():
            key = job.index.keys[number]
            pieces = read(int(job.offsets[number]), int(job.lengths[number]))
            expected = None if job.checksums is None else int(job.checksums[number])
            found = _difference(pieces, int(job.lengths[number]), expected, transaction, key)
            if found is not None:
                findings.append(Finding(found[0], number, key, found[1]))
    finally:
        if transaction is not None:
            transaction.abort()
    return findings


def _difference(
    pieces: Iterator[memoryview],
    length: int,
    checksum: int | None,
    transaction: lmdb.Transaction | None,
    key: bytes,
) -> tuple[Difference, str] | None:
    """Return what differs about one record, the gravest first, or None."""
    stock = None
    if transaction is not None:
        try:
            stock = transaction.get(key)
        except lmdb.Error as exc:
            return "key", f"expected a value from stock LMDB, found {exc}"
        if stock is None:
            return "key", "expected a value from stock LMDB, found no such key"
        if len(stock) != length:
            return "length", f"expected {length} bytes by the index, stock LMDB gives {len(stock)}"
    digest = xxhash.xxh3_64()
    position = 0
    for piece in pieces:
        # Comparing as bytes is memcmp; memoryviews would be compared item by item, 50 times slower.
        if stock is not None and bytes(piece) != bytes(stock[position : position + len(piece)]):
            return "value", f"bytes differ from stock LMDB's within {len(piece)} from byte {position} of the value"
        digest.update(piece)
        position += len(piece)
    if checksum is not None and digest.intdigest() != checksum:
        return "checksum", f"expected {checksum:016x}, found {digest.intdigest():016x}"
    return None
