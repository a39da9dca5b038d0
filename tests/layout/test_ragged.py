import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.layout.ragged import copy_ranges, gather, ranges

RANGES = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 40)), max_size=60)


def as_arrays(pairs):
    return np.array(pairs, np.int64).reshape(-1, 2).T


@given(RANGES, st.integers(0, 3))
def test_ranges_are_gathered_end_to_end(pairs, seed):
    buffer = np.random.default_rng(seed).integers(0, 256, 340, np.uint8)
    expected = b"".join(buffer[start : start + size].tobytes() for start, size in pairs)
    assert gather(buffer, *as_arrays(pairs)).tobytes() == expected


def test_ranges_of_one_size_are_gathered_from_the_whole_buffer():
    buffer = np.arange(64, dtype=np.uint8)
    starts = np.array([56, 0, 3, 3])
    assert gather(buffer, starts, np.full(4, 8)).tobytes() == b"".join(
        bytes(range(at, at + 8)) for at in starts.tolist()
    )
    assert gather(buffer, starts, np.zeros(4, np.int64)).tobytes() == b""


@given(RANGES)
def test_the_numbers_of_ranges_are_counted_up(pairs):
    expected = [number for start, count in pairs for number in range(start, start + count)]
    assert ranges(*as_arrays(pairs)).tolist() == expected


@given(sizes=st.lists(st.integers(0, 30), max_size=40), seed=st.integers(0, 2**32))
def test_ranges_are_copied_and_nothing_else_is_touched(sizes: list[int], seed: int):
    rng = random.Random(seed)
    source = np.frombuffer(rng.randbytes(200), np.uint8)
    starts = np.array([rng.randint(0, 200 - size) for size in sizes], np.int64)
    order = rng.sample(range(len(sizes)), len(sizes))
    goals = np.zeros(len(sizes), np.int64)
    at = 3
    for number in order:
        goals[number] = at
        at += sizes[number] + rng.randint(0, 2)
    expected = bytearray(at + 2)
    for number, size in enumerate(sizes):
        expected[goals[number] : goals[number] + size] = source[starts[number] : starts[number] + size].tobytes()
    target = np.zeros(len(expected), np.uint8)
    copy_ranges(target, goals, source, starts, np.array(sizes, np.int64))
    assert target.tobytes() == bytes(expected)


def test_large_ranges_are_copied_too() -> None:
    source = np.arange(40_000, dtype=np.uint8)
    target = np.zeros(30_007, np.uint8)
    copy_ranges(target, np.array([15_000, 0, 30_000]), source, np.array([7, 20_000, 3]), np.array([15_000, 15_000, 7]))
    assert target.tolist() == source[20_000:35_000].tolist() + source[7:15_007].tolist() + source[3:10].tolist()
