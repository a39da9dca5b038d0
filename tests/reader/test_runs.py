import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.reader.nodes import Nodes
from lmdbio.reader.runs import Run, next_stride, plan_pass, plan_runs
from lmdbio.reader.ways import State, choose_ways

TWO_NODES = Nodes((0, 0, 1, 1))


def _plan(
    states: list[State], *, counts: tuple[int, ...] = (1, 2), rounds: int = 3, limit: float | None = None
) -> list[Run]:
    return plan_runs(
        states=states, node_counts=counts, nodes=TWO_NODES, has_direct=True, rounds=rounds, time_limit_s=limit
    )


def test_every_way_is_read_once_a_round_by_every_number_of_nodes() -> None:
    runs = _plan(["warm", "cold"])
    assert len(set(runs)) == len(runs)
    for state in ("warm", "cold"):
        for number in range(3):
            for n_nodes in (1, 2):
                ways = {run.way for run in runs if (run.state, run.round, run.n_nodes) == (state, number, n_nodes)}
                assert ways == set(choose_ways(state, n_ranks=2 * n_nodes, has_direct=True))


def test_a_state_is_done_with_before_the_next_and_a_round_too() -> None:
    runs = _plan(["warm", "cold"])
    assert runs == sorted(runs, key=lambda run: (run.state == "cold", run.round, run.n_nodes))


def test_every_second_round_goes_the_other_way_round() -> None:
    by_round = [[run.way for run in _plan(["cold"], counts=(2,)) if run.round == number] for number in range(3)]
    assert by_round[0] == by_round[1][::-1] == by_round[2]


@given(limit=st.floats(60, 10_000), rounds=st.integers(1, 4))
def test_reading_takes_less_than_the_limit(limit: float, rounds: int) -> None:
    runs = _plan(["warm", "cold"], rounds=rounds, limit=limit)
    reading = sum(run.seconds * (2 if run.state == "warm" else 1) for run in runs)
    assert 0.4 * limit < reading < 0.8 * limit


def test_without_a_limit_many_runs_take_longer_than_a_minute_rather_than_too_short_each() -> None:
    assert sum(run.seconds for run in _plan(["cold"], rounds=1)) < 60
    assert _plan(["cold"], rounds=30)[0].seconds == 0.25


def test_a_limit_too_short_for_the_runs_is_refused_with_one_that_is_not() -> None:
    with pytest.raises(ValueError, match=r"expected (\d+) s or more for 90 runs, found 1 s") as caught:
        _plan(["cold"], limit=1)
    least = int(str(caught.value).split("expected ")[1].split()[0])
    assert _plan(["cold"], limit=least)


@given(done=st.integers(0, 10**9), elapsed=st.floats(0, 100), budget=st.floats(0.1, 100))
def test_a_stride_grows_but_not_past_the_time(done: int, elapsed: float, budget: float) -> None:
    stride = next_stride(done, elapsed, budget_s=budget)
    assert 1 <= stride <= max(1, 3 * done)
    if done and elapsed and stride > 1:
        assert elapsed + stride * elapsed / done <= budget * 1.0001


@given(period=st.integers(1, 1000), n_steps=st.integers(1, 5000))
def test_a_pass_has_as_many_steps_as_make_it_steady(period: int, n_steps: int) -> None:
    plan = plan_pass(period, n_steps)
    assert 0 <= plan.lead < plan.end <= n_steps
    assert 1 <= plan.least <= plan.end - plan.lead
    if plan.lead:  # what was read at once for the last steps that count was waited for once, and not more often
        assert plan.least >= period
        assert plan.end <= n_steps - period
    elif period > 1:
        assert plan.least == plan.end == n_steps
