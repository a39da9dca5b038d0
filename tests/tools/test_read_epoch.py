import numpy as np
import pytest

from tools.read_epoch import _summary


def test_records_read_once_are_summed_up_and_padding_is_told() -> None:
    assert _summary(5, np.array([4, 0, 2, 1, 3]), n_ranks=2) == "5 records, each read exactly once"
    padded = _summary(5, np.array([4, 0, 2, 1, 3, 4]), n_ranks=2)
    assert padded == "5 records, each read exactly once (1 again, to give every rank equally many)"


@pytest.mark.parametrize("read", [[0, 1, 2, 3, 3], [0, 1, 2, 3], [0, 1, 2, 3, 4, 0, 1], [0, 1, 2, 3, 4, 5]])
def test_a_record_missing_or_read_too_often_ends_with_an_error(read: list[int]) -> None:
    with pytest.raises(SystemExit, match="expected each of 5 records once"):
        _summary(5, np.array(read), n_ranks=2)
