"""Checksums of values already in a data file, by large reads in layout order, several in flight, in bounded memory."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Final

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64, xxh3_64_intdigest

from lmdbio.layout.file import DataFile

READ_SIZE: Final = 8 << 20
"""Bytes of one read, about; a value larger than this is read in pieces of it."""
_MAX_GAP: Final = 1 << 18  # bytes read in vain between two values of one read
_N_THREADS: Final = 4


def plan_groups(
    offsets: NDArray[np.uint64] | NDArray[np.int64],
    lengths: NDArray[np.int64],
    *,
    read_size: int,
    gap: int,
) -> NDArray[np.int64]:
    """Return the bounds of groups of values that are read together, int64, shape (n_groups + 1,). Pure.

    Values of a group begin in one stretch of ``read_size`` bytes and are no larger than that, so the bytes of a group
    span less than twice as much; a larger value is a group of its own.

    Parameters
    ----------
    offsets, lengths
        First byte and bytes of each value in the order of reading, shape (n_values,).
    read_size
        Bytes of one read, about.
    gap
        Bytes read in vain between two values of a group, at most.
    """
    if len(offsets) == 0:
        return np.zeros(1, np.int64)
    starts = offsets.astype(np.int64)
    stretches = starts // read_size
    large = lengths > read_size
    reached = np.maximum.accumulate(starts + lengths)
    cuts = (np.diff(stretches) != 0) | large[1:] | large[:-1] | (starts[1:] - reached[:-1] > gap)
    return np.concatenate([np.zeros(1, np.int64), np.flatnonzero(cuts) + 1, np.full(1, len(offsets))])


def take_checksums(
    file: DataFile, offsets: NDArray[np.uint64], lengths: NDArray[np.int64]
) -> Iterator[NDArray[np.uint64]]:
    """Yield the XXH3-64 of the values, uint64, some at a time and in their order, having read all of their bytes.

    Parameters
    ----------
    file
        The data file.
    offsets, lengths
        First byte and bytes of each value, shape (n_values,); near ones should stand together.

    Raises
    ------
    ReadError
        If bytes cannot be read.
    """
    bounds = plan_groups(offsets, lengths, read_size=READ_SIZE, gap=_MAX_GAP).tolist()
    buffers: SimpleQueue[NDArray[np.uint8]] = SimpleQueue()
    for _ in range(_N_THREADS):
        buffers.put(np.empty(2 * READ_SIZE, np.uint8))

    def group(start: int, stop: int) -> NDArray[np.uint64]:
        buffer = buffers.get()
        try:
            return _group_checksums(file, buffer, offsets[start:stop].astype(np.int64), lengths[start:stop])
        finally:
            buffers.put(buffer)

    with ThreadPoolExecutor(_N_THREADS) as pool:
        try:
            yield from pool.map(group, bounds[:-1], bounds[1:])
        finally:
            pool.shutdown(cancel_futures=True)


def _group_checksums(
    file: DataFile, buffer: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.uint64]:
    begin = int(starts.min())
    span = int((starts + lengths).max()) - begin
    if span > len(buffer):
        return np.array([_large_checksum(file, buffer, begin, span)], np.uint64)
    view = buffer.data[:span]
    file.read_into(begin, view)
    places = zip((starts - begin).tolist(), lengths.tolist(), strict=True)
    return np.array([xxh3_64_intdigest(view[place : place + length]) for place, length in places], np.uint64)


def _large_checksum(file: DataFile, buffer: NDArray[np.uint8], offset: int, length: int) -> int:
    digest = xxh3_64()
    for done in range(0, length, len(buffer)):
        view = buffer.data[: min(len(buffer), length - done)]
        file.read_into(offset + done, view)
        digest.update(view)
    return digest.intdigest()
