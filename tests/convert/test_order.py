from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.convert.order import interleaved, shuffled, shuffled_within, spread

seeds = st.integers(0, 2**64 - 1)


@given(st.integers(0, 300), st.integers(1, 400) | st.none())
def test_a_limit_takes_records_evenly_spread(n_inputs: int, limit: int | None) -> None:
    taken = spread(n_inputs, limit)
    assert len(taken) == min(n_inputs, n_inputs if limit is None else limit)
    assert np.array_equal(taken, np.unique(taken))
    if len(taken) > 1:
        gaps = np.diff(np.append(taken, n_inputs))
        assert gaps.max() - gaps.min() <= 1


@given(st.integers(0, 500), seeds)
def test_a_shuffle_is_a_permutation_that_the_seed_decides(n_records: int, seed: int) -> None:
    order = shuffled(n_records, seed=seed)
    assert np.array_equal(np.sort(order), np.arange(n_records))
    assert np.array_equal(order, shuffled(n_records, seed=seed))


def test_seeds_shuffle_differently() -> None:
    assert not np.array_equal(shuffled(100, seed=0), shuffled(100, seed=1))


@given(st.lists(st.integers(0, 5), max_size=200), seeds)
def test_interleaving_is_a_permutation(labels: list[int], seed: int) -> None:
    order = interleaved(np.array(labels, np.int64), seed=seed)
    assert np.array_equal(np.sort(order), np.arange(len(labels)))


@given(st.lists(st.integers(20, 60), min_size=1, max_size=6), seeds, st.integers(1, 50))
def test_every_stretch_holds_each_class_within_two_of_its_share(counts: list[int], seed: int, size: int) -> None:
    labels = np.repeat(np.arange(len(counts)), counts)
    found = labels[interleaved(labels, seed=seed)]
    for start in range(0, len(found), size):
        stretch = found[start : start + size]
        share = np.array(counts) * len(stretch) / len(labels)
        assert np.all(np.abs(np.bincount(stretch, minlength=len(counts)) - share) <= 2)


def test_the_records_of_a_class_are_shuffled_within_it() -> None:
    order = interleaved(np.zeros(50, np.int64), seed=0)
    assert not np.array_equal(order, np.arange(50))


@given(st.lists(st.integers(0, 20), max_size=8), seeds)
def test_shuffling_within_partitions_keeps_each_partitions_records(sizes: list[int], seed: int) -> None:
    bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    order = np.arange(bounds[-1], dtype=np.int64)[::-1].copy()
    found = shuffled_within(order, bounds, seed=seed)
    for start, stop in pairwise(bounds.tolist()):
        assert np.array_equal(np.sort(found[start:stop]), np.sort(order[start:stop]))
