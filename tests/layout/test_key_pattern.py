"""Patterns of keys are found where every key follows them, and nowhere else."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.layout.key_pattern import (
    DecimalKeys,
    IntegerKeys,
    KeyPattern,
    find_pattern,
    pattern_fields,
    pattern_from_fields,
)
from lmdbio.layout.keys import Keys


@st.composite
def patterns(draw: st.DrawFn) -> KeyPattern:
    n = draw(st.integers(2, 300))
    if draw(st.booleans()):
        size = draw(st.integers(3, 30))
        return DecimalKeys(n, draw(st.integers(0, 10 ** min(size, 18) - n)), size)
    size = draw(st.sampled_from([4, 8]))
    largest = (1 << (32 if size == 4 else 63)) - n
    return IntegerKeys(n, draw(st.integers(0, largest)), size, draw(st.sampled_from(["little", "big"])))


@given(patterns())
def test_keys_that_follow_a_pattern_give_it_back(pattern: KeyPattern) -> None:
    keys = Keys.from_list([pattern[i] for i in range(len(pattern))])
    found = find_pattern(keys)
    assert found is not None
    assert list(keys) == [found[i] for i in range(len(keys))]
    assert found == pattern_from_fields(pattern_fields(found), len(keys))


@given(patterns(), st.data())
def test_one_key_that_differs_is_no_pattern(pattern: KeyPattern, data: st.DataObject) -> None:
    keys = [pattern[i] for i in range(len(pattern))]
    number = data.draw(st.integers(0, len(keys) - 1))
    keys[number] = bytes([keys[number][0] ^ 0x41]) + keys[number][1:]
    found = find_pattern(Keys.from_list(keys))
    assert found is None or keys == [found[i] for i in range(len(keys))]


@given(patterns(), st.data())
def test_every_key_is_found_at_its_number_and_no_other(pattern: KeyPattern, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(pattern) - 1))
    key = pattern[number]
    assert number == pattern.find(key)
    assert pattern.find(key + b"0") is None
    assert pattern.find(b"0" + key) is None
    assert pattern.find(key[1:]) is None
    assert pattern.find(b"") is None
    rows = pattern.rows(np.array([number, 0]))
    assert [key, pattern[0]] == [row.tobytes() for row in rows]


@pytest.mark.parametrize(
    "keys",
    [
        [],
        [b"5"],
        [b"8", b"9", b"10"],
        [b"00", b"02"],
        [b"1", b"2", b"4"],
        [b"1a", b"1b"],
        [b"+1", b"+2"],
        ["\u0661".encode(), "\u0662".encode()],
        [b"9" * 19, b"9" * 18 + b"8"],
    ],
)
def test_other_keys_have_no_pattern(keys: list[bytes]) -> None:
    assert find_pattern(Keys.from_list(keys)) is None


def test_keys_longer_than_any_number_begin_with_zeros() -> None:
    keys = [b"0" * 40 + b"%04d" % i for i in range(998, 1003)]
    assert DecimalKeys(5, 998, 44) == find_pattern(Keys.from_list(keys))
    assert DecimalKeys(5, 998, 44).find(b"1" + keys[0][1:]) is None


def test_eight_digits_are_decimals_and_not_integers() -> None:
    assert DecimalKeys(2, 12345678, 8) == find_pattern(Keys.from_list([b"12345678", b"12345679"]))


def test_integers_up_to_the_largest_are_found() -> None:
    keys = [i.to_bytes(4, "big") for i in range((1 << 32) - 3, 1 << 32)]
    assert IntegerKeys(3, (1 << 32) - 3, 4, "big") == find_pattern(Keys.from_list(keys))
    beyond = [i.to_bytes(8, "big") for i in range((1 << 63) - 1, (1 << 63) + 2)]
    assert find_pattern(Keys.from_list(beyond)) is None


@pytest.mark.parametrize(
    "fields",
    [
        None,
        5,
        [],
        {},
        {"kind": "octal", "start": 0, "size": 8},
        {"kind": ["decimal"], "start": 0, "size": 8},
        {"kind": "decimal", "start": 0},
        {"kind": "decimal", "start": 0, "size": 8, "order": "big"},
        {"kind": "decimal", "start": -1, "size": 8},
        {"kind": "decimal", "start": 0.0, "size": 8},
        {"kind": "decimal", "start": True, "size": 8},
        {"kind": "decimal", "start": 10**8 - 9, "size": 8},
        {"kind": "decimal", "start": 0, "size": 0},
        {"kind": "decimal", "start": 0, "size": 512},
        {"kind": "decimal", "start": 1 << 70, "size": 100},
        {"kind": "integer", "start": 0, "size": 8},
        {"kind": "integer", "start": 0, "size": 5, "order": "big"},
        {"kind": "integer", "start": 0, "size": 8, "order": "middle"},
        {"kind": "integer", "start": 0, "size": 8, "order": ["big"]},
        {"kind": "integer", "start": (1 << 32) - 9, "size": 4, "order": "big"},
        {"kind": "integer", "start": (1 << 63) - 9, "size": 8, "order": "big"},
    ],
)
def test_fields_that_cannot_be_are_refused(fields: Any) -> None:
    with pytest.raises(ValueError, match="expected a key pattern"):
        pattern_from_fields(fields, 10)
