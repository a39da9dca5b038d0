import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.convert.order import shuffled, spread

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
