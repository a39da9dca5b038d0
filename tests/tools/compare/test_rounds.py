import time

from hypothesis import given
from hypothesis import strategies as st

from tools.compare.rounds import Clock, order_of


@given(n_entrants=st.integers(0, 9), number=st.integers(0, 40))
def test_every_entrant_runs_once_a_round(n_entrants: int, number: int) -> None:
    assert sorted(order_of(range(n_entrants), number=number)) == list(range(n_entrants))


@given(n_entrants=st.integers(2, 9), number=st.integers(0, 20))
def test_each_second_round_runs_backwards_so_that_no_two_always_follow_each_other(n_entrants: int, number: int) -> None:
    forwards = order_of(range(n_entrants), number=2 * number)
    assert order_of(range(n_entrants), number=2 * number + 1) == forwards[::-1]
    assert order_of(range(n_entrants), number=2 * number + 2) != forwards


def test_a_round_that_would_not_end_in_time_is_not_begun() -> None:
    clock = Clock(10, 5.0, begun=time.monotonic())
    assert clock.has_time_for("a")
    clock.took("a", 60.0, n_runs=2)
    assert not clock.has_time_for("a")
    assert clock.has_time_for("b")
    assert Clock(10, None).has_time_for("a")
    assert not Clock(10, 5.0, begun=time.monotonic() - 6).has_time_for("b")


def test_a_stage_gets_no_more_than_its_share_of_the_time_but_always_a_first_round() -> None:
    clock = Clock(100, 100.0, begun=time.monotonic())
    clock.begin_stage(10)
    assert clock.has_time_for("a")
    clock.took("a", 20.0, n_runs=1)
    assert not clock.has_time_for("a")  # its stage has 10 of the 100 seconds
    clock.begin_stage(99)
    assert clock.has_time_for("a")
