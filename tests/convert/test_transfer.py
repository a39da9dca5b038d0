import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.convert.transfer import Progress, cut_batches


@given(st.lists(st.integers(1, 400_000), max_size=100))
def test_batches_keep_the_order_and_are_small(sizes: list[int]) -> None:
    records = np.arange(len(sizes))[::-1].astype(np.int64)
    size_of = dict(zip(records.tolist(), sizes, strict=True))
    batches = [batch.tolist() for batch in cut_batches(records, np.array(sizes, np.int64))]
    assert [record for batch in batches for record in batch] == records.tolist()
    for batch in batches:
        assert 1 <= len(batch) <= 32
        assert len(batch) == 1 or sum(map(size_of.__getitem__, batch)) < (1 << 20) + 400_000


def test_progress_ends_with_the_whole_count() -> None:
    told: list[tuple[int, int]] = []
    progress = Progress(lambda records, n_bytes: told.append((records, n_bytes)))
    for _ in range(1000):
        progress.add(1, 10)
    progress.finish()
    assert told[-1] == (1000, 10_000)
    assert len(told) < 100


def test_progress_without_a_callback_is_silent() -> None:
    progress = Progress(None)
    progress.add(1, 10)
    progress.finish()
