import os
from collections.abc import Callable

import pytest

from lmdbio.convert import gate
from lmdbio.convert.gate import Gate
from tests.layout.crowd import Crowd

FEW, MOST = 2, 5
PAUSE = gate._CLOSE_AFTER


@pytest.fixture
def crowd(monkeypatch: pytest.MonkeyPatch) -> Crowd:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(FEW)))
    return Crowd(monkeypatch, gate)


def let_in(subject: Gate) -> Callable[[Callable[[], None]], None]:
    """Return what a thread does that goes through the gate."""

    def go(inside: Callable[[], None]) -> None:
        with subject.turn():
            inside()

    return go


def n_let_in(subject: Gate, crowd: Crowd, n_threads: int = MOST) -> int:
    """Return how many of some threads are inside at the same time."""
    with crowd.send([let_in(subject)] * n_threads):
        return len(crowd.inside)


def take_turns(subject: Gate, n_turns: int, *, waits: bool = False) -> None:
    for _ in range(n_turns):
        with subject.turn():
            if waits:
                subject.open()


def test_few_are_let_in_at_first_and_all_get_their_turn(crowd: Crowd) -> None:
    subject = Gate(MOST)
    with crowd.send([let_in(subject)] * MOST):
        assert len(crowd.inside) == FEW
    assert sorted(crowd.inside) == list(range(MOST))


@pytest.mark.parametrize("most", [1, FEW, MOST])
def test_no_more_than_the_most_are_ever_let_in(most: int, crowd: Crowd) -> None:
    subject = Gate(most)
    assert n_let_in(subject, crowd, MOST + 1) == min(most, FEW)
    subject.open()
    assert n_let_in(subject, crowd, MOST + 1) == most


def test_all_are_let_in_once_a_read_waits(crowd: Crowd) -> None:
    subject = Gate(MOST)
    take_turns(subject, 1, waits=True)
    assert n_let_in(subject, crowd) == MOST


def test_those_that_wait_already_are_let_in_once_a_read_waits(crowd: Crowd) -> None:
    subject = Gate(MOST)
    with crowd.send([let_in(subject)] * MOST):
        assert len(crowd.inside) == FEW
        subject.open()
        crowd.settle(MOST - FEW)
        assert len(crowd.inside) == MOST


def test_few_are_let_in_again_after_turns_without_a_wait(crowd: Crowd) -> None:
    subject = Gate(MOST)
    take_turns(subject, 1, waits=True)
    take_turns(subject, PAUSE)
    assert n_let_in(subject, crowd) == FEW


@pytest.mark.parametrize("n_cached", [0, PAUSE - MOST])
def test_all_are_let_in_as_long_as_a_read_waits_now_and_then(n_cached: int, crowd: Crowd) -> None:
    subject = Gate(MOST)
    for _ in range(10):
        take_turns(subject, 1, waits=True)
        take_turns(subject, n_cached)
    assert n_let_in(subject, crowd) == MOST


def test_it_opens_again_after_it_closed(crowd: Crowd) -> None:
    subject = Gate(MOST)
    for _ in range(2):
        take_turns(subject, 1, waits=True)
        assert n_let_in(subject, crowd) == MOST
        take_turns(subject, PAUSE)
        assert n_let_in(subject, crowd) == FEW


def test_an_exception_gives_the_turn_back(crowd: Crowd) -> None:
    subject = Gate(MOST)
    for _ in range(MOST):
        with pytest.raises(KeyError), subject.turn():
            raise KeyError
    assert n_let_in(subject, crowd) == FEW
