"""Options out of their range are refused by name."""

import pytest

from lmdbio.reader import ReadOptions


def test_the_defaults_stand() -> None:
    assert ReadOptions().depth == 8
    assert ReadOptions().gap == 64 << 10


@pytest.mark.parametrize(
    ("name", "value"), [("depth", 0), ("gap", -1), ("read_size", 100), ("coalesce", 0), ("depth", "8"), ("gap", 1.5)]
)
def test_an_option_out_of_range_is_named(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{name}: expected an integer of at least"):
        ReadOptions(**{name: value})
