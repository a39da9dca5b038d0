"""Many pages of a data file read in batches, near ones in one read, several batches in flight."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.file import DataFile

_BATCH_BYTES: Final = 1 << 20
"""Bytes of pages decoded at a time: about what fits a core's cache with what is made of them."""


def read_pages(
    file: DataFile, pages: NDArray[np.int64], *, page_size: int, depth: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint8]]]:
    """Yield page numbers, int64, shape (n_pages,), and their bytes, uint8, shape (n_pages, page_size), batch by batch.

    Parameters
    ----------
    file
        The data file; all pages lie inside it.
    pages
        Page numbers, strictly ascending, int64. Adjacent pages are read in one call, nothing else is read.
    page_size
        Bytes of a page.
    depth
        Batches in flight, each read by a thread of its own; bounds the memory to about ``depth`` MiB.

    Raises
    ------
    ReadError
        If bytes cannot be read.
    """
    batches = _batches(pages, page_size=page_size, depth=depth)
    if len(batches) <= 1:  # no thread for the root of a tree
        for batch in batches:
            yield batch, _read_batch(file, batch, page_size)
        return
    with ThreadPoolExecutor(depth) as pool:
        flying: deque[Future[NDArray[np.uint8]]] = deque()
        try:
            for number in range(len(batches) + depth):
                if number < len(batches):
                    flying.append(pool.submit(_read_batch, file, batches[number], page_size))
                if number >= depth:
                    yield batches[number - depth], flying.popleft().result()
        finally:
            for future in flying:
                future.cancel()


def _batches(pages: NDArray[np.int64], *, page_size: int, depth: int) -> list[NDArray[np.int64]]:
    # Few pages are shared out too, so that ``depth`` reads are in flight.
    size = max(1, min(_BATCH_BYTES // page_size, -(-len(pages) // depth)))
    return [pages[begin : begin + size] for begin in range(0, len(pages), size)]


def _read_batch(file: DataFile, pages: NDArray[np.int64], page_size: int) -> NDArray[np.uint8]:
    buffer = np.empty((len(pages), page_size), np.uint8)
    view = buffer.reshape(-1).data
    bounds = np.flatnonzero(np.diff(pages, prepend=-2, append=-2) != 1)  # where a run of adjacent pages begins
    rows = bounds.tolist()
    offsets = (pages[bounds[:-1]] * page_size).tolist()
    for offset, begin, end in zip(offsets, rows[:-1], rows[1:], strict=True):
        file.read_into(offset, view[begin * page_size : end * page_size])
    return buffer
