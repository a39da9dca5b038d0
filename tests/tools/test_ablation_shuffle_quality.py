from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmdbio.layout import build_index
from lmdbio.layout.index import Index
from lmdbio.layout.writer import write_database
from tools.ablation.shuffle_quality import class_imbalance, displacement, quality_of, repeated_pairs, shuffle_quality

N_RECORDS = 20_000
BATCH_SIZE = 100


@pytest.fixture
def labels() -> np.ndarray:
    return np.arange(N_RECORDS) // (N_RECORDS // 50)  # 50 classes, sorted


def permutations(n_epochs: int, n_records: int = N_RECORDS) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    return [rng.permutation(n_records) for _ in range(n_epochs)]


def test_independent_permutations_are_as_random_by_every_number(labels: np.ndarray) -> None:
    found = quality_of(permutations(4), labels, batch_size=BATCH_SIZE)
    assert found.imbalance == pytest.approx(1, abs=0.03)
    assert found.displacement == pytest.approx(1 / 3, abs=0.005)
    assert found.repeats == pytest.approx(1, abs=0.05)


def test_a_constant_order_never_moves_a_record_and_repeats_every_pair(labels: np.ndarray) -> None:
    found = quality_of([np.arange(N_RECORDS)] * 3, labels, batch_size=BATCH_SIZE)
    assert found.displacement == 0
    assert found.repeats == pytest.approx(N_RECORDS / BATCH_SIZE, rel=0.02)


def test_batches_of_one_class_each_are_as_imbalanced_as_the_batch_is_large(labels: np.ndarray) -> None:
    assert class_imbalance(labels, batch_size=BATCH_SIZE) == pytest.approx(BATCH_SIZE, rel=0.02)


def test_batches_that_hold_each_class_in_its_share_have_no_imbalance(labels: np.ndarray) -> None:
    spread = labels.reshape(50, -1).T.reshape(-1)
    assert class_imbalance(spread, batch_size=BATCH_SIZE) == pytest.approx(0, abs=1e-12)


def test_imbalance_is_one_in_the_mean_over_all_orders_of_unequal_classes() -> None:
    labels = np.array([0] * 40 + [1] * 15 + [7] * 5)
    rng = np.random.default_rng(2)
    found = [class_imbalance(rng.permutation(labels), batch_size=12) for _ in range(4_000)]
    assert np.mean(found) == pytest.approx(1, abs=0.02)


def test_an_order_reversed_has_the_displacement_that_can_be_counted() -> None:
    assert displacement(np.array([0, 1, 2, 3]), np.array([3, 2, 1, 0])) == (3 + 1 + 1 + 3) / 4 / 4


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 40), st.integers(2, 40), st.randoms(use_true_random=False))
def test_repeated_pairs_are_those_that_counting_each_pair_finds(n: int, batch_size: int, rng) -> None:
    before, after = rng.sample(range(n), n), rng.sample(range(n), n)

    def together(order: list[int]) -> set[frozenset[int]]:
        batches = [order[begin : begin + batch_size] for begin in range(0, n, batch_size)]
        return {frozenset(pair) for batch in batches for pair in combinations(batch, 2)}

    met, again = together(before), together(before) & together(after)
    chance = len(met) / (n * (n - 1) / 2)
    found = repeated_pairs(np.array(before), np.array(after), batch_size=batch_size)
    assert found == pytest.approx(len(again) / len(met) / chance)


def test_what_cannot_be_told_is_refused(labels: np.ndarray) -> None:
    with pytest.raises(ValueError, match="expected 2 classes and 2 batches or more, found 1 and 200 of 100"):
        class_imbalance(np.zeros(N_RECORDS, np.int64), batch_size=BATCH_SIZE)
    with pytest.raises(ValueError, match="found 50 and 1 of 20000"):
        class_imbalance(labels, batch_size=N_RECORDS)
    with pytest.raises(ValueError, match="expected batches of 2 records or more, found 5 records, 1 in a batch"):
        repeated_pairs(np.arange(5), np.arange(5), batch_size=1)


def quality(index: Index, order: str):
    return shuffle_quality(index, order=order, seed=3, batch_size=50, streams=4, shuffle_window=2, n_epochs=3)


def test_global_order_is_as_random_wherever_records_lie(sorted_index: Index) -> None:
    found = quality(sorted_index, "global")
    assert found.imbalance == pytest.approx(1, abs=0.06)
    assert found.displacement == pytest.approx(1 / 3, abs=0.02)
    assert found.repeats == pytest.approx(1, abs=0.15)


def test_sequential_order_of_records_sorted_by_class_mixes_nothing(sorted_index: Index) -> None:
    found = quality(sorted_index, "sequential")
    assert found.imbalance > 20
    assert found.displacement == 0
    assert found.repeats > 50


def test_block_order_mixes_sorted_classes_less_than_shuffled_ones(sorted_index: Index, shuffled_index: Index) -> None:
    on_sorted, on_shuffled = quality(sorted_index, "block"), quality(shuffled_index, "block")
    assert on_sorted.imbalance > 2
    assert on_shuffled.imbalance == pytest.approx(1, abs=0.06)
    assert on_shuffled.displacement == pytest.approx(1 / 3, abs=0.04)


def test_an_index_without_labels_and_a_single_epoch_are_refused(sorted_index: Index, plain_index: Index) -> None:
    with pytest.raises(ValueError, match="expected an index with labels, found none"):
        quality(plain_index, "global")
    with pytest.raises(ValueError, match="n_epochs: expected 2 or more, found 1"):
        shuffle_quality(sorted_index, order="global", seed=0, batch_size=50, streams=4, shuffle_window=2, n_epochs=1)


@pytest.fixture(scope="module")
def sorted_index(made_index) -> Index:
    return made_index("sorted")


@pytest.fixture(scope="module")
def shuffled_index(made_index) -> Index:
    return made_index("shuffle")


@pytest.fixture(scope="module")
def plain_index(made_index) -> Index:
    return made_index("sorted", labelled=False)


@pytest.fixture(scope="module")
def made_index(tmp_path_factory: pytest.TempPathFactory):
    """Give indexes of 6,000 small records with 64 KiB partitions, sorted by class or shuffled."""
    labels = np.arange(6_000) // 300

    def make(order: str, *, labelled: bool = True) -> Index:
        numbers = np.arange(6_000) if order == "sorted" else np.random.default_rng(0).permutation(6_000)
        path = tmp_path_factory.mktemp(order) / "data.mdb"
        write_database(path, [(b"%08d" % place, b"x" * 100) for place in range(6_000)], partition_size=1 << 14)
        index = build_index(path, partition_size=1 << 14)
        return Index.make(
            fingerprint=index.fingerprint,
            page_size=index.page_size,
            keys=index.keys.expand(),
            key_order=index.key_order,
            offsets=index.offsets,
            lengths=index.lengths,
            layout_order=index.layout_order,
            partitions=index.partitions,
            labels=labels[numbers] if labelled else None,
        )

    return make
