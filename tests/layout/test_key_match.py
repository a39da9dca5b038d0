"""Keys of two databases are matched as a dictionary would, without one."""

from hypothesis import given
from hypothesis import strategies as st

from lmdbio.layout.key_match import match_keys
from lmdbio.layout.keys import Keys

KEYS = st.lists(st.binary(max_size=4) | st.sampled_from([b"\0", b"\0\0", b"a\0", b"a"]), unique=True, max_size=30)


@given(KEYS, KEYS)
def test_each_key_gets_the_number_of_the_same_key(keys: list[bytes], others: list[bytes]) -> None:
    numbers = {key: number for number, key in enumerate(others)}
    expected = [numbers.get(key, -1) for key in keys]
    assert expected == match_keys(Keys.from_list(keys), Keys.from_list(others)).tolist()


@given(KEYS)
def test_equal_keys_match_one_by_one(keys: list[bytes]) -> None:
    assert list(range(len(keys))) == match_keys(Keys.from_list(keys), Keys.from_list(keys)).tolist()
