"""The bulk writer: a whole LMDB database written page by page after a plan, without LMDB."""

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import xxhash
from numpy.typing import NDArray

from lmdbio.errors import TargetError
from lmdbio.layout.free_list import FREE_TXNID
from lmdbio.layout.keys import Keys, key_offsets, take_keys
from lmdbio.layout.meta import Meta, pack_metas
from lmdbio.layout.page import N_METAS, overflow_pages
from lmdbio.layout.pieces import pieces
from lmdbio.layout.plan import DatabasePlan, plan_database
from lmdbio.layout.region_writer import RegionWriter, Value
from lmdbio.layout.sink import DirectSink, GatherSink, Sink, WriteBuffers
from lmdbio.layout.target import BLOCK_SIZE, TargetFile
from lmdbio.layout.tree_pages import Trees, build_trees, drop_skipped
from lmdbio.layout.window import Window, cut_windows, large_extents
from lmdbio.layout.window_writer import Fill, WindowWriter
from lmdbio.layout.written import WrittenDatabase

__all__ = ["BrokenValue", "DatabaseWriter", "Fill", "Value", "Window", "write_database"]

_BUFFER_SIZE: Final = 8 << 20
_N_BUFFERS: Final = 4
_N_WRITING: Final = 2
_SMALL_VALUE: Final = 1 << 14
_SMALLEST_DIRECT: Final = 1 << 20
"""Bytes of a region below which one buffered call is faster than a direct one, unless direct ones are asked for."""
_BLANK_SIZE: Final = 1 << 20


class BrokenValue(Exception):  # noqa: N818  # no error of its own: whoever raises it has decided to go on
    """Raised by the parts of a value that has no more of them, though some were given: its record is to be skipped."""


class DatabaseWriter:
    """Writes a new database after a plan; until :meth:`finish` returns, the file is no database.

    Bytes that hold nothing are zeros, and the same plan and values give the same file. Values stream through: memory
    stays within some 64 MiB beside the plan, 9 bytes per record, and the values that the caller holds.

    Parameters
    ----------
    path
        The data file, made here.
    plan
        The plan.
    checksum
        Whether to take the xxh3-64 of each value.
    direct
        Whether to write past the page cache (O_DIRECT); None: unless the file system lives in memory. Where the system
        or the alignment does not allow it, buffered.

    Raises
    ------
    TargetError
        If the file exists, its directory does not, or it cannot be made.

    Examples
    --------
    >>> import tempfile
    >>> plan = plan_database(Keys.from_list([b"a", b"b"]), np.array([5, 3]))
    >>> with tempfile.TemporaryDirectory() as directory, DatabaseWriter(directory + "/data.mdb", plan) as writer:
    ...     writer.write_region(0, [[b"apple"], [b"b", b"ig"]])
    ...     writer.finish().meta.main.entries
    2
    """

    def __init__(
        self, path: str | os.PathLike[str], plan: DatabasePlan, *, checksum: bool = True, direct: bool | None = None
    ) -> None:
        self.plan = plan
        self._written = np.ones(plan.n_records, np.bool_)
        self._checksums = np.zeros(plan.n_records, np.uint64) if checksum else None
        self._regions_done = np.zeros(plan.n_regions, np.bool_)
        self._filled: set[int] = set()  # first pages of windows, until their region is done
        self._finished = False
        self._smallest_direct = 0 if direct else _SMALLEST_DIRECT
        wanted = False if plan.align % BLOCK_SIZE else direct
        self._file = TargetFile(path, direct=wanted)
        self._region_writer = RegionWriter(plan, self._file.path, self._written, self._checksums)
        self._window_writer = WindowWriter(plan, self._file, self._written, self._checksums)
        self._pool = WriteBuffers(_N_BUFFERS, _BUFFER_SIZE)
        self._executor = ThreadPoolExecutor(_N_WRITING, "lmdbio-write")
        try:
            # LMDB takes an empty file for a new database, but refuses one whose meta pages are zeros.
            self._file.resize(max(plan.end_page, N_METAS) * plan.page_size)
        except TargetError:
            self.close()
            raise

    def write_region(self, region: int, values: Iterable[Value | None]) -> None:
        """Write one region, in any order, from any thread; different regions at the same time.

        Parameters
        ----------
        region
            0 to ``plan.n_regions - 1``. Every region is to be written, even one that wants no values.
        values
            The values of ``plan.region_records(region)`` in that order, each as its parts; None skips the record: its
            pages become free pages.

        Raises
        ------
        SourceError
            If a value is not as long as planned.
        TargetError
            If the file cannot be written.
        ValueError
            If there are more or fewer values than the region wants.
        """
        with self._sink(int(self.plan.region_pages[region]), self.plan.region_bytes(region), is_whole=True) as sink:
            self._region_writer.write(region, values, sink)
        self._regions_done[region] = True

    def windows(self, region: int) -> list[Window]:
        """Return the windows of a region: instead of :meth:`write_region`, each may be filled in place.

        All are to be filled, in any order, from any threads, at the same time; then comes :meth:`write_rest`.
        """
        return cut_windows(self.plan, region)

    def fill_window(self, window: Window, fill: Fill) -> None:
        """Have a window filled, and write it; waits while many others are being filled or written.

        Raises
        ------
        TargetError
            If the file cannot be written.
        BaseException
            Whatever ``fill`` raises.
        """
        self._window_writer.write(window, fill, direct=self._pays_direct(self.plan.region_bytes(window.region)))
        self._filled.add(window.first_page)

    def rest_records(self, region: int) -> NDArray[np.int64]:
        """Return the plan-order numbers of a region's records that are in no window: first large ones, then inline."""
        return np.concatenate([large_extents(self.plan, region), self.plan.inline_records(region)])

    def write_rest(self, region: int, values: Iterable[Value | None]) -> None:
        """Write what :meth:`windows` leaves out of a region, once they are filled.

        Parameters
        ----------
        region
            As for :meth:`write_region`.
        values
            The values of :meth:`rest_records`, in that order, as for :meth:`write_region`, with the same errors. The
            parts of a large one may end in :class:`BrokenValue`, which skips the record as None does.

        Raises
        ------
        ValueError
            If a window was not filled, too.
        """
        plan, stream = self.plan, iter(values)
        windows = {window.first_page for window in self.windows(region)}
        if not windows <= self._filled:
            raise ValueError(
                f"region {region}: expected all windows filled, found {len(windows - self._filled)} missing"
            )
        for record in large_extents(plan, region).tolist():
            self._write_large(region, record, stream)
        first, last = plan.region_leaves_bounds[region : region + 2].tolist()
        if first < last:
            with self._sink(int(plan.leaf_pages[first]), (last - first) * plan.page_size) as sink:
                self._region_writer.write_leaves(region, stream, sink)
        self._region_writer.expect_end(region, stream)
        self._regions_done[region] = True
        self._filled -= windows

    def finish(self, *, progress: Callable[[str], None] | None = None) -> WrittenDatabase:
        """Write what follows from all regions, sync, commit by writing the meta pages, and sync again.

        Parameters
        ----------
        progress
            Told the name of each step as it begins: "trees", "sync", "commit".

        Raises
        ------
        TargetError
            If the file cannot be written; it is no database then.
        ValueError
            If a region was not written, or the database is finished already.
        """
        missing = np.flatnonzero(~self._regions_done)
        if len(missing) or self._finished:
            found = f"region {int(missing[0])} missing" if len(missing) else "it finished"
            raise ValueError(f"{self._file.path}: expected all regions written and the end to come, found {found}")
        step = progress or _ignore
        step("trees")
        plan = self.plan
        drop_skipped(plan, self._written, self._file)
        trees = build_trees(plan, self._written)
        n_pages = plan.end_page + len(trees.pages)
        self._file.write(plan.end_page * plan.page_size, [trees.pages.reshape(-1).data])
        self._file.resize(n_pages * plan.page_size)
        step("sync")
        self._file.sync()
        step("commit")
        digest = self._digest()
        self._commit(trees, n_pages, digest)
        self._finished = True
        meta = self._meta(trees, n_pages, digest)
        return WrittenDatabase.of(plan, self._written, self._checksums, meta)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._executor.shutdown()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write_large(self, region: int, record: int, stream: Iterator[Value | None]) -> None:
        """Write one extent; if its value breaks off, blank it again."""
        page = int(self.plan.value_pages[record])
        size = int(overflow_pages(self.plan.lengths[record], self.plan.page_size)) * self.plan.page_size
        try:
            with self._sink(page, size) as sink:
                self._region_writer.write_extents(region, np.array([record]), stream, sink)
        except BrokenValue:
            self._written[record] = False
            self._blank(page * self.plan.page_size, size)

    def _blank(self, offset: int, size: int) -> None:
        zeros = memoryview(bytes(min(size, _BLANK_SIZE)))
        for begin in range(0, size, _BLANK_SIZE):
            self._file.write(offset + begin, [zeros[: size - begin]])

    @contextmanager
    def _sink(self, page: int, size: int, *, is_whole: bool = False) -> Generator[Sink]:
        """Give a sink for ``size`` bytes from a page on, or a whole region's; they are written when the block ends."""
        offset = page * self.plan.page_size
        sink: Sink = GatherSink(self._file, offset)
        if self._pays_direct(size) and (is_whole or self.plan.page_size % BLOCK_SIZE == 0):
            sink = DirectSink(self._file, offset, pool=self._pool, executor=self._executor)
        try:
            yield sink
            sink.finish()
        except BaseException:
            sink.abandon()
            raise

    def _pays_direct(self, size: int) -> bool:
        return self._file.is_direct and size >= self._smallest_direct

    def _commit(self, trees: Trees, n_pages: int, digest: bytes) -> None:
        size = n_pages * self.plan.page_size
        metas = pack_metas(
            page_size=self.plan.page_size,
            last_page=n_pages - 1,
            mapsize=size,
            main=trees.main,
            free=trees.free,
            txnid=_txnid(trees),
            digest=digest,
        )
        try:
            self._file.write(0, [memoryview(metas)])
            self._file.sync()
        except TargetError:
            with suppress(TargetError):  # what could not be synced shall not look whole
                self._file.write(0, [memoryview(bytes(len(metas)))])
            raise

    def _digest(self) -> bytes:
        """Return what tells this database from another of the same shape: 16 bytes."""
        plan = self.plan
        hasher = xxhash.xxh3_128()
        shape = [plan.n_records, plan.page_size, plan.align, plan.partition_size, plan.n_regions]
        hasher.update(np.array(shape, "<i8").data)
        checksums = np.zeros(0, np.uint64) if self._checksums is None else self._checksums
        numbers: NDArray[Any]
        for numbers in (plan.region_pages, plan.lengths, *key_offsets(plan.keys), checksums):
            hasher.update(np.ascontiguousarray(numbers).astype(numbers.dtype.newbyteorder("<"), copy=False).data)
        for piece in pieces(plan.n_records):
            hasher.update(take_keys(plan.keys, np.arange(piece.start, piece.stop)).blob.data)
        hasher.update(np.packbits(self._written).data)
        return hasher.digest()

    def _meta(self, trees: Trees, n_pages: int, digest: bytes) -> Meta:
        return Meta(
            page_size=self.plan.page_size,
            txnid=_txnid(trees),
            slot=_txnid(trees) & 1,
            last_page=n_pages - 1,
            mapsize=n_pages * self.plan.page_size,
            free=trees.free,
            main=trees.main,
            digest=digest,
        )


def _txnid(trees: Trees) -> int:
    """Return the transaction that a new database claims to come from.

    The next transaction may use pages that were freed before the last one, so with free pages it is one later than
    theirs. Without any it is the first: a later transaction that adds the first and long record to an empty free
    database has LMDB 0.9 (``mdb_page_alloc``) search the leaf in the making, and take what memory holds for a node.
    """
    return FREE_TXNID + 1 if trees.free.entries else 1


def _ignore(step: str) -> None:
    """Report nothing."""


def write_database(
    path: str | os.PathLike[str],
    records: Iterable[tuple[bytes, bytes]],
    *,
    page_size: int = 4096,
    align: int | None = None,
    partition_size: int | None = None,
    n_partitions: int | None = None,
    checksum: bool = True,
    direct: bool | None = None,
) -> WrittenDatabase:
    """Write a database of records that are in memory, in the order in which they shall lie in the file.

    Parameters
    ----------
    path
        The data file, made here; removed again if it cannot be finished.
    records
        Keys and values.
    page_size, align, partition_size, n_partitions
        See :func:`~lmdbio.layout.plan.plan_database`.
    checksum, direct
        See :class:`DatabaseWriter`.

    Raises
    ------
    ValueError
        If the records do not fit the format, or an argument is out of range.
    TargetError
        If the file exists or cannot be written.
    """
    held = list(records)
    values = [value for _, value in held]
    plan = plan_database(
        Keys.from_list(key for key, _ in held),
        np.fromiter(map(len, values), np.int64, len(values)),
        page_size=page_size,
        align=align,
        partition_size=partition_size,
        n_partitions=n_partitions,
    )
    with DatabaseWriter(path, plan, checksum=checksum, direct=direct) as writer:

        def write(region: int) -> None:
            writer.write_region(region, ([values[record]] for record in plan.region_records(region).tolist()))

        try:
            # Of large values one thread takes checksums while the other one's system call runs; small ones keep the
            # interpreter busy, which two threads would only quarrel for.
            small = sum(map(len, values)) < _SMALL_VALUE * len(values)
            with ThreadPoolExecutor(1 if small else _N_WRITING) as pool:
                for _ in pool.map(write, range(plan.n_regions)):
                    pass
            return writer.finish()
        except BaseException:
            os.unlink(path)
            raise
