"""Ranges are copied to their places whatever their number, size and order."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.reader.gather import copy_ranges


@given(st.lists(st.integers(0, 50), max_size=20), st.booleans(), st.randoms(use_true_random=False))
def test_every_range_is_copied_to_its_place(sizes: list[int], is_equal: bool, random) -> None:
    lengths = np.array([sizes[0]] * len(sizes) if sizes and is_equal else sizes, np.int64)
    source = np.random.default_rng(0).integers(1, 256, 400, np.uint8)
    starts = np.array([random.randrange(400 - int(length)) for length in lengths], np.int64)
    order = np.array(random.sample(range(len(lengths)), len(lengths)), np.int64)
    places = np.zeros(len(lengths), np.int64)
    places[order] = np.cumsum(lengths[order]) - lengths[order]
    target = np.zeros(int(lengths.sum()), np.uint8)
    copy_ranges(source, starts, target, places, lengths)
    for start, place, length in zip(starts, places, lengths, strict=True):
        assert target[place : place + length].tolist() == source[start : start + length].tolist()


def test_large_equal_ranges_are_copied_one_by_one() -> None:
    source = np.arange(40_000, dtype=np.uint8)
    target = np.zeros(30_000, np.uint8)
    copy_ranges(source, np.array([7, 20_000]), target, np.array([15_000, 0]), np.array([15_000, 15_000]))
    assert target.tolist() == source[20_000:35_000].tolist() + source[7:15_007].tolist()
