"""The keys of a conversion, from the paths of its inputs. Pure: no I/O."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from lmdbio.convert.source import printable
from lmdbio.errors import SourceError
from lmdbio.layout.keys import Keys
from lmdbio.layout.page import MAX_KEY_SIZE

MIN_DIGITS: Final = 8
"""Caffe's width of the number in a key."""

_PIECE: Final = 1 << 14
"""Keys made at a time: bounds the memory that the gather's index arrays take."""


def number_digits(n_records: int) -> int:
    """Return the width of the number in a key.

    >>> number_digits(1_281_167), number_digits(100_000_000), number_digits(100_000_001)
    (8, 8, 9)
    """
    return max(MIN_DIGITS, len(str(n_records - 1)))


def numbered_keys(paths: Keys, order: NDArray[np.int64]) -> tuple[Keys, int]:
    """Return the keys ``<number>_<path>`` in plan order, cut at 511 bytes, and how many were cut.

    Parameters
    ----------
    paths
        The inputs' paths, in the source's order.
    order
        Number of the input of each record in plan order, int64, shape (n_records,).

    >>> keys, n_cut = numbered_keys(Keys.from_list([b"a/x.png", b"b/y.png"]), np.array([1, 0]))
    >>> list(keys), n_cut
    ([b'00000000_b/y.png', b'00000001_a/x.png'], 0)
    """
    digits = number_digits(len(order))
    whole = digits + 1 + paths.sizes[order]
    sizes = np.minimum(whole, MAX_KEY_SIZE)
    offsets = _offsets(sizes)
    blob = np.empty(offsets[-1], np.uint8)
    powers = 10 ** np.arange(digits - 1, -1, -1, dtype=np.int64)
    for start, stop in _pieces(len(order)):
        begins = offsets[start:stop]
        # numbers: (records, digits).
        numbers = np.arange(start, stop)[:, None] // powers % 10 + ord("0")
        blob[begins[:, None] + np.arange(digits)] = numbers
        blob[begins + digits] = ord("_")
        _copy(paths, order[start:stop], blob, begins + digits + 1, sizes[start:stop] - digits - 1)
    return Keys(blob, offsets), int(np.count_nonzero(whole > MAX_KEY_SIZE))


def path_keys(paths: Keys, order: NDArray[np.int64]) -> Keys:
    """Return the paths themselves as keys, in plan order.

    Raises
    ------
    SourceError
        If a path is longer than a key can be: cutting it could make two the same.
    """
    sizes = paths.sizes[order]
    if len(sizes) and int(sizes.max()) > MAX_KEY_SIZE:
        too_long = int(order[np.argmax(sizes > MAX_KEY_SIZE)])
        raise SourceError(
            f"{printable(paths[too_long])}: expected a path of at most {MAX_KEY_SIZE} bytes for a key, "
            f"found {int(paths.sizes[too_long])}: use --key number, which cuts long keys and keeps them unique"
        )
    offsets = _offsets(sizes)
    blob = np.empty(offsets[-1], np.uint8)
    for start, stop in _pieces(len(order)):
        _copy(paths, order[start:stop], blob, offsets[start:stop], sizes[start:stop])
    return Keys(blob, offsets)


def case_collisions(keys: Keys) -> int:
    """Return how many keys equal another one save for the case of ASCII letters.

    They are different keys to LMDB, and the same file name to a file system that ignores case.
    """
    folded = np.fromiter((xxhash.xxh3_64_intdigest(key.lower()) for key in keys), np.uint64, len(keys))
    return len(folded) - len(np.unique(folded))


def _offsets(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def _pieces(count: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + _PIECE, count)) for start in range(0, count, _PIECE))


def _copy(
    paths: Keys,
    numbers: NDArray[np.int64],
    blob: NDArray[np.uint8],
    begins: NDArray[np.int64],
    sizes: NDArray[np.int64],
) -> None:
    """Copy the first ``sizes`` bytes of the numbered paths to where each begins in the blob."""
    # within: (bytes,), the place of each byte in its own path.
    within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    blob[np.repeat(begins, sizes) + within] = paths.blob[np.repeat(paths.offsets[numbers], sizes) + within]
