"""Without stored bounds a partition begins where values enter another stretch of the file."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.layout import partition_bounds
from lmdbio.layout.extents import Extents
from lmdbio.layout.partition_bounds import cut_partitions
from lmdbio.layout.pieces import pieces


@given(st.lists(st.integers(1, 100_000), unique=True, max_size=60), st.integers(1, 30_000), st.booleans())
def test_partitions_are_the_stretches_that_hold_values(offsets: list[int], size: int, key_order: bool) -> None:
    held = sorted(offsets) if key_order else offsets
    order = None if key_order else np.argsort(held)
    extents = Extents.pack(np.array(held, np.uint64), np.ones(len(held), np.int64))
    bounds = cut_partitions(extents, order, partition_size=size).tolist()
    assert bounds[0] == 0
    assert bounds[-1] == len(held)
    ascending = sorted(held)
    stretches = [{(offset - 1) // size for offset in ascending[a:b]} for a, b in pairwise(bounds)]
    assert all(len(stretch) == 1 for stretch in stretches)
    assert len(stretches) == len({(offset - 1) // size for offset in held})


def test_bounds_do_not_depend_on_how_many_records_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    offsets = np.cumsum(np.random.default_rng(0).integers(1, 5000, 1000)).astype(np.uint64)
    extents = Extents.pack(offsets, np.ones(1000, np.int64))
    whole = cut_partitions(extents, None, partition_size=10_000).tolist()
    monkeypatch.setattr(partition_bounds, "pieces", partial(pieces, size=7))
    assert whole == cut_partitions(extents, None, partition_size=10_000).tolist()


def test_an_empty_value_at_the_end_of_a_page_belongs_to_that_page() -> None:
    extents = Extents.pack(np.array([8192, 8180, 8208], np.uint64), np.array([0, 12, 5]))
    assert cut_partitions(extents, None, partition_size=8192).tolist() == [0, 2, 3]


def test_no_records_make_no_partitions() -> None:
    extents = Extents.pack(np.zeros(0, np.uint64), np.zeros(0, np.int64))
    assert cut_partitions(extents, None, partition_size=1).tolist() == [0]


def test_a_partition_of_no_bytes_is_refused() -> None:
    extents = Extents.pack(np.zeros(0, np.uint64), np.zeros(0, np.int64))
    with pytest.raises(ValueError, match="partition_size: expected 1 byte or more, found 0"):
        cut_partitions(extents, None, partition_size=0)
