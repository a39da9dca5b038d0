"""Which records of two databases have the same key, for all records at once. Pure: no I/O."""

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.keys import Keys
from lmdbio.layout.ragged import gather


def match_keys(keys: Keys, others: Keys) -> NDArray[np.int64]:
    """Return for each key the number of the same key among the others, -1 for none, int64, shape (n_records,).

    Keys are compared in groups of one size, so the work is a few numpy calls for each size that occurs.

    >>> match_keys(Keys.from_list([b"a", b"bc", b"d"]), Keys.from_list([b"bc", b"a", b"x"])).tolist()
    [1, 0, -1]
    """
    if np.array_equal(keys.offsets, others.offsets) and np.array_equal(keys.blob, others.blob):
        return np.arange(len(keys))
    found = np.full(len(keys), -1, np.int64)
    sizes, other_sizes = keys.sizes, others.sizes
    by_size, others_by_size = np.argsort(sizes, kind="stable"), np.argsort(other_sizes, kind="stable")
    for size in np.intersect1d(sizes, other_sizes).tolist():
        mine = _group(by_size, sizes, size)
        theirs = _group(others_by_size, other_sizes, size)
        if size == 0:
            found[mine] = theirs[0]
            continue
        words = _words(keys, mine, size)
        other_words = _words(others, theirs, size)
        order = np.argsort(other_words, kind="stable")
        places = np.minimum(np.searchsorted(other_words, words, sorter=order), len(order) - 1)
        nearest = order[places]
        same = other_words[nearest] == words
        found[mine[same]] = theirs[nearest[same]]
    return found


def _group(by_size: NDArray[np.int64], sizes: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return the numbers of the keys of one size, ascending."""
    start = np.searchsorted(sizes, size, side="left", sorter=by_size)
    stop = np.searchsorted(sizes, size, side="right", sorter=by_size)
    return by_size[start:stop]


def _words(keys: Keys, numbers: NDArray[np.int64], size: int) -> NDArray[np.bytes_]:
    """Return keys of one size as fixed-width bytes; numpy drops zeros at their end, which cannot make two equal."""
    held = gather(keys.blob, keys.offsets[numbers], np.full(len(numbers), size))
    return held.view(f"S{size}")
