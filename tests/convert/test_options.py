from typing import Any

import pytest

from tests.convert.defaults import options


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kind", "cifar"),
        ("order", "random"),
        ("value", "pickle"),
        ("key", "stem"),
        ("limit", 0),
        ("partition_size", -1),
        ("n_partitions", 0),
        ("align", 0),
    ],
)
def test_an_option_out_of_range_is_named(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name}: expected .* found"):
        options(**{name: value})


def test_partitions_are_cut_by_size_or_by_number() -> None:
    with pytest.raises(ValueError, match="partition_size, n_partitions: expected one of the two"):
        options(partition_size=1 << 20, n_partitions=4)


def test_the_description_names_what_shaped_the_database_and_no_more() -> None:
    assert options(limit=5).description() == {
        "kind": "folder",
        "order": "shuffle",
        "seed": 0,
        "value": "datum",
        "key": "number",
        "limit": 5,
    }


def test_a_datum_holds_less_than_a_raw_value() -> None:
    assert options().max_input_size == (1 << 31) - 1 - 64
    assert options(value="raw").max_input_size == (1 << 32) - 1
