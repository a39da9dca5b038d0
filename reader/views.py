"""Many byte ranges of one buffer as a sequence of memoryviews, each made when it is asked for."""

from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray


class Views(Sequence[memoryview]):
    """Views of a buffer; each keeps the buffer alive, and none copies.

    Parameters
    ----------
    buffer
        The bytes.
    starts, lengths
        First byte and bytes of each view, int64, shape (n_views,).
    """

    __slots__ = ("_buffer", "_lengths", "_starts")

    def __init__(self, buffer: memoryview, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
        self._buffer = buffer
        self._starts = starts
        self._lengths = lengths

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, place: int) -> memoryview: ...
    @overload
    def __getitem__(self, place: slice) -> "Views": ...
    def __getitem__(self, place: int | slice) -> "memoryview | Views":
        if isinstance(place, slice):
            return Views(self._buffer, self._starts[place], self._lengths[place])
        start = int(self._starts[place])
        return self._buffer[start : start + int(self._lengths[place])]

    def __iter__(self) -> Iterator[memoryview]:
        # No Python code runs per view: small records are many.
        ends = (self._starts + self._lengths).tolist()
        return map(self._buffer.__getitem__, map(slice, self._starts.tolist(), ends))

    def __repr__(self) -> str:
        return f"Views(n_views={len(self)}, n_bytes={int(self._lengths.sum())})"
