"""The order of keys as LMDB compares them, for many keys at once. Pure: no I/O.

LMDB's default comparison is that of Python's ``bytes``: byte by byte over the shorter key, then the shorter first. A
key padded with zero bytes compares likewise, but for keys that differ in trailing zero bytes alone; their sizes decide.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.keys import AnyKeys, Keys
from lmdbio.layout.pieces import pieces

_WORD_SIZE: Final = 8


def key_order(keys: AnyKeys) -> NDArray[np.int64] | None:
    """Return the numbers of the keys sorted by key, int64, shape (n_records,), or None where they ascend already.

    Raises
    ------
    ValueError
        If a key occurs twice.

    >>> key_order(Keys.from_list([b"b", b"a", b"a0"])).tolist()
    [1, 2, 0]
    """
    if not isinstance(keys, Keys):
        return keys.order()
    # Neighbours are compared piece by piece: each piece begins with the last key of the one before.
    if all(_ascend(Keys(keys.blob, keys.offsets[piece.start : piece.stop + 2])) for piece in pieces(len(keys))):
        return None
    return _sort(_Columns(keys), keys)


class _Columns:
    """Keys as columns of big-endian words, made one column at a time; the last column is the size of the key."""

    def __init__(self, keys: Keys) -> None:
        blob = keys.blob[keys.offsets[0] : keys.offsets[-1]]
        self._starts = keys.offsets[:-1] - keys.offsets[0]
        self._sizes = keys.sizes
        padded = np.concatenate([blob, np.zeros(_WORD_SIZE, np.uint8)])
        # Every position of the blob as the word that begins there: a view with a stride of one byte.
        self._words = np.ndarray((len(blob) + 1,), ">u8", padded.data, 0, (1,))
        longest = int(self._sizes.max(initial=0))
        self.n_columns = -(-longest // _WORD_SIZE) + 1

    def column(self, number: int, records: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return one word of each of the records' keys, zero beyond the key's end, uint64, shape (len(records),)."""
        if number == self.n_columns - 1:
            return self._sizes[records].astype(np.uint64)
        at = number * _WORD_SIZE
        left = np.clip(self._sizes[records] - at, 0, _WORD_SIZE)
        words = self._words[np.where(left > 0, self._starts[records] + at, 0)].astype(np.uint64)
        unused = (8 * (_WORD_SIZE - np.maximum(left, 1))).astype(np.uint64)
        return np.where(left > 0, words >> unused << unused, np.uint64(0))


def _ascend(keys: Keys) -> bool:
    """Tell whether each key is greater than the one before."""
    columns = _Columns(keys)
    undecided = np.arange(len(keys) - 1, dtype=np.int64)
    for number in range(columns.n_columns):
        left, right = columns.column(number, undecided), columns.column(number, undecided + 1)
        if (left > right).any():
            return False
        undecided = undecided[left == right]
        if not len(undecided):
            return True
    return not len(undecided)


def _sort(columns: _Columns, keys: Keys) -> NDArray[np.int64]:
    """Sort by the first word, then each group of ties by the next word, until nothing is tied."""
    order = np.arange(len(keys), dtype=np.int64)
    groups = np.zeros(len(keys), np.int64)
    tied = np.arange(len(keys), dtype=np.int64)  # places in the order whose keys are not told apart yet
    for number in range(columns.n_columns):
        words = columns.column(number, order[tied])
        resorted = np.lexsort((words, groups[tied]))
        order[tied] = order[tied][resorted]
        words = words[resorted]
        begins = np.ones(len(tied) + 1, np.bool_)  # the place past the end begins a group, too
        begins[1:-1] = (words[1:] != words[:-1]) | np.diff(groups[tied]).astype(np.bool_)
        groups[tied] = np.cumsum(begins[:-1])
        tied = tied[~(begins[:-1] & begins[1:])]
        if not len(tied):
            return order
    first = int(order[tied[0]])
    raise ValueError(f"key {keys[first]!r}: expected each key once, found it again")
