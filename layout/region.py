"""The bytes of one region: overflow extents, then leaves, put into a sink value by value."""

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

import numpy as np
import xxhash
from numpy.typing import NDArray

from lmdbio.errors import SourceError
from lmdbio.layout.leaves import Nodes, leaf_heads, pack_leaves
from lmdbio.layout.page import (
    F_BIGDATA,
    HEADER_SIZE,
    MAX_PAGE_SIZE,
    OVERFLOW_HEADER,
    P_OVERFLOW,
    PAGE_NUMBER_SIZE,
    overflow_pages,
)
from lmdbio.layout.partition import running_sum
from lmdbio.layout.plan import DatabasePlan
from lmdbio.layout.sink import Sink

Buffer: TypeAlias = bytes | bytearray | memoryview | NDArray[Any]
Value: TypeAlias = Iterable[Buffer]
"""Parts of one value, laid end to end. Those of a list or tuple may not change before the region is written; those of
any other iterable are written one by one, so a part may change once the next is asked for."""

_EXTENTS_AT_A_TIME: Final = 1 << 14
_LEAF_BYTES_AT_A_TIME: Final = 1 << 20
_ZEROS: Final = memoryview(bytes(MAX_PAGE_SIZE))


class RegionWriter:
    """Writes regions of one database; what it learns of the records it leaves in the arrays that it is given.

    Safe to share between threads that write different regions.

    Parameters
    ----------
    plan
        The plan.
    path
        The file's name, for messages.
    written
        Whether each record was written, in plan order, bool, shape (n_records,).
    checksums
        Where the xxh3-64 of each value goes, in plan order, uint64, shape (n_records,); None: none are taken.
    """

    def __init__(
        self, plan: DatabasePlan, path: str, written: NDArray[np.bool_], checksums: NDArray[np.uint64] | None
    ) -> None:
        self._plan = plan
        self._path = path
        self._written = written
        self._checksums = checksums

    def write(self, region: int, values: Iterable[Value | None], sink: Sink) -> None:
        """Put a region into a sink that begins at its first page.

        Raises
        ------
        SourceError
            If the parts of a value are not as many bytes as planned.
        ValueError
            If there are more or fewer values than the region wants.
        """
        stream = _Stream(values, region)
        self._write_extents(region, stream, sink)
        first, last = self._plan.region_leaves_bounds[region : region + 2].tolist()
        step = max(1, _LEAF_BYTES_AT_A_TIME // self._plan.page_size)
        for leaf in range(first, last, step):
            self._write_leaves(leaf, min(leaf + step, last), stream, sink)
        stream.expect_end()

    def _write_extents(self, region: int, stream: "_Stream", sink: Sink) -> None:
        plan = self._plan
        all_records = plan.extent_records(region)
        for begin in range(0, len(all_records), _EXTENTS_AT_A_TIME):
            records = all_records[begin : begin + _EXTENTS_AT_A_TIME]
            pages = overflow_pages(plan.lengths[records], plan.page_size)
            headers = _headers(plan.value_pages[records], pages)
            tails = pages * plan.page_size - HEADER_SIZE - plan.lengths[records]
            rows = zip(records.tolist(), plan.lengths[records].tolist(), tails.tolist(), strict=True)
            for number, (record, length, tail) in enumerate(rows):
                value = stream.take()
                if value is None:
                    self._written[record] = False
                    sink.skip(HEADER_SIZE + length + tail)
                    continue
                sink.write(headers[number * HEADER_SIZE : (number + 1) * HEADER_SIZE])
                self._write_value(record, length, value, sink)
                sink.write(_ZEROS[:tail])

    def _write_value(self, record: int, length: int, value: Value, sink: Sink) -> None:
        if isinstance(value, (list, tuple)):
            for part in self._checked(record, length, value):
                sink.write(part)
            return
        hasher = xxhash.xxh3_64()
        found = 0
        for each in value:
            part = as_bytes(each)
            found += len(part)
            if found > length:
                break
            if self._checksums is not None:
                hasher.update(part)
            sink.write(part)
            sink.settle()
        self._check_length(record, length, found)
        if self._checksums is not None:
            self._checksums[record] = hasher.intdigest()

    def _checked(self, record: int, length: int, value: Iterable[Buffer]) -> list[memoryview]:
        """Return the parts of a value at hand, their length checked, their checksum taken."""
        parts = [as_bytes(part) for part in value]
        self._check_length(record, length, sum(map(len, parts)))
        if self._checksums is not None:
            if len(parts) == 1:
                self._checksums[record] = xxhash.xxh3_64_intdigest(parts[0])
            else:
                hasher = xxhash.xxh3_64()
                for part in parts:
                    hasher.update(part)
                self._checksums[record] = hasher.intdigest()
        return parts

    def _check_length(self, record: int, length: int, found: int) -> None:
        if found != length:
            more = "more" if found > length else str(found)
            raise SourceError(
                f"{self._path}: key {self._plan.keys[record]!r}: expected a value of {length} bytes, found {more}: "
                "its source changed while it was read"
            )

    def _write_leaves(self, first: int, last: int, stream: "_Stream", sink: Sink) -> None:
        plan = self._plan
        records = plan.leaf_records(first, last)
        inline = records[plan.inline[records]]
        held: list[list[memoryview]] = []
        for record, length in zip(inline.tolist(), plan.lengths[inline].tolist(), strict=True):
            value = stream.take()
            self._written[record] = value is not None
            if value is not None:
                steady = value if isinstance(value, (list, tuple)) else [b"".join(map(bytes, value))]
                held.append(self._checked(record, length, steady))
        keep = self._written[records]
        if plan.key_order is not None:
            # The regions of extents may be written later; what they skip is taken out of the leaves at the end.
            keep |= ~plan.inline[records]
        pages, places = pack_leaf_batch(plan, first, last, keep)
        target = pages.reshape(-1).data
        goals = places[plan.inline[records[keep]]].tolist()
        for place, parts in zip(goals, held, strict=True):
            for part in parts:
                target[place : place + len(part)] = part
                place += len(part)
        sink.write(target)


class _Stream:
    """The values of a region, one by one, as many as it wants."""

    def __init__(self, values: Iterable[Value | None], region: int) -> None:
        self._values: Iterator[Value | None] = iter(values)
        self._region = region
        self._n_taken = 0

    def take(self) -> Value | None:
        """Return the next value."""
        try:
            value = next(self._values)
        except StopIteration:
            raise ValueError(
                f"region {self._region}: expected a value for each of its records, found {self._n_taken} in all"
            ) from None
        self._n_taken += 1
        return value

    def expect_end(self) -> None:
        """Raise ValueError if there is one more."""
        for _ in self._values:
            raise ValueError(f"region {self._region}: expected {self._n_taken} values, found more")


def pack_leaf_batch(
    plan: DatabasePlan, first: int, last: int, keep: NDArray[np.bool_]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the leaves [first, last) with keys and the page numbers of extents, inline values left out.

    Parameters
    ----------
    plan
        The plan.
    first, last
        The leaves.
    keep
        Which of their records to keep, in key order, shape (n_records of these leaves,).

    Returns
    -------
    pages
        uint8, shape (last - first, page_size); zeros where a leaf keeps no record.
    places
        Where the data of each kept record begins, counted from the first page's start, int64, shape (n_kept,).
    """
    records = plan.leaf_records(first, last)[keep]
    bounds = running_sum(keep.astype(np.int64))[plan.leaf_bounds[first : last + 1] - plan.leaf_bounds[first]]
    key_starts = plan.keys.offsets[records]
    key_sizes = plan.keys.offsets[records + 1] - key_starts
    lengths, inline = plan.lengths[records], plan.inline[records]
    heads = leaf_heads(lengths, np.where(inline, 0, F_BIGDATA), key_sizes)
    nodes = Nodes(heads, key_starts, key_sizes, np.where(inline, lengths, PAGE_NUMBER_SIZE))
    numbers = plan.leaf_pages[first:last]
    pages, places = pack_leaves(nodes, plan.keys.blob, bounds, numbers, page_size=plan.page_size)
    big = ~inline
    # The page number stands at any byte, so it goes there byte by byte.
    extents = plan.value_pages[records[big]].astype("<u8").view(np.uint8).reshape(-1, PAGE_NUMBER_SIZE)
    pages.reshape(-1)[places[big][:, None] + np.arange(PAGE_NUMBER_SIZE)] = extents
    return pages, places


def as_bytes(part: Buffer) -> memoryview:
    """Return any contiguous buffer as a memoryview of its bytes."""
    view = part.data if isinstance(part, np.ndarray) else memoryview(part)
    if view.nbytes == 0:
        return memoryview(b"")
    return view if view.format == "B" and view.ndim == 1 and view.contiguous else view.cast("B")


def _headers(first_pages: NDArray[np.int64], n_pages: NDArray[np.int64]) -> memoryview:
    """Return the headers of extents end to end."""
    headers = np.zeros(len(first_pages), OVERFLOW_HEADER)
    headers["pgno"] = first_pages
    headers["flags"] = P_OVERFLOW
    headers["pages"] = n_pages
    return headers.view(np.uint8).data
