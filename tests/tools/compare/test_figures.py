import pytest

from tools.compare.figures import best_of, ratio, rows_of
from tools.compare.results import Run


def run(contestant: str, number: int, seconds: float | None, *, way: str = "w", epoch: int = 0, **more: object) -> Run:
    facts = {"n_records": 10, "n_bytes": 10_000_000, "cpu_s": 0.5} | more
    return Run("q", number, contestant, way, "none", epoch=epoch, seconds=seconds, **facts)


def test_a_ratio_is_the_median_of_the_ratios_within_a_round_not_the_ratio_of_the_medians() -> None:
    # The machine was twice as slow in round 1, for both.
    runs = [run("a", number, seconds) for number, seconds in enumerate((1.0, 2.0, 1.1))]
    runs += [run("b", number, seconds) for number, seconds in enumerate((2.0, 4.0, 4.4))]
    a, b = rows_of(runs, "q")
    assert (a.contestant, b.contestant) == ("a", "b")
    assert ratio(a, b) == 2.0
    assert ratio(b, a) == 0.5
    assert b.median_s / a.median_s != 2.0


def test_only_rounds_that_both_ran_are_compared() -> None:
    a, b = rows_of([run("a", 0, 1.0), run("a", 1, 1.0), run("b", 1, 3.0), run("b", 2, 9.0)], "q")
    assert ratio(a, b) == 3.0
    alone, other = rows_of([run("a", 0, 1.0), run("b", 1, 2.0)], "q")
    assert ratio(alone, other) is None


def test_figures_are_medians_with_the_least_and_the_most() -> None:
    (row,) = rows_of([run("a", number, seconds) for number, seconds in enumerate((1.0, 5.0, 2.0))], "q")
    assert row.mb_per_s == (2.0, 5.0, 10.0)
    assert row.records_per_s == 5.0
    assert row.cpu_us == pytest.approx(50_000)


def test_the_second_epoch_is_told_apart() -> None:
    (row,) = rows_of([run("a", 0, 4.0), run("a", 0, 1.0, epoch=1)], "q")
    assert (row.seconds, row.second_epoch) == ({0: 4.0}, {0: 1.0})


def test_a_row_that_failed_once_has_no_figures_and_comes_last() -> None:
    runs = [run("a", 0, 0.1), Run("q", 1, "a", "w", "none", failure="expected every record"), run("b", 0, 9.0)]
    good, bad = rows_of(runs, "q")
    assert (good.contestant, bad.contestant, bad.failure) == ("b", "a", "expected every record")
    assert not bad.seconds
    assert ratio(good, bad) is None
    assert best_of([good, bad], "a") is None


def test_dd_at_equal_depth_is_not_taken_for_the_best_dd() -> None:
    rows = rows_of([run("dd", 0, 1.0, way="equal depth, 8 x 2 MiB"), run("dd", 0, 2.0, way="16 x 1 MiB")], "q")
    best, equal = best_of(rows, "dd"), best_of(rows, "dd", equal=True)
    assert best is not None
    assert equal is not None
    assert (best.median_s, equal.median_s) == (2.0, 1.0)
