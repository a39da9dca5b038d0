import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.layout.keys import Keys, key_offsets, take_keys

many_keys = st.lists(st.binary(max_size=20), max_size=40)


@given(many_keys)
def test_keys_come_back_one_by_one(held: list[bytes]) -> None:
    keys = Keys.from_list(held)
    assert list(keys) == held == [keys[number] for number in range(len(keys))]


@given(many_keys.filter(bool), st.data())
def test_keys_are_taken_in_any_order_and_more_than_once(held: list[bytes], data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(0, len(held) - 1), max_size=60))
    taken = take_keys(Keys.from_list(held), np.array(numbers, np.int64))
    assert list(taken) == [held[number] for number in numbers]


@given(many_keys)
def test_keys_that_begin_within_a_blob_are_told_from_what_surrounds_them(held: list[bytes]) -> None:
    keys = Keys.from_list([b"before", *held, b"after"])
    inner = Keys(keys.blob, keys.offsets[1:-1])
    assert list(inner) == held
    assert np.concatenate(list(key_offsets(inner))).tolist() == Keys.from_list(held).offsets.tolist()
