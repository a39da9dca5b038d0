"""The bytes of one region: overflow extents, then leaves, put into a sink value by value."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

import numpy as np
import xxhash
from numpy.typing import NDArray

from lmdbio.errors import SourceError
from lmdbio.layout.keys import take_keys
from lmdbio.layout.leaves import Nodes, leaf_heads, pack_leaves
from lmdbio.layout.page import (
    F_BIGDATA,
    HEADER_SIZE,
    MAX_PAGE_SIZE,
    PAGE_NUMBER_SIZE,
    overflow_headers,
    overflow_pages,
)
from lmdbio.layout.partition import running_sum
from lmdbio.layout.plan import DatabasePlan
from lmdbio.layout.sink import Sink
from lmdbio.layout.target import Part

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
        stream = iter(values)
        self.write_extents(region, self._plan.extent_records(region), stream, sink)
        self.write_leaves(region, stream, sink)
        self.expect_end(region, stream)

    def write_leaves(self, region: int, stream: Iterator[Value | None], sink: Sink) -> None:
        """Put the leaves of a region into a sink; see :meth:`write`."""
        first, last = self._plan.region_leaves_bounds[region : region + 2].tolist()
        step = max(1, _LEAF_BYTES_AT_A_TIME // self._plan.page_size)
        for leaf in range(first, last, step):
            self._write_leaves(region, leaf, min(leaf + step, last), stream, sink)

    def expect_end(self, region: int, stream: Iterator[Value | None]) -> None:
        """Raise ValueError if there are more values than the region wants."""
        for _ in stream:
            raise ValueError(f"region {region}: expected as many values as it wants, found more")

    def write_extents(
        self, region: int, all_records: NDArray[np.int64], stream: Iterator[Value | None], sink: Sink
    ) -> None:
        """Put the extents of some records that lie one after the other into a sink; see :meth:`write`."""
        plan = self._plan
        for begin in range(0, len(all_records), _EXTENTS_AT_A_TIME):
            records = all_records[begin : begin + _EXTENTS_AT_A_TIME]
            lengths = plan.lengths[records]
            pages = overflow_pages(lengths, plan.page_size)
            tails = pages * plan.page_size - HEADER_SIZE - lengths
            headers = _headers(plan.value_pages[records], pages)
            rows = zip(records.tolist(), lengths.tolist(), tails.tolist(), headers, strict=True)
            n_values = 0
            for (record, length, tail, header), value in zip(rows, stream):  # noqa: B905  # the stream goes on
                n_values += 1
                if value is None:
                    self._written[record] = False
                    sink.skip(HEADER_SIZE + length + tail)
                elif isinstance(value, (list, tuple)):
                    parts = self._checked(record, length, value)
                    sink.write([header, *parts, _ZEROS[:tail]], HEADER_SIZE + length + tail)
                else:
                    sink.write([header], HEADER_SIZE)
                    self._write_lazy(record, length, value, sink)
                    sink.write([_ZEROS[:tail]], tail)
            _expect_values(region, len(records), n_values)

    def _checked(self, record: int, length: int, value: Sequence[Buffer]) -> list[Part]:
        """Return the parts of a value at hand, their length checked, their checksum taken."""
        parts = [as_bytes(part) for part in value]
        found = sum(map(len, parts))
        if found != length:
            raise self._length_error(record, length, found)
        if self._checksums is not None:
            self._checksums[record] = _checksum(parts)
        return parts

    def _write_lazy(self, record: int, length: int, value: Value, sink: Sink) -> None:
        """Write the parts of a value one by one."""
        hasher = xxhash.xxh3_64()
        found = 0
        for each in value:
            part = as_bytes(each)
            found += len(part)
            if found > length:
                break
            if self._checksums is not None:
                hasher.update(part)
            sink.write([part], len(part))
            sink.settle()
        if found != length:
            raise self._length_error(record, length, found)
        if self._checksums is not None:
            self._checksums[record] = hasher.intdigest()

    def _length_error(self, record: int, length: int, found: int) -> SourceError:
        more = "more" if found > length else str(found)
        return SourceError(
            f"{self._path}: key {self._plan.keys[record]!r}: expected a value of {length} bytes, found {more}: "
            "its source changed while it was read"
        )

    def _write_leaves(self, region: int, first: int, last: int, stream: Iterator[Value | None], sink: Sink) -> None:
        plan = self._plan
        records = plan.leaf_records(first, last)
        inline = records[plan.inline[records]]
        lengths = plan.lengths[inline].tolist()
        values = [_at_hand(value, length) for value, length in zip(islice(stream, len(inline)), lengths)]  # noqa: B905
        _expect_values(region, len(inline), len(values))
        found = [length if value is None else len(value) for value, length in zip(values, lengths, strict=True)]
        if found != lengths:
            bad = next(number for number, length in enumerate(lengths) if found[number] != length)
            raise self._length_error(int(inline[bad]), lengths[bad], found[bad])
        self._written[inline] = [value is not None for value in values]
        held = [value for value in values if value is not None]
        if self._checksums is not None:
            self._checksums[inline[self._written[inline]]] = [xxhash.xxh3_64_intdigest(value) for value in held]
        keep = self._written[records]
        if plan.key_order is not None:
            # The regions of extents may be written later; what they skip is taken out of the leaves at the end.
            keep |= ~plan.inline[records]
        pages, places = pack_leaf_batch(plan, first, last, keep)
        target = pages.reshape(-1).data
        for place, value in zip(places[plan.inline[records[keep]]].tolist(), held, strict=True):
            target[place : place + len(value)] = value
        sink.write([target], len(target))


def _expect_values(region: int, n_wanted: int, n_found: int) -> None:
    if n_found != n_wanted:
        raise ValueError(f"region {region}: expected as many values as it wants, found fewer")


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
    keys = take_keys(plan.keys, records)
    key_sizes = keys.sizes
    lengths, inline = plan.lengths[records], plan.inline[records]
    heads = leaf_heads(lengths, np.where(inline, 0, F_BIGDATA), key_sizes)
    nodes = Nodes(heads, keys.offsets[:-1], key_sizes, np.where(inline, lengths, PAGE_NUMBER_SIZE))
    numbers = plan.leaf_pages[first:last]
    pages, places = pack_leaves(nodes, keys.blob, bounds, numbers, page_size=plan.page_size)
    big = ~inline
    # The page number stands at any byte, so it goes there byte by byte.
    extents = plan.value_pages[records[big]].astype("<u8").view(np.uint8).reshape(-1, PAGE_NUMBER_SIZE)
    pages.reshape(-1)[places[big][:, None] + np.arange(PAGE_NUMBER_SIZE)] = extents
    return pages, places


def as_bytes(part: Buffer) -> Part:
    """Return any contiguous buffer as bytes or a memoryview of its bytes, not copied."""
    if type(part) is bytes:
        return part
    view = part.data if isinstance(part, np.ndarray) else memoryview(part)
    if view.nbytes == 0:
        return b""
    return view if view.format == "B" and view.ndim == 1 and view.contiguous else view.cast("B")


def _at_hand(value: Value | None, length: int) -> bytes | bytearray | memoryview | None:
    """Return a short value in one piece; of one that turns out longer than it should be, no more than shows that."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)) and len(value) == 1:
        return as_bytes(value[0])
    held = bytearray()
    for part in value:
        held += as_bytes(part)
        if len(held) > length:
            break
    return held


def _checksum(parts: list[Part]) -> int:
    if len(parts) == 1:
        return xxhash.xxh3_64_intdigest(parts[0])
    hasher = xxhash.xxh3_64()
    for part in parts:
        hasher.update(part)
    return hasher.intdigest()


def _headers(first_pages: NDArray[np.int64], n_pages: NDArray[np.int64]) -> list[bytes]:
    """Return the header of each extent."""
    blob = overflow_headers(first_pages, n_pages).tobytes()
    return [blob[begin : begin + HEADER_SIZE] for begin in range(0, len(blob), HEADER_SIZE)]
