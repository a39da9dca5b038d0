from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tools.compare.data import DataSet, Synthetic
from tools.compare.digests import Expected, Finding, Tally, expect, judge

_DIGESTS = st.lists(st.integers(0, 20), max_size=30)


def _expected(digests: list[int]) -> Expected:
    return Expected(np.sort(np.array(digests, np.uint64)), 0)


@given(wanted=_DIGESTS, seed=st.integers(0, 5), n_ranks=st.integers(1, 4))
def test_what_was_given_once_in_any_order_by_any_ranks_has_no_fault(wanted: list[int], seed: int, n_ranks: int) -> None:
    given_ = np.random.default_rng(seed).permutation(np.array(wanted, np.uint64))
    assert judge(_expected(wanted), np.array_split(given_, n_ranks)) == Finding(0, 0, 0)


@given(wanted=_DIGESTS, given_=_DIGESTS)
def test_what_is_missing_foreign_and_repeated_is_counted_as_a_bag_would(wanted: list[int], given_: list[int]) -> None:
    finding = judge(_expected(wanted), [np.array(given_, np.uint64)])
    known = [one for one in given_ if one in wanted]
    assert finding.n_missing == sum(max(0, wanted.count(one) - given_.count(one)) for one in set(wanted))
    assert finding.n_foreign == len(given_) - len(known)
    assert finding.n_repeated == sum(max(0, known.count(one) - wanted.count(one)) for one in set(known))
    assert (finding.reason is None) == (not finding.n_missing and not finding.n_foreign)


def test_two_records_swapped_for_a_third_and_its_copy_are_missed_though_exclusive_or_would_not_tell() -> None:
    finding = judge(_expected([1, 2, 5, 5]), [np.array([1, 2, 9, 9], np.uint64)])
    assert finding.reason == "expected every record, found 2 missing and 2 with other bytes"


def test_a_tally_takes_the_digest_of_every_byte() -> None:
    one, other = Tally(), Tally()
    one.add([b"abc", memoryview(b"defg")])
    other.add([b"abd", b"defg"])
    assert one.n_bytes == other.n_bytes == 7
    assert one.digests[1] == other.digests[1]
    assert one.digests[0] != other.digests[0]


def test_what_is_expected_is_worked_out_once_and_kept(tmp_path: Path) -> None:
    source = Synthetic(DataSet("tiny", 50, 0))
    made = expect(source, tmp_path / "data" / "tiny.npz")
    assert (made.n_records, made.n_bytes) == (50, 1000)

    class Unreadable:
        folder = None

        def __len__(self) -> int:
            return 50

        def __iter__(self) -> None:
            raise AssertionError("read again")

        def names(self) -> list[tuple[str, int]]:
            return []

    kept = expect(Unreadable(), tmp_path / "data" / "tiny.npz")
    assert (kept.n_bytes, kept.xor) == (made.n_bytes, made.xor)
    assert np.array_equal(kept.digests, made.digests)
