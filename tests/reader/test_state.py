import json

import numpy as np
import pytest
import xxhash

from lmdbio.reader.state import State, hash_layout

FIELDS = {
    "version": 1, "fingerprint": "f" * 32, "layout": "0" * 32, "order": "block", "seed": 1 << 70, "streams": 8,
    "shuffle_window": 4, "epoch": 90, "position": 1_281_167,
}  # fmt: skip


def test_a_state_goes_through_json_and_is_small() -> None:
    text = json.dumps(State.from_fields(FIELDS).to_fields())
    assert json.loads(text) == FIELDS
    assert State.from_fields(json.loads(text)) == State.from_fields(FIELDS | {"new": "of a later version"})
    assert len(text) < 1024


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (None, "expected a mapping as state_dict\\(\\) gives, found NoneType"),
        ({}, "expected version 1, found None"),
        (FIELDS | {"version": 2}, "expected version 1, found 2: did another lmdbio save it"),
        ({name: value for name, value in FIELDS.items() if name != "position"}, "expected position, found none"),
        (FIELDS | {"position": -1}, "expected position to be 0 or more, found -1"),
        (FIELDS | {"epoch": 1.5}, "expected epoch to be int, found 1.5"),
        (FIELDS | {"epoch": 1 << 80}, "expected epoch to be 0 or more"),
        (FIELDS | {"seed": "7"}, "expected seed to be int, found '7'"),
        (FIELDS | {"fingerprint": 3}, "expected fingerprint to be str, found 3"),
        (FIELDS | {"order": None}, "expected order to be str, found None"),
    ],
)
def test_what_is_no_state_is_named(found: object, message: str) -> None:
    with pytest.raises(ValueError, match=f"state: {message}"):
        State.from_fields(found)  # type: ignore[arg-type]


def test_the_layouts_hash_is_of_little_endian_numbers_end_to_end() -> None:
    order, bounds = np.array([2, 0, 1]), np.array([0, 1, 3])
    assert hash_layout(order, bounds) == xxhash.xxh3_128_hexdigest(np.append(order, bounds).astype("<i8").tobytes())
    assert hash_layout(None, bounds) == xxhash.xxh3_128_hexdigest(bounds.astype("<i8").tobytes())
    assert hash_layout(order, bounds) == hash_layout(order.astype(">i8"), bounds)
