from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.convert.stratify import PageNeeds, cut_and_shuffle, interleaved, shuffled_within

seeds = st.integers(0, 2**64 - 1)
needs = st.lists(
    st.tuples(st.just(0), st.integers(10, 2000)) | st.tuples(st.integers(1, 9), st.integers(20, 520)), max_size=120
)


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


@given(needs, st.integers(1, 20), seeds)
def test_every_partition_fits_unless_it_is_one_record(
    sizes: list[tuple[int, int]], partition_pages: int, seed: int
) -> None:
    pages, node_sizes = (np.array([size[i] for size in sizes], np.int64) for i in (0, 1))
    held = PageNeeds(pages, node_sizes, 4096)
    order, bounds = cut_and_shuffle(held, partition_pages=partition_pages, seed=seed)
    assert bounds[0] == 0
    assert bounds[-1] == len(sizes)
    for start, stop in pairwise(bounds.tolist()):
        assert np.array_equal(np.sort(order[start:stop]), np.arange(start, stop))
        assert stop > start
        assert stop == start + 1 or held.count(order[start:stop]) <= partition_pages


def test_partitions_are_nearly_full() -> None:
    rng = np.random.default_rng(0)
    held = PageNeeds(rng.integers(1, 40, 5000), rng.integers(20, 520, 5000), 4096)
    order, bounds = cut_and_shuffle(held, partition_pages=400, seed=0)
    counts = [held.count(order[start:stop]) for start, stop in pairwise(bounds.tolist())]
    assert np.mean(counts[:-1]) > 0.95 * 400
