"""The keys of a conversion, from the paths of its inputs. Pure: no I/O."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from lmdbio.errors import SourceError
from lmdbio.layout.key_order import key_order
from lmdbio.layout.keys import Keys, take_keys
from lmdbio.layout.page import MAX_KEY_SIZE
from lmdbio.layout.pieces import pieces
from lmdbio.layout.printable import printable
from lmdbio.layout.ragged import copy_ranges

MIN_DIGITS: Final = 8
"""Caffe's width of the number in a key."""


def number_digits(n_records: int) -> int:
    """Return the width of the number in a key.

    >>> number_digits(1_281_167), number_digits(100_000_000), number_digits(100_000_001)
    (8, 8, 9)
    """
    return max(MIN_DIGITS, len(str(n_records - 1)))


@dataclass(frozen=True, slots=True, eq=False)
class NumberedKeys:
    """The keys ``<number>_<path>`` in plan order, cut at 511 bytes, made on demand.

    >>> keys = NumberedKeys(Keys.from_list([b"a/x.png", b"b/y.png"]), np.array([1, 0]))
    >>> list(keys), keys.n_cut
    ([b'00000000_b/y.png', b'00000001_a/x.png'], 0)
    """

    paths: Keys
    """The inputs' paths, in the source's order."""
    inputs: NDArray[np.int64]
    """Number of the input of each record in plan order, int64, shape (n_records,)."""

    @property
    def n_cut(self) -> int:
        """How many were cut."""
        begin = self._prefix_size
        return sum(
            int(np.count_nonzero(begin + self.paths.sizes_at(self.inputs[piece]) > MAX_KEY_SIZE))
            for piece in pieces(len(self))
        )

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, number: int) -> bytes:
        return take_keys(self, np.array([range(len(self))[number]]))[0]

    def sizes_at(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the bytes of the keys with these numbers, int64, shape (len(numbers),)."""
        return np.minimum(self._prefix_size + self.paths.sizes_at(self.inputs[numbers]), MAX_KEY_SIZE)

    def copy_to(self, blob: NDArray[np.uint8], begins: NDArray[np.int64], numbers: NDArray[np.int64]) -> None:
        """Copy the keys with these numbers to where each begins in the blob."""
        digits = number_digits(len(self))
        powers = 10 ** np.arange(digits - 1, -1, -1, dtype=np.int64)
        # The places of the digits: (records, digits).
        blob[begins[:, None] + np.arange(digits)] = numbers[:, None] // powers % 10 + ord("0")
        blob[begins + digits] = ord("_")
        starts = self.paths.offsets[self.inputs[numbers]]
        copy_ranges(blob, begins + digits + 1, self.paths.blob, starts, self.sizes_at(numbers) - digits - 1)

    def order(self) -> None:
        """Return that the keys ascend: their numbers do, and all are of one width."""

    @property
    def _prefix_size(self) -> int:
        return number_digits(len(self)) + 1


@dataclass(frozen=True, slots=True, eq=False)
class PathKeys:
    """The paths themselves as keys, in plan order, made on demand.

    >>> keys = PathKeys(Keys.from_list([b"a/x.png", b"b/y.png", b"c"]), np.array([1, 0]))
    >>> list(keys), keys.order().tolist()
    ([b'b/y.png', b'a/x.png'], [1, 0])

    Raises
    ------
    SourceError
        If a path is longer than a key can be: cutting it could make two the same.
    """

    paths: Keys
    """The inputs' paths, in the source's order."""
    inputs: NDArray[np.int64]
    """Number of the input of each record in plan order, int64, shape (n_records,)."""

    def __post_init__(self) -> None:
        for piece in pieces(len(self)):
            sizes = self.paths.sizes_at(self.inputs[piece])
            if int(sizes.max()) > MAX_KEY_SIZE:
                too_long = int(self.inputs[piece][np.argmax(sizes > MAX_KEY_SIZE)])
                raise SourceError(
                    f"{printable(self.paths[too_long])}: expected a path of at most {MAX_KEY_SIZE} bytes for a key, "
                    f"found {len(self.paths[too_long])}: use --key number, which cuts long keys and keeps them unique"
                )

    @property
    def case_collisions(self) -> int:
        """How many keys equal another one save for the case of ASCII letters.

        They are different keys to LMDB, and the same file name to a file system that ignores case.
        """
        folded = np.empty(len(self), np.uint64)
        for piece in pieces(len(self)):
            keys = take_keys(self, np.arange(piece.start, piece.stop))
            folded[piece] = [xxhash.xxh3_64_intdigest(key.lower()) for key in keys]
        folded.sort()
        return int(np.count_nonzero(folded[1:] == folded[:-1]))

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, number: int) -> bytes:
        return self.paths[int(self.inputs[number])]

    def sizes_at(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the bytes of the keys with these numbers, int64, shape (len(numbers),)."""
        return self.paths.sizes_at(self.inputs[numbers])

    def copy_to(self, blob: NDArray[np.uint8], begins: NDArray[np.int64], numbers: NDArray[np.int64]) -> None:
        """Copy the keys with these numbers to where each begins in the blob."""
        self.paths.copy_to(blob, begins, self.inputs[numbers])

    def order(self) -> NDArray[np.int64] | None:
        """Return the numbers of the keys sorted by key, or None where they ascend already.

        Paths are sorted in the source's order, which is nearly that of keys; where each record comes there says the
        rest.

        Raises
        ------
        ValueError
            If a path occurs twice.
        """
        records = np.full(len(self.paths), -1, np.int64)
        for piece in pieces(len(self)):
            records[self.inputs[piece]] = np.arange(piece.start, piece.stop)
        sorted_paths = key_order(self.paths)
        if sorted_paths is not None:
            records = records[sorted_paths]
            del sorted_paths
        if len(self) < len(records):
            records = records[records >= 0]
        return None if np.all(records[1:] > records[:-1]) else records
