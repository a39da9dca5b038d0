"""Runs: greedy, canonical, found without a loop over records; looked up without being expanded; checked before use."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lmdbio.layout import extents
from lmdbio.layout.extents import Extents, Runs, find_runs, pack_sizes, progression_starts, sizes_at

WRAP = 1 << 64


def greedy(values: list[int], begins: list[bool]) -> list[int]:
    """Return what progression_starts promises, one element at a time."""
    starts, at = [], 0
    while at < len(values):
        starts.append(at)
        end = at + 1
        while end < len(values) and not begins[end]:
            if end - at > 1 and (values[end] - values[end - 1] - values[at + 1] + values[at]) % WRAP:
                break
            end += 1
        at = end
    return starts


@given(st.lists(st.tuples(st.sampled_from([1, 1, 1, 2, 5, -1]), st.sampled_from([False] * 5 + [True])), max_size=60))
def test_progressions_are_those_of_a_greedy_walk(steps: list[tuple[int, bool]]) -> None:
    values = [sum(step for step, _ in steps[: i + 1]) % WRAP for i in range(len(steps))]
    begins = [begin for _, begin in steps]
    found = progression_starts(np.array(values, np.uint64), np.array(begins, np.bool_))
    assert greedy(values, begins) == found.tolist()


@given(
    st.lists(st.tuples(st.sampled_from([1, 1, 1, 2, 5, -1]), st.sampled_from([False] * 5 + [True])), max_size=60),
    st.integers(2, 9),
)
def test_progressions_are_the_same_looked_for_piece_by_piece(steps: list[tuple[int, bool]], piece: int) -> None:
    values = [sum(step for step, _ in steps[: i + 1]) % WRAP for i in range(len(steps))]
    begins = [begin for _, begin in steps]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extents, "_STARTS_AT_A_TIME", piece)
        found = extents._starts_in_pieces(np.array(values, np.uint64), np.array(begins, np.bool_))
    assert greedy(values, begins) == found.tolist()


def blocks() -> st.SearchStrategy[list[int]]:
    """Offsets in blocks of regular steps, as partitions, leaves and deletions make them."""
    block = st.tuples(st.integers(0, 5), st.integers(1, 7), st.sampled_from([4096, 8192, -40, 1]), st.integers(1, 4))

    def expand(parts: list[tuple[int, int, int, int]]) -> list[int]:
        offsets, at = [], 1 << 20
        for gap, count, stride, repeats in parts:
            for _ in range(repeats):
                at += gap * 4096
                offsets += [at + i * stride for i in range(count)]
                at += 65536
        return offsets

    return st.lists(block, max_size=12).map(expand)


@given(blocks())
def test_runs_give_back_the_offsets_in_any_order(offsets: list[int]) -> None:
    runs = Runs(find_runs(np.array(offsets, np.uint64)))
    assert len(offsets) == len(runs)
    records = np.random.default_rng(1).permutation(len(offsets))
    assert np.array(offsets, np.uint64)[records].tolist() == runs.at(records).tolist()
    assert runs.problem(len(offsets), max(offsets, default=0)) is None


def test_partitions_of_equal_values_are_one_run_of_runs() -> None:
    partition, place = np.divmod(np.arange(1_000_000), 4000)
    offsets = (1 << 20) + partition * (16 << 20) + place * 4096 + 16
    assert find_runs(offsets.astype(np.uint64)).tolist() == [[(1 << 20) + 16, 4000, 4096, 250, 16 << 20]]


def test_values_that_descend_within_leaves_are_one_run_of_runs() -> None:
    leaf, slot = np.divmod(np.arange(400), 40)
    offsets = (leaf + 3) * 4096 - slot * 100 - 90
    assert find_runs(offsets.astype(np.uint64)).tolist() == [[3 * 4096 - 90, 40, WRAP - 100, 10, 4096]]


def test_irregular_offsets_stay_an_array_and_regular_ones_do_not() -> None:
    irregular = np.cumsum(np.random.default_rng(0).integers(1, 50, 1000)).astype(np.uint64)
    assert isinstance(Extents.pack(irregular, np.ones(1000, np.int64)).offsets, np.ndarray)
    assert isinstance(Extents.pack(np.arange(1000, dtype=np.uint64), np.ones(1000, np.int64)).offsets, Runs)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_records_are_packed_and_found(n: int) -> None:
    offsets = np.array([4112, 16][:n], np.uint64)
    extents = Extents.pack(offsets, np.full(n, 5))
    assert extents.problem(n, 8192) is None
    assert (offsets.tolist(), [5] * n) == tuple(array.tolist() for array in extents.at(np.arange(n)))


@given(st.lists(st.integers(0, (1 << 33)), max_size=20), st.booleans())
def test_sizes_come_back_whatever_their_width(sizes: list[int], equal: bool) -> None:
    given_sizes = np.array(sizes[:1] * len(sizes) if equal else sizes, np.int64)
    packed = pack_sizes(given_sizes)
    assert given_sizes.tolist() == sizes_at(packed, np.arange(len(sizes))).tolist()
    assert packed.dtype == ("<u8" if max(given_sizes, default=0) >> 32 else "<u4")
    assert len(packed) <= 1 or len(set(given_sizes.tolist())) > 1


BAD_ROWS = {
    "too few": [[16, 3, 10, 2, 100]],
    "too many": [[16, 4, 10, 3, 100]],
    "no count": [[16, 0, 10, 2, 100], [16, 10, 10, 1, 0]],
    "no repeat": [[16, 10, 10, 0, 100], [16, 10, 10, 1, 0]],
    "product wraps to ten": [[16, 1 << 63, 0, 2, 0], [16, 10, 10, 1, 0]],
    "sum wraps to ten": [[16, 10, 1, 1, 0]] + [[16, 1 << 62, 0, 1, 0]] * 4,
    "first beyond": [[1001, 10, 0, 1, 0]],
    "stride beyond": [[16, 10, 200, 1, 0]],
    "stride wraps": [[16, 10, (1 << 64) // 9 + 1, 1, 0]],
    "descends below": [[16, 10, WRAP - 2, 1, 0]],
    "step beyond": [[16, 5, 1, 2, 990]],
    "step wraps": [[16, 2, 1, 5, (1 << 62)]],
    "both add up beyond": [[400, 5, 100, 2, 300]],
}


@pytest.mark.parametrize("rows", BAD_ROWS.values(), ids=BAD_ROWS.keys())
def test_rows_that_say_what_cannot_be_are_refused(rows: list[list[int]]) -> None:
    runs = Runs(np.array(rows, np.uint64))
    assert (runs.problem(10, 1000) or "").startswith("expected runs of ")


def test_a_claim_of_ever_so_many_records_costs_nothing() -> None:
    n = 1 << 59
    runs = Runs(np.array([[16, n, 1, 1, 0]], np.uint64))
    extents = Extents(runs, np.array([1], np.uint32))
    assert extents.problem(n, 1 << 60) is None
    assert extents.problem(n, 1 << 61) is not None
    assert [n + 15] == runs.at(np.array([n - 1])).tolist()


@pytest.mark.parametrize(
    ("offsets", "lengths"),
    [
        (np.array([16, 990], np.uint64), np.array([1, 11], np.uint32)),
        (np.array([16, 990], np.uint64), np.array([11], np.uint32)),
        (np.array([16, WRAP - 5], np.uint64), np.array([1, 10], np.uint32)),
        (np.array([16, 20], np.uint64), np.array([1, WRAP - 10], np.uint64)),
        (Runs(np.array([[16, 2, 974, 1, 0]], np.uint64)), np.array([11], np.uint32)),
        (Runs(np.array([[16, 2, 974, 1, 0]], np.uint64)), np.array([1, 11], np.uint32)),
        (Runs(np.array([[16, 2, 974, 1, 0]], np.uint64)), np.array([WRAP - 1], np.uint64)),
    ],
)
def test_an_extent_beyond_the_file_is_refused(offsets: Runs | NDArray[np.uint64], lengths: NDArray[np.uint64]) -> None:
    assert (Extents(offsets, lengths).problem(2, 1000) or "").startswith("expected ")
