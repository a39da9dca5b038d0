"""Windows filled in place: values go straight to where they lie in the file's pages, then to the file by one call."""

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from threading import Condition
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from lmdbio.layout.page import HEADER_SIZE
from lmdbio.layout.plan import DatabasePlan
from lmdbio.layout.pool import BufferPool
from lmdbio.layout.target import BLOCK_SIZE, TargetFile
from lmdbio.layout.window import Window

Fill: TypeAlias = Callable[[NDArray[np.int64], list[memoryview]], Iterable[bool]]
"""Puts the values of records, by their plan-order numbers, into memory of just their sizes, one after the other, and
says of each at once whether it is there; one that is not is skipped."""

_MOST_HELD: Final = 64 << 20
"""Bytes of windows that are filled or written at the same time, unless it is one."""


class WindowWriter:
    """Writes windows of one database; what it learns of the records it leaves in the arrays that it is given.

    Safe to share between threads that write different windows.

    Parameters
    ----------
    plan
        The plan.
    file
        Where the pages go.
    written
        Whether each record was written, in plan order, bool, shape (n_records,).
    checksums
        Where the xxh3-64 of each value goes, in plan order, uint64, shape (n_records,); None: none are taken.
    """

    def __init__(
        self,
        plan: DatabasePlan,
        file: TargetFile,
        written: NDArray[np.bool_],
        checksums: NDArray[np.uint64] | None,
    ) -> None:
        self._plan = plan
        self._file = file
        self._written = written
        self._checksums = checksums
        self._memory = BufferPool(keep=_MOST_HELD)
        self._changed = Condition()
        self._held = 0

    def write(self, window: Window, fill: Fill, *, direct: bool) -> None:
        """Have a window filled and write it, past the page cache where that is wanted and possible.

        Raises
        ------
        TargetError
            If the file cannot be written.
        """
        page_size = self._plan.page_size
        with self._hold(window.n_pages * page_size) as pages:
            window.write_headers(pages.reshape(-1, page_size))
            self._fill(window, fill, pages)
            offset = window.first_page * page_size
            if direct and page_size % BLOCK_SIZE == 0:
                self._file.write_direct(offset, pages.data)
            else:
                self._file.write(offset, [pages.data])

    def _fill(self, window: Window, fill: Fill, pages: NDArray[np.uint8]) -> None:
        begins = window.pages[:-1] * self._plan.page_size + HEADER_SIZE
        ends = begins + window.lengths
        memory = pages.data
        slots = [memory[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
        # Each value is hashed while it is in the processor's cache.
        hashed = xxh3_64_intdigest if self._checksums is not None else len
        digests = [
            hashed(slot) if is_there else None
            for slot, is_there in zip(slots, fill(window.records, slots), strict=True)
        ]
        for end, edge in zip(ends.tolist(), (window.pages[1:] * self._plan.page_size).tolist(), strict=True):
            pages[end:edge] = 0
        skipped = [place for place, digest in enumerate(digests) if digest is None]
        self._written[window.records] = True
        self._written[window.records[skipped]] = False
        for place in skipped:
            begin, end = (window.pages[place : place + 2] * self._plan.page_size).tolist()
            pages[begin:end] = 0
        if self._checksums is not None:
            self._checksums[window.records] = [digest or 0 for digest in digests]

    @contextmanager
    def _hold(self, size: int) -> Generator[NDArray[np.uint8]]:
        """Give memory of any content once there is room for it among what is held."""
        with self._changed:
            self._changed.wait_for(lambda: not self._held or self._held + size <= _MOST_HELD)
            self._held += size
        try:
            yield self._memory.take(size)
        finally:
            with self._changed:
                self._held -= size
                self._changed.notify_all()
