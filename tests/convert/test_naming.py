import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.convert.naming import NumberedKeys, PathKeys, number_digits
from lmdbio.errors import SourceError
from lmdbio.layout.keys import Keys, take_keys

paths = st.lists(st.binary(min_size=1, max_size=30) | st.binary(min_size=495, max_size=600), max_size=40)


@given(paths, st.randoms(use_true_random=False))
def test_a_numbered_key_is_number_and_path_cut_at_511_bytes(held: list[bytes], random) -> None:  # type: ignore[no-untyped-def]
    order = list(range(len(held)))
    random.shuffle(order)
    keys = NumberedKeys(Keys.from_list(held), np.array(order, np.int64))
    whole = [b"%08d_%s" % (place, held[number]) for place, number in enumerate(order)]
    assert list(keys) == [key[:511] for key in whole]
    assert keys.n_cut == sum(len(key) > 511 for key in whole)
    assert keys.sizes_at(np.arange(len(keys))).tolist() == [min(len(key), 511) for key in whole]
    assert keys.order() is None


@given(paths, st.data())
def test_some_of_the_keys_are_made_without_the_others(held: list[bytes], data: st.DataObject) -> None:
    keys = NumberedKeys(Keys.from_list(held), np.arange(len(held))[::-1])
    some = data.draw(st.lists(st.integers(0, max(0, len(held) - 1)), max_size=len(held)))
    assert list(take_keys(keys, np.array(some, np.int64))) == [keys[number] for number in some]


def test_numbers_are_wide_enough_for_the_last() -> None:
    assert [number_digits(n) for n in (0, 1, 10**8, 10**8 + 1, 10**9 + 1)] == [8, 8, 8, 9, 10]


unique_paths = st.lists(st.binary(min_size=1, max_size=511), max_size=20, unique=True)


@given(unique_paths)
def test_path_keys_are_the_paths(held: list[bytes]) -> None:
    keys = PathKeys(Keys.from_list(held), np.arange(len(held))[::-1])
    assert list(keys) == held[::-1]
    assert list(take_keys(keys, np.arange(len(held)))) == held[::-1]


@given(unique_paths, st.booleans(), st.data())
def test_path_keys_are_sorted_whatever_the_order_of_their_source(
    held: list[bytes], is_sorted: bool, data: st.DataObject
) -> None:
    source = sorted(held) if is_sorted else held
    taken = data.draw(st.permutations(range(len(source)))) if source else []
    taken = taken[: data.draw(st.integers(0, len(source)))]
    keys = PathKeys(Keys.from_list(source), np.array(taken, np.int64))
    order = keys.order()
    if order is None:
        assert list(keys) == sorted(keys)
    else:
        assert list(keys) != sorted(keys)
        assert [keys[number] for number in order.tolist()] == sorted(keys)


def test_a_path_that_occurs_twice_is_named() -> None:
    keys = PathKeys(Keys.from_list([b"a", b"b", b"a"]), np.arange(3))
    with pytest.raises(ValueError, match=r"key b'a': expected each key once"):
        keys.order()


def test_a_path_too_long_for_a_key_is_named() -> None:
    held = Keys.from_list([b"a" * 511, b"b" * 512])
    with pytest.raises(SourceError, match=r"^b{512}: expected a path of at most 511 bytes .* 512: use --key number"):
        PathKeys(held, np.array([1, 0], np.int64))


def test_keys_that_differ_in_case_only_are_counted() -> None:
    held = Keys.from_list([b"a/X.jpg", b"a/x.jpg", b"A/x.JPG", b"b/x.jpg"])
    assert PathKeys(held, np.arange(4)).case_collisions == 2
    assert PathKeys(held, np.array([0, 3])).case_collisions == 0
    assert PathKeys(Keys.from_list([]), np.arange(0)).case_collisions == 0
