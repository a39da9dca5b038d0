import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.convert import naming
from lmdbio.convert.naming import case_collisions, number_digits, numbered_keys, path_keys
from lmdbio.errors import SourceError
from lmdbio.layout.keys import Keys

paths = st.lists(st.binary(min_size=1, max_size=30) | st.binary(min_size=495, max_size=600), max_size=40)


@given(paths, st.randoms(use_true_random=False), st.integers(1, 7))
def test_a_numbered_key_is_number_and_path_cut_at_511_bytes(held: list[bytes], random, piece: int) -> None:  # type: ignore[no-untyped-def]
    order = list(range(len(held)))
    random.shuffle(order)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(naming, "_PIECE", piece)
        keys, n_cut = numbered_keys(Keys.from_list(held), np.array(order, np.int64))
    whole = [b"%08d_%s" % (place, held[number]) for place, number in enumerate(order)]
    assert list(keys) == [key[:511] for key in whole]
    assert n_cut == sum(len(key) > 511 for key in whole)


def test_numbers_are_wide_enough_for_the_last() -> None:
    assert [number_digits(n) for n in (0, 1, 10**8, 10**8 + 1, 10**9 + 1)] == [8, 8, 8, 9, 10]


@given(st.lists(st.binary(min_size=1, max_size=511), max_size=20, unique=True))
def test_path_keys_are_the_paths(held: list[bytes]) -> None:
    order = np.arange(len(held))[::-1].astype(np.int64)
    assert list(path_keys(Keys.from_list(held), order)) == held[::-1]


def test_a_path_too_long_for_a_key_is_named() -> None:
    held = Keys.from_list([b"a" * 511, b"b" * 512])
    with pytest.raises(SourceError, match=r"^b{512}: expected a path of at most 511 bytes .* 512: use --key number"):
        path_keys(held, np.array([1, 0], np.int64))


def test_keys_that_differ_in_case_only_are_counted() -> None:
    assert case_collisions(Keys.from_list([b"a/X.jpg", b"a/x.jpg", b"A/x.JPG", b"b/x.jpg"])) == 2
    assert case_collisions(Keys.from_list([])) == 0
