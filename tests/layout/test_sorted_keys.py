"""Keys by number and numbers by key, in each order in which LMDB compares."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.layout.key_pattern import DecimalKeys
from lmdbio.layout.keys import Keys
from lmdbio.layout.page import DB_INTEGERKEY, DB_REVERSEKEY
from lmdbio.layout.sorted_keys import KeyOrder, SortedKeys, order_of_keys

RANKS = {
    "bytes": lambda key: key,
    "reverse": lambda key: key[::-1],
    "integer": lambda key: int.from_bytes(key, "little"),
}


@given(st.sets(st.binary(min_size=1, max_size=4), max_size=40), st.binary(max_size=5), st.sampled_from(list(RANKS)))
def test_a_key_is_found_at_its_number_in_every_order(keys: set[bytes], other: bytes, order: KeyOrder) -> None:
    if order == "integer":
        keys = {key.ljust(4, b"\0") for key in keys}
    ordered = sorted(keys, key=RANKS[order])
    held = SortedKeys(Keys.from_list(ordered), order=order)
    assert list(range(len(ordered))) == [held.find(key) for key in ordered]
    assert (ordered.index(other) if other in keys else None) == held.find(other)
    assert ordered == list(held)


def test_the_first_of_equal_keys_is_found() -> None:
    assert SortedKeys(Keys.from_list([b"a", b"b", b"b", b"b"]), order="bytes").find(b"b") == 1


def test_numbers_and_slices_are_those_of_a_list() -> None:
    keys = [b"%02d" % i for i in range(7)]
    for held in (SortedKeys(Keys.from_list(keys), order="bytes"), SortedKeys(DecimalKeys(7, 0, 2), order="bytes")):
        assert (keys[-2], keys[1:-1:2], keys[5:2], len(keys)) == (held[-2], held[1:-1:2], held[5:2], len(held))
        assert keys == list(held) == list(held.expand())
        assert b"03" in held
        with pytest.raises(IndexError, match="expected one of 7 records, found 7"):
            held[7]
        with pytest.raises(IndexError):
            held[-8]


def test_reverse_wins_over_integer_as_in_lmdb() -> None:
    assert [order_of_keys(flags) for flags in (0, DB_INTEGERKEY, DB_REVERSEKEY, DB_REVERSEKEY | DB_INTEGERKEY)] == [
        "bytes",
        "integer",
        "reverse",
        "reverse",
    ]
