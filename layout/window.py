"""Windows: runs of a region's overflow extents that are filled in memory and written by one call. Pure: no I/O."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.page import HEADER_SIZE, overflow_headers, overflow_pages
from lmdbio.layout.partition import running_sum
from lmdbio.layout.plan import DatabasePlan

WINDOW_SIZE: Final = 2 << 20
"""Bytes of a window, about: enough for a fast write, little enough that many are filled at the same time."""
LARGEST_EXTENT: Final = 16 << 20
"""Bytes of the largest extent that is held in memory; a larger one is in no window, and its value is streamed."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Whole overflow extents that lie one after the other in the file; a struct of arrays."""

    region: int
    """The region that they belong to."""
    records: NDArray[np.int64]
    """Plan-order number of each record, int64, shape (n_records,)."""
    lengths: NDArray[np.int64]
    """Bytes of each value, int64, shape (n_records,)."""
    first_page: int
    """Page number of the first extent."""
    pages: NDArray[np.int64]
    """Bounds of the extents in pages, from 0 on, int64, shape (n_records + 1,)."""

    @property
    def n_pages(self) -> int:
        """Pages of all extents."""
        return int(self.pages[-1])

    def write_headers(self, memory: NDArray[np.uint8]) -> None:
        """Put the header of each extent into the window's pages, uint8, shape (n_pages, page_size)."""
        begins = self.pages[:-1]
        memory[begins, :HEADER_SIZE] = overflow_headers(self.first_page + begins, np.diff(self.pages))


def cut_windows(plan: DatabasePlan, region: int) -> list[Window]:
    """Return the windows of a region in file order: all extents that are not too large, about ``WINDOW_SIZE`` each."""
    records = plan.extent_records(region)
    lengths = plan.lengths[records]
    bounds = running_sum(overflow_pages(lengths, plan.page_size))
    is_large = np.diff(bounds) * plan.page_size > LARGEST_EXTENT
    # Greedy: a window takes extents while it stays within its size, or is one extent; a large one stands between two.
    most = WINDOW_SIZE // plan.page_size
    stops = np.append(np.flatnonzero(is_large), len(records))
    windows = []
    begin = 0
    while begin < len(records):
        if is_large[begin]:
            begin += 1
            continue
        fitting = int(np.searchsorted(bounds, bounds[begin] + most, side="right")) - 1
        end = min(max(begin + 1, fitting), int(stops[np.searchsorted(stops, begin)]))
        first = int(plan.value_pages[records[begin]])
        pages = bounds[begin : end + 1] - bounds[begin]
        windows.append(Window(region, records[begin:end], lengths[begin:end], first, pages))
        begin = end
    return windows


def large_extents(plan: DatabasePlan, region: int) -> NDArray[np.int64]:
    """Return the plan-order numbers of a region's records whose extents are in no window, in file order."""
    records = plan.extent_records(region)
    return records[overflow_pages(plan.lengths[records], plan.page_size) * plan.page_size > LARGEST_EXTENT]
