"""Keys that follow from their numbers, so that none is stored: decimals and integers that count up by one. Pure."""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.keys import Keys
from lmdbio.layout.page import MAX_KEY_SIZE
from lmdbio.layout.pieces import pieces

_MAX_DIGITS: Final = 18  # the most that int64 holds whatever they are; longer keys begin with zeros
_MAX_NUMBER: Final = 10**_MAX_DIGITS - 1
_PIECE: Final = 1 << 20  # keys compared at a time
ByteOrder: TypeAlias = Literal["little", "big"]


@dataclass(frozen=True, slots=True)
class DecimalKeys:
    """Decimal numbers that count up by one, with zeros before them to a fixed width.

    >>> keys = DecimalKeys(n_records=3, start=9, size=8)
    >>> keys[1], keys.find(b"00000011"), keys.find(b"11")
    (b'00000010', 2, None)
    """

    kind: ClassVar[str] = "decimal"
    n_records: int
    start: int
    """The number that is the first key."""
    size: int
    """Bytes of every key."""

    def __post_init__(self) -> None:
        _check_whole(self.start, self.size, sizes=range(1, MAX_KEY_SIZE + 1))
        _check_fit(self.n_records, self.start, self.size, largest=10 ** min(self.size, _MAX_DIGITS) - 1)

    def __len__(self) -> int:
        return self.n_records

    def __getitem__(self, number: int) -> bytes:
        return b"%0*d" % (self.size, self.start + number)

    def find(self, key: bytes) -> int | None:
        """Return the number of the record with this key, or None."""
        if len(key) != self.size or not key.isdigit() or key[:-_MAX_DIGITS].strip(b"0"):
            return None
        return _within(int(key[-_MAX_DIGITS:]) - self.start, self.n_records)

    def rows(self, records: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return the keys of the records, uint8, shape (len(records), size)."""
        rows = np.full((len(records), self.size), ord("0"), np.uint8)
        rest = records + self.start
        for column in range(self.size - 1, max(self.size - _MAX_DIGITS, 0) - 1, -1):
            rest, digits = np.divmod(rest, 10)
            rows[:, column] += digits.astype(np.uint8)
        return rows


@dataclass(frozen=True, slots=True)
class IntegerKeys:
    """Integers of 4 or 8 bytes that count up by one.

    >>> keys = IntegerKeys(n_records=3, start=255, size=4, order="big")
    >>> keys[1].hex(), keys.find(bytes([0, 0, 1, 1])), keys.find(b"1")
    ('00000100', 2, None)
    """

    kind: ClassVar[str] = "integer"
    n_records: int
    start: int
    """The number that is the first key."""
    size: int
    """Bytes of every key, 4 or 8."""
    order: ByteOrder
    """Which byte comes first."""

    def __post_init__(self) -> None:
        if self.order not in ("little", "big"):
            raise ValueError(f"expected a key pattern of byte order little or big, found {self.order!r}")
        _check_whole(self.start, self.size, sizes=(4, 8))
        _check_fit(self.n_records, self.start, self.size, largest=(1 << (32 if self.size == 4 else 63)) - 1)

    def __len__(self) -> int:
        return self.n_records

    def __getitem__(self, number: int) -> bytes:
        return (self.start + number).to_bytes(self.size, self.order)

    def find(self, key: bytes) -> int | None:
        """Return the number of the record with this key, or None."""
        return _within(int.from_bytes(key, self.order) - self.start, self.n_records) if len(key) == self.size else None

    def rows(self, records: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return the keys of the records, uint8, shape (len(records), size)."""
        numbers = (records + self.start).astype(f"{'<' if self.order == 'little' else '>'}u{self.size}")
        return numbers.view(np.uint8).reshape(len(records), self.size)


KeyPattern: TypeAlias = DecimalKeys | IntegerKeys


def find_pattern(keys: Keys) -> KeyPattern | None:
    """Return the pattern that all keys follow, or None. One input has one answer; fewer than two keys have none."""
    n = len(keys)
    if n < 2 or len(keys.blob) % n:
        return None
    size = len(keys.blob) // n
    if not 1 <= size <= MAX_KEY_SIZE or not _are_all_of_size(keys, size):
        return None
    first, last = keys[0], keys[n - 1]
    candidates: list[KeyPattern] = []
    if first.isdigit() and last.isdigit() and int(last) <= _MAX_NUMBER and int(last) - int(first) == n - 1:
        candidates.append(DecimalKeys(n, int(first), size))
    if size in (4, 8):
        orders: tuple[ByteOrder, ...] = ("big", "little")
        for order in orders:
            start, end = int.from_bytes(first, order), int.from_bytes(last, order)
            if end - start == n - 1 and end < 1 << 63:
                candidates.append(IntegerKeys(n, start, size, order))
    rows = keys.blob.reshape(n, size)
    return next((pattern for pattern in candidates if _matches(pattern, rows)), None)


def _are_all_of_size(keys: Keys, size: int) -> bool:
    return all(np.all(np.diff(keys.offsets[piece.start : piece.stop + 1]) == size) for piece in pieces(len(keys)))


def pattern_fields(pattern: KeyPattern) -> dict[str, Any]:
    """Return what the sidecar says of a pattern; the number of records stands elsewhere in it."""
    fields = asdict(pattern)
    del fields["n_records"]
    return {"kind": pattern.kind, **fields}


def pattern_from_fields(fields: Any, n_records: int) -> KeyPattern:
    """Return the pattern that the sidecar speaks of.

    Raises
    ------
    ValueError
        If it is none that is known, or its numbers do not fit its size; the message says *expected X, found Y*.
    """
    expected = {"decimal": {"start", "size"}, "integer": {"start", "size", "order"}}
    if not isinstance(fields, dict) or not isinstance(fields.get("kind"), str) or fields["kind"] not in expected:
        raise ValueError(f"expected a key pattern that is decimal or integer, found {str(fields)[:80]}")
    rest = {name: value for name, value in fields.items() if name != "kind"}
    if set(rest) != expected[fields["kind"]]:
        raise ValueError(f"expected a key pattern with start and size, found {str(fields)[:80]}")
    kind = DecimalKeys if fields["kind"] == DecimalKeys.kind else IntegerKeys
    return kind(n_records=n_records, **rest)


def _matches(pattern: KeyPattern, rows: NDArray[np.uint8]) -> bool:
    for start in range(0, len(rows), _PIECE):
        stop = min(start + _PIECE, len(rows))
        if not np.array_equal(pattern.rows(np.arange(start, stop)), rows[start:stop]):
            return False
    return True


def _within(number: int, n_records: int) -> int | None:
    return number if 0 <= number < n_records else None


def _check_whole(start: Any, size: Any, *, sizes: range | tuple[int, ...]) -> None:
    if type(start) is not int or type(size) is not int or size not in sizes:
        raise ValueError(f"expected a key pattern of a whole start and a known size, found {start!r:.40}, {size!r:.40}")


def _check_fit(n_records: int, start: int, size: int, *, largest: int) -> None:
    if start < 0 or start + n_records - 1 > largest:
        raise ValueError(f"expected a key pattern that fits {size} bytes, found {n_records} keys from {start} on")
