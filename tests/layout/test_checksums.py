"""Checksums of values are those of the bytes at their extents, however reads are cut."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from lmdbio.errors import ReadError
from lmdbio.layout import checksums
from lmdbio.layout.checksums import plan_groups, take_checksums
from lmdbio.layout.file import DataFile

EXTENTS = st.lists(st.tuples(st.integers(0, 9_000), st.integers(0, 3_000)), max_size=40)


@pytest.fixture(autouse=True)
def small_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksums, "READ_SIZE", 1000)
    monkeypatch.setattr(checksums, "_MAX_GAP", 100)


@given(extents=EXTENTS, in_order=st.booleans())
def test_checksums_are_those_of_the_bytes(tmp_path: Path, extents: list[tuple[int, int]], in_order: bool) -> None:
    content = np.random.default_rng(0).bytes(12_000)
    path = tmp_path / "data"
    path.write_bytes(content)
    if in_order:
        extents.sort()
    offsets = np.array([offset for offset, _ in extents], np.uint64)
    lengths = np.array([length for _, length in extents], np.int64)
    with DataFile(path) as file:
        found = [number for part in take_checksums(file, offsets, lengths) for number in part.tolist()]
    assert [xxh3_64_intdigest(content[offset : offset + length]) for offset, length in extents] == found


@given(EXTENTS)
def test_a_group_spans_less_than_two_reads_or_is_one_value(extents: list[tuple[int, int]]) -> None:
    starts = np.array([offset for offset, _ in extents], np.int64)
    lengths = np.array([length for _, length in extents], np.int64)
    bounds = plan_groups(starts.astype(np.uint64), lengths, read_size=1000, gap=100).tolist()
    assert (bounds[0], bounds[-1]) == (0, len(extents))
    for begin, end in pairwise(bounds):
        span = int((starts + lengths)[begin:end].max()) - int(starts[begin:end].min())
        assert end - begin == 1 or span < 2000
        assert begin < end


def test_near_values_are_read_together_and_far_ones_are_not() -> None:
    offsets = np.array([0, 100, 250, 600, 1100], np.uint64)
    assert plan_groups(offsets, np.full(5, 90), read_size=1000, gap=100).tolist() == [0, 3, 4, 5]


def test_an_extent_beyond_the_file_is_a_read_error(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"x" * 100)
    with DataFile(path) as file, pytest.raises(ReadError, match="found 100 before the file ends"):
        list(take_checksums(file, np.array([0, 50], np.uint64), np.array([100, 60])))
