import hashlib
import json
import re
from itertools import permutations
from math import factorial, sqrt
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lmdbio.layout.permutation import Permutation

WORD = (1 << 64) - 1
DOCS = Path(__file__).parents[2] / "docs"


def reference(position: int, n: int, seed: int, purpose: str, numbers: tuple[int, ...]) -> int:
    """Element at a position, one by one in plain integers, as docs/format.md says."""
    bits = max(0, n - 1).bit_length()
    if bits == 0:
        return position
    high_bits, low_bits = bits - bits // 2, bits // 2
    name = f"lmdbio permutation\n{purpose}\n{seed}\n{','.join(map(str, numbers))}\n"

    def word(i: int) -> int:
        digest = hashlib.blake2b(f"{name}{i // 8}".encode()).digest()
        return int.from_bytes(digest[i % 8 * 8 :][:8], "little")

    while True:
        high, low = position >> low_bits, position & ((1 << low_bits) - 1)
        for number in range(24 if n <= 64 else 8):
            source, width = (low, high_bits) if number % 2 == 0 else (high, low_bits)
            mixed = (source * (word(3 * number) | 1) + word(3 * number + 1)) & WORD
            mixed ^= mixed >> 32
            mixed = (mixed * (word(3 * number + 2) | 1) & WORD) >> (64 - width)
            if number % 2 == 0:
                high ^= mixed
            else:
                low ^= mixed
        position = high << low_bits | low
        if position < n:
            return position


SIZES = st.integers(1, 300) | st.integers(1, 1 << 20) | st.integers(1, 1 << 62)
SEEDS = st.integers(-(1 << 70), 1 << 70)


@given(SIZES, SEEDS, st.sampled_from(["layout", "epoch"]), st.lists(st.integers(0, 1 << 40), max_size=3), st.data())
def test_any_element_equals_the_scalar_reference(
    n: int, seed: int, purpose: str, numbers: list[int], data: st.DataObject
) -> None:
    positions = data.draw(st.lists(st.integers(0, n - 1) | st.sampled_from([0, n - 1]), max_size=8))
    elements = Permutation(n, seed=seed, purpose=purpose, numbers=tuple(numbers))(np.array(positions, np.int64))
    assert elements.dtype == np.int64
    assert elements.tolist() == [reference(position, n, seed, purpose, tuple(numbers)) for position in positions]


@given(st.integers(0, 2000), SEEDS)
def test_it_is_a_bijection_for_every_n(n: int, seed: int) -> None:
    elements = Permutation(n, seed=seed, purpose="test")(np.arange(n))
    assert sorted(elements.tolist()) == list(range(n))


@pytest.mark.parametrize("n", [*range(140), 255, 256, 257, 65535, 65536, 65537])
def test_it_is_a_bijection_around_powers_of_two(n: int) -> None:
    elements = Permutation(n, seed=3, purpose="test")(np.arange(n))
    assert np.array_equal(np.sort(elements), np.arange(n))


@pytest.mark.parametrize("n", [2, 3, 5, 64, 65, 600, 1024, 1025, 30_000, 100_003])
def test_the_whole_at_once_equals_single_elements(n: int) -> None:
    drawn = Permutation(n, seed=-5, purpose="test", numbers=(1,))
    whole = drawn(np.arange(n))
    some = np.random.default_rng(0).integers(0, n, 200)
    assert [int(drawn(np.array([position]))[0]) for position in some] == whole[some].tolist()


def test_the_table_is_used_for_whole_groups_and_not_for_huge_domains(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []
    by_table = Permutation._permute_by_table

    def spy(self: Permutation, piece: NDArray[np.uint64]) -> None:
        used.append(len(piece))
        by_table(self, piece)

    monkeypatch.setattr(Permutation, "_permute_by_table", spy)
    Permutation(600, seed=0, purpose="test")(np.arange(600))
    Permutation(1 << 40, seed=0, purpose="test")(np.arange(600))
    assert used == [600]


def test_positions_keep_their_shape_and_are_not_changed() -> None:
    positions = np.arange(12)[::-1].reshape(3, 4)
    elements = Permutation(12, seed=0, purpose="test")(positions)
    assert elements.shape == (3, 4)
    assert positions[0, 0] == 11
    assert Permutation(1, seed=0, purpose="test")(np.zeros(2, np.int64)).tolist() == [0, 0]
    assert Permutation(0, seed=0, purpose="test")(np.empty(0, np.int64)).tolist() == []


def test_positions_outside_are_an_index_error() -> None:
    for position in (-1, 5):
        with pytest.raises(IndexError, match="expected 0 to 4"):
            Permutation(5, seed=0, purpose="test")(np.array([0, position]))
    with pytest.raises(IndexError):
        Permutation(0, seed=0, purpose="test")(np.array([0]))
    with pytest.raises(ValueError, match="n: expected 0 to 2\\^62, found -1"):
        Permutation(-1, seed=0, purpose="test")


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_every_permutation_of_a_few_elements_is_about_equally_likely(n: int) -> None:
    kinds = dict.fromkeys(permutations(range(n)), 0)
    n_seeds = 4000
    for seed in range(n_seeds):
        kinds[tuple(Permutation(n, seed=seed, purpose="test")(np.arange(n)).tolist())] += 1
    expected = n_seeds / factorial(n)
    chi_square = sum((count - expected) ** 2 / expected for count in kinds.values())
    freedom = factorial(n) - 1
    assert chi_square < freedom + 4 * sqrt(2 * freedom)


@pytest.mark.parametrize("n", [61, 1000, 40_000])
def test_it_looks_like_a_random_permutation(n: int) -> None:
    fixed_points, correlations, distances = [], [], []
    positions = np.arange(n)
    n_seeds = 300
    for seed in range(n_seeds):
        elements = Permutation(n, seed=seed, purpose="test")(positions)
        fixed_points.append(np.count_nonzero(elements == positions))
        correlations.append(np.corrcoef(positions, elements)[0, 1] * sqrt(n - 1))  # mean 0, variance 1
        distances.append(np.abs(np.diff(elements)).mean() / ((n + 1) / 3))  # mean 1
    assert abs(np.mean(fixed_points) - 1) < 4 / sqrt(n_seeds)
    assert abs(np.mean(correlations)) < 4 / sqrt(n_seeds)
    assert 0.8 < np.std(correlations) < 1.2
    assert abs(np.mean(distances) - 1) < 4 / sqrt(n_seeds * n)


def test_every_part_of_the_key_changes_the_permutation() -> None:
    positions = np.arange(1000)
    drawn = [
        Permutation(1000, seed=0, purpose="test"),
        Permutation(1000, seed=1, purpose="test"),
        Permutation(1000, seed=-1, purpose="test"),
        Permutation(1000, seed=0, purpose="other"),
        Permutation(1000, seed=0, purpose="test", numbers=(0,)),
        Permutation(1000, seed=0, purpose="test", numbers=(0, 0)),
        Permutation(1000, seed=0, purpose="test", numbers=(1, 0)),
    ]
    elements = [permutation(positions) for permutation in drawn]
    for i, one in enumerate(elements):
        for other in elements[:i]:
            assert np.count_nonzero(one == other) < 12


def test_numpy_integers_give_the_same_key() -> None:
    plain = Permutation(100, seed=7, purpose="test", numbers=(3,))
    numpy = Permutation(np.int64(100), seed=np.int32(7), purpose="test", numbers=(np.uint8(3),))  # type: ignore[arg-type]
    assert np.array_equal(plain(np.arange(100)), numpy(np.arange(100)))


@pytest.mark.skipif(not DOCS.is_dir(), reason="the documents are not beside the tests")
def test_the_documented_vectors_are_what_is_drawn() -> None:
    text = "".join(path.read_text() for path in sorted(DOCS.glob("*.md")))
    vectors = [
        json.loads(line) for line in "".join(re.findall(r"```jsonl permutation\n(.*?)```", text, re.S)).splitlines()
    ]
    assert len(vectors) >= 10
    for vector in vectors:
        key = {"seed": vector["seed"], "purpose": vector["purpose"], "numbers": tuple(vector["numbers"])}
        drawn = Permutation(vector["n"], **key)
        assert drawn(np.array(vector["positions"])).tolist() == vector["elements"]
        assert [reference(position, vector["n"], **key) for position in vector["positions"]] == vector["elements"]
    digest = hashlib.blake2b(b"lmdbio permutation\nlayout\n0\n\n0").digest()
    assert digest[:8].hex() in text
    assert f"W0 = {int.from_bytes(digest[:8], 'little'):#x}" in text
