from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.layout import key_order as key_orders
from lmdbio.layout.key_order import key_order
from lmdbio.layout.keys import Keys
from lmdbio.layout.pieces import pieces

# Few different bytes, zero among them, so that prefixes are shared and keys differ in trailing zeros.
near_keys = st.lists(
    st.binary(min_size=1, max_size=511)
    | st.text("\0a\xff", min_size=1, max_size=20).map(lambda text: text.encode("latin-1")),
    unique=True,
    max_size=60,
)


@given(keys=near_keys)
def test_the_order_is_that_of_bytes(keys: list[bytes]):
    order = key_order(Keys.from_list(keys))
    if order is None:
        assert keys == sorted(keys)
    else:
        assert keys != sorted(keys)
        assert [keys[number] for number in order.tolist()] == sorted(keys)


@given(keys=near_keys)
def test_sorted_keys_have_no_order_of_their_own(keys: list[bytes]):
    assert key_order(Keys.from_list(sorted(keys))) is None


@given(keys=near_keys.filter(bool), data=st.data())
def test_a_key_that_occurs_twice_is_named(keys: list[bytes], data: st.DataObject):
    again = data.draw(st.sampled_from(keys))
    place = data.draw(st.integers(0, len(keys)))
    with pytest.raises(ValueError, match="expected each key once") as raised:
        key_order(Keys.from_list([*keys[:place], again, *keys[place:]]))
    assert repr(again) in str(raised.value)


@given(keys=near_keys, piece=st.integers(1, 5))
def test_pieces_of_any_size_find_the_same(keys: list[bytes], piece: int):
    held, in_order = Keys.from_list(keys), Keys.from_list(sorted(keys))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_orders, "pieces", partial(pieces, size=piece))
        assert (key_order(held) is None) == (keys == sorted(keys))
        assert key_order(in_order) is None


def test_keys_need_not_begin_at_the_start_of_their_blob():
    blob = np.frombuffer(b"junkbajunk", np.uint8)
    assert key_order(Keys(blob, np.array([4, 5, 6], np.int64))).tolist() == [1, 0]
