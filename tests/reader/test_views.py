"""Views are slices of one buffer, made when asked for."""

import numpy as np
import pytest

from lmdbio.reader.views import Views


@pytest.fixture
def views() -> Views:
    return Views(memoryview(bytearray(b"abcdefgh")), np.array([0, 3, 3, 8]), np.array([2, 3, 0, 0]))


def test_views_are_a_sequence_of_memoryviews(views: Views) -> None:
    assert len(views) == 4
    assert [bytes(view) for view in views] == [b"ab", b"def", b"", b""]
    assert bytes(views[1]) == bytes(views[-3]) == b"def"
    assert isinstance(views[0], memoryview)
    assert [bytes(view) for view in views[:2]] == [b"ab", b"def"]
    assert [bytes(view) for view in reversed(views)] == [b"", b"", b"def", b"ab"]
    assert repr(views) == "Views(n_views=4, n_bytes=5)"


@pytest.mark.parametrize("place", [4, -5])
def test_a_place_out_of_range_is_an_index_error(views: Views, place: int) -> None:
    with pytest.raises(IndexError):
        views[place]


def test_a_view_is_no_copy() -> None:
    held = bytearray(b"abcd")
    view = Views(memoryview(held), np.array([1]), np.array([2]))[0]
    held[1] = ord("x")
    assert bytes(view) == b"xc"
