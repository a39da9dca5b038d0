"""Many keys as two arrays, their bytes end to end and where each begins, or as what makes them on demand. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.pieces import pieces
from lmdbio.layout.ragged import copy_ranges


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys, by number; ``keys[i]`` is bytes.

    >>> keys = Keys.from_list([b"a", b"bc"])
    >>> len(keys), keys[1], keys.sizes.tolist()
    (2, b'bc', [1, 2])
    """

    blob: NDArray[np.uint8]
    """The keys end to end, uint8, shape (sum of sizes,)."""
    offsets: NDArray[np.int64]
    """Where each key begins, and the end of the last, int64, shape (n_records + 1,)."""

    @classmethod
    def from_list(cls, keys: Iterable[bytes]) -> "Keys":
        """Return the keys given one by one."""
        held = list(keys)
        offsets = np.zeros(len(held) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, held), np.int64, len(held)), out=offsets[1:])
        return cls(np.frombuffer(b"".join(held), np.uint8), offsets)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Bytes of each key, int64, shape (n_records,)."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> bytes:
        return self.blob[self.offsets[number] : self.offsets[number + 1]].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        for piece in pieces(len(self)):
            bounds = self.offsets[piece.start : piece.stop + 1].tolist()
            blob = self.blob[bounds[0] : bounds[-1]].tobytes()
            yield from (blob[begin - bounds[0] : end - bounds[0]] for begin, end in pairwise(bounds))

    def sizes_at(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the bytes of the keys with these numbers, int64, shape (len(numbers),)."""
        return self.offsets[numbers + 1] - self.offsets[numbers]

    def copy_to(self, blob: NDArray[np.uint8], begins: NDArray[np.int64], numbers: NDArray[np.int64]) -> None:
        """Copy the keys with these numbers to where each begins in the blob."""
        copy_ranges(blob, begins, self.blob, self.offsets[numbers], self.sizes_at(numbers))


class MadeKeys(Protocol):
    """Keys that are made on demand from something smaller, or from what is held anyway."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int) -> bytes: ...

    def sizes_at(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the bytes of the keys with these numbers, int64, shape (len(numbers),)."""

    def copy_to(self, blob: NDArray[np.uint8], begins: NDArray[np.int64], numbers: NDArray[np.int64]) -> None:
        """Copy the keys with these numbers to where each begins in the blob."""

    def order(self) -> NDArray[np.int64] | None:
        """Return the numbers of the keys sorted by key, int64, shape (n_records,), or None where they ascend already.

        Raises
        ------
        ValueError
            If a key occurs twice.
        """


AnyKeys: TypeAlias = Keys | MadeKeys


def key_offsets(keys: AnyKeys) -> Iterator[NDArray[np.int64]]:
    """Yield piece by piece where each key begins if they are laid end to end, and the end of the last: int64."""
    yield np.zeros(1, np.int64)
    end = 0
    for piece in pieces(len(keys)):
        ends = end + np.cumsum(keys.sizes_at(np.arange(piece.start, piece.stop)))
        end = int(ends[-1])
        yield ends


def take_keys(keys: AnyKeys, numbers: NDArray[np.int64] | None = None) -> Keys:
    """Return the keys with these numbers, int64, shape (n,), in the order of the numbers; by default all.

    >>> list(take_keys(Keys.from_list([b"a", b"bc", b"d"]), np.array([2, 1])))
    [b'd', b'bc']
    """
    n = len(keys) if numbers is None else len(numbers)

    def chosen(piece: slice) -> NDArray[np.int64]:
        return np.arange(piece.start, piece.stop) if numbers is None else numbers[piece]

    offsets = np.zeros(n + 1, np.int64)
    for piece in pieces(n):
        offsets[piece.start + 1 : piece.stop + 1] = keys.sizes_at(chosen(piece))
    np.cumsum(offsets, out=offsets)
    blob = np.empty(int(offsets[-1]), np.uint8)
    for piece in pieces(n):
        keys.copy_to(blob, offsets[piece], chosen(piece))
    return Keys(blob, offsets)
