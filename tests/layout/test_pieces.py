import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.layout.pieces import PIECE, counts_up, pieces


@given(st.integers(0, 100), st.integers(1, 12))
def test_pieces_hold_every_record_once_and_are_bounded(n_records: int, size: int) -> None:
    found = [range(n_records)[piece] for piece in pieces(n_records, size=size)]
    assert [number for piece in found for number in piece] == list(range(n_records))
    assert all(len(piece) == size for piece in found[:-1])


def test_numbers_that_count_up_are_told_from_others() -> None:
    numbers = np.arange(PIECE + 2)
    assert counts_up(numbers, PIECE + 2)
    assert not counts_up(numbers, PIECE + 3)
    numbers[[-1, -2]] = numbers[[-2, -1]]
    assert not counts_up(numbers, PIECE + 2)
