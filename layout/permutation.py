"""Keyed permutations of 0 .. n-1: any element by itself, in constant memory, the same on every machine. Pure: no I/O.

The permutation is part of the format (``docs/format.md`` has it bit by bit, with test vectors): a Feistel network over
the b-bit numbers, b the bit length of n - 1, of which those at or above n are sent through again until they fall below
(cycle walking: Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002). It shuffles; it hides nothing.
"""

import hashlib
from operator import index
from typing import Final

import numpy as np
from numpy.typing import NDArray

N_ROUNDS: Final = 8
SMALL_N: Final = 64
"""Up to this many elements the halves are of 3 bits at most, and 8 rounds would leave some permutations likelier."""
SMALL_N_ROUNDS: Final = 24
MAX_N: Final = 1 << 62

_PIECE: Final = 1 << 15  # elements; four arrays of 256 KiB each stay in a core's own cache
_TABLE_RATIO: Final = 2  # positions that are at least this part of n make the table of the whole domain worth its cost
_DIGEST_WORDS: Final = 8
_HALF_WORD: Final = np.uint64(32)


class Permutation:
    """A permutation of 0 .. n-1, drawn by a key; called with positions it gives their elements.

    Parameters
    ----------
    n
        How many elements are permuted, 0 to 2^62.
    seed
        Any integer.
    purpose
        What the permutation is for, one word: two purposes never share a permutation.
    numbers
        What else tells it from others, such as the epoch.

    Raises
    ------
    ValueError
        If n is out of range.

    Examples
    --------
    >>> permutation = Permutation(5, seed=0, purpose="example")
    >>> sorted(permutation(np.arange(5)).tolist())
    [0, 1, 2, 3, 4]
    """

    __slots__ = ("_n", "_rounds", "_split")

    def __init__(self, n: int, *, seed: int, purpose: str, numbers: tuple[int, ...] = ()) -> None:
        self._n = index(n)
        if not 0 <= self._n <= MAX_N:
            raise ValueError(f"n: expected 0 to 2^62, found {n}")
        bits = max(0, self._n - 1).bit_length()
        self._split = (bits - bits // 2, bits // 2)
        n_rounds = 0 if bits == 0 else SMALL_N_ROUNDS if self._n <= SMALL_N else N_ROUNDS
        self._rounds = _round_keys(purpose, seed, numbers, n_rounds)

    def __len__(self) -> int:
        return self._n

    def __call__(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the element at each position, int64, in the shape of ``positions``.

        Raises
        ------
        IndexError
            If a position is below 0, or not below n.
        """
        positions = np.asarray(positions, np.int64)
        if positions.size and not 0 <= int(positions.min()) <= int(positions.max()) < self._n:
            raise IndexError(f"position: expected 0 to {self._n - 1}, found {positions.min()} to {positions.max()}")
        if not self._rounds:
            return positions.copy()
        elements = np.array(positions, np.uint64, order="C")
        flat = elements.reshape(-1)
        if len(flat) <= _PIECE and _TABLE_RATIO * len(flat) >= self._n:
            self._permute_by_table(flat)
            return elements.view(np.int64)
        for start in range(0, len(flat), _PIECE):
            self._permute(flat[start : start + _PIECE])
        return elements.view(np.int64)

    def _permute(self, piece: NDArray[np.uint64]) -> None:
        """Replace positions by elements in place."""
        self._network(piece)
        outside = np.flatnonzero(piece >= self._n)
        while len(outside):
            walking = piece[outside]
            self._network(walking)
            piece[outside] = walking
            outside = outside[walking >= self._n]

    def _permute_by_table(self, piece: NDArray[np.uint64]) -> None:
        """Do the same for a piece that holds much of a small domain: each number of it is sent through once."""
        table = np.arange(1 << sum(self._split), dtype=np.uint64)
        self._network(table)
        piece[:] = table[piece]
        outside = np.flatnonzero(piece >= self._n)
        while len(outside):
            walking = table[piece[outside]]
            piece[outside] = walking
            outside = outside[walking >= self._n]

    def _network(self, numbers: NDArray[np.uint64]) -> None:
        """Send b-bit numbers through the Feistel network, in place."""
        high_bits, low_bits = self._split
        high = numbers >> np.uint64(low_bits)
        low = numbers & np.uint64((1 << low_bits) - 1)
        mixed, shifted = np.empty_like(high), np.empty_like(high)
        for number, (factor, addend, last_factor) in enumerate(self._rounds):
            source, target, bits = (low, high, high_bits) if number % 2 == 0 else (high, low, low_bits)
            if bits == 0:  # of the two halves of a 1-bit number one is empty
                continue
            np.multiply(source, factor, out=mixed)
            mixed += addend
            np.right_shift(mixed, _HALF_WORD, out=shifted)
            mixed ^= shifted
            mixed *= last_factor
            mixed >>= np.uint64(64 - bits)
            target ^= mixed
        np.left_shift(high, np.uint64(low_bits), out=numbers)
        numbers |= low


def _round_keys(
    purpose: str, seed: int, numbers: tuple[int, ...], n_rounds: int
) -> list[tuple[np.uint64, np.uint64, np.uint64]]:
    """Return each round's factor, addend and last factor; the factors are odd."""
    name = f"lmdbio permutation\n{purpose}\n{index(seed)}\n{','.join(str(index(number)) for number in numbers)}\n"
    n_digests = -(-3 * n_rounds // _DIGEST_WORDS)
    digests = b"".join(hashlib.blake2b(f"{name}{digest}".encode()).digest() for digest in range(n_digests))
    words = np.frombuffer(digests, "<u8").astype(np.uint64)
    factors = words | np.uint64(1)
    return [(factors[3 * i], words[3 * i + 1], factors[3 * i + 2]) for i in range(n_rounds)]
