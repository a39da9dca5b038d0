"""The keys of all records in key order: by number, and found again by binary search. Pure: no I/O."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal, TypeAlias, overload

import numpy as np

from lmdbio.layout.key_pattern import KeyPattern
from lmdbio.layout.keys import Keys
from lmdbio.layout.page import DB_INTEGERKEY, DB_REVERSEKEY

KeyOrder: TypeAlias = Literal["bytes", "reverse", "integer"]
"""How a tree compares keys: as Python compares bytes, so but from the last byte on, or as little-endian integers."""

_RANK: Final[dict[KeyOrder, Callable[[bytes], bytes]]] = {
    "bytes": lambda key: key,
    "reverse": lambda key: key[::-1],
    "integer": lambda key: key[::-1],  # keys of a tree have one size, so the bytes from the last on compare as integers
}
KEY_ORDERS: Final = tuple(_RANK)
_PIECE: Final = 1 << 16


def order_of_keys(flags: int) -> KeyOrder:
    """Return how a tree with these flags compares keys; LMDB lets REVERSEKEY win over INTEGERKEY.

    Comparison functions of an application leave no trace in the file.
    """
    if flags & DB_REVERSEKEY:
        return "reverse"
    return "integer" if flags & DB_INTEGERKEY else "bytes"


class SortedKeys(Sequence[bytes]):
    """All keys in the order of the tree.

    Parameters
    ----------
    held
        The keys, or the pattern that they follow.
    order
        How the tree compares them.

    Examples
    --------
    >>> keys = SortedKeys(Keys.from_list([b"a", b"bc", b"c"]), order="bytes")
    >>> keys[-1], keys[:2], keys.find(b"bc"), keys.find(b"b")
    (b'c', [b'a', b'bc'], 1, None)
    """

    def __init__(self, held: Keys | KeyPattern, *, order: KeyOrder) -> None:
        self.held = held
        self.order = order

    def __len__(self) -> int:
        return len(self.held)

    @overload
    def __getitem__(self, number: int) -> bytes: ...
    @overload
    def __getitem__(self, number: slice) -> list[bytes]: ...
    def __getitem__(self, number: int | slice) -> bytes | list[bytes]:
        if isinstance(number, slice):
            return [self.held[i] for i in range(*number.indices(len(self)))]
        found = number + len(self) if number < 0 else number
        if not 0 <= found < len(self):
            raise IndexError(f"record number: expected one of {len(self)} records, found {number}")
        return self.held[found]

    def __iter__(self) -> Iterator[bytes]:
        for start in range(0, len(self), _PIECE):
            yield from self[start : start + _PIECE]

    def find(self, key: bytes) -> int | None:
        """Return the number of the first record with this key, or None."""
        if not isinstance(self.held, Keys):
            return self.held.find(key)
        rank = _RANK[self.order]
        number = bisect_left(range(len(self)), rank(key), key=lambda i: rank(self.held[i]))
        return number if number < len(self) and self.held[number] == key else None

    def expand(self) -> Keys:
        """Return the keys as two arrays, made if they follow a pattern."""
        if isinstance(self.held, Keys):
            return self.held
        rows = self.held.rows(np.arange(len(self)))
        return Keys(rows.reshape(-1), np.arange(len(self) + 1) * self.held.size)
