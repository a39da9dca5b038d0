"""The window opens with the first wait, grows with need up to its limit, and closes when all is in memory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.reader.window import Window

CACHED = {"was_cached": True, "has_waited": False, "was_starved": False}
SHORT = {"was_cached": False, "has_waited": True, "was_starved": True}


def test_it_is_at_its_least_until_a_read_waits() -> None:
    window = Window(least=10, first=40, most=100)
    assert (window.size, window.is_open) == (10, False)
    assert not window.adapt(**SHORT)
    window.open()
    assert (window.size, window.is_open) == (40, True)


def test_it_doubles_while_the_consumer_waits_for_want_of_it_up_to_the_limit() -> None:
    window = Window(least=0, first=40, most=100)
    window.open()
    assert not window.adapt(was_cached=False, has_waited=True, was_starved=False)
    assert not window.adapt(was_cached=False, has_waited=False, was_starved=True)
    sizes = []
    for _ in range(3):
        assert window.adapt(**SHORT)
        sizes.append(window.size)
    assert sizes == [80, 100, 100]


def test_it_closes_after_many_units_in_a_row_that_were_in_memory() -> None:
    window = Window(least=5, first=40, most=100)
    window.open()
    for _ in range(15):
        window.adapt(**CACHED)
    window.adapt(was_cached=False, has_waited=False, was_starved=False)
    for _ in range(15):
        window.adapt(**CACHED)
    assert (window.size, window.is_open) == (40, True)
    window.adapt(**CACHED)
    assert (window.size, window.is_open) == (5, False)


@pytest.mark.parametrize(("least", "first", "sizes"), [(50, 10, (50, 50)), (500, 10, (100, 100)), (0, 500, (0, 100))])
def test_no_window_is_beyond_the_limit_nor_below_the_least(least: int, first: int, sizes: tuple[int, int]) -> None:
    window = Window(least=least, first=first, most=100)
    at_first = window.size
    window.open()
    assert (at_first, window.size) == sizes


@given(st.lists(st.tuples(st.integers(0, 60), st.booleans())))
def test_what_is_begun_where_there_is_room_stays_within_window_and_limit(steps: list[tuple[int, bool]]) -> None:
    window = Window(least=0, first=50, most=100)
    assert not window.has_room(1)
    window.open()
    begun: list[int] = []
    taken: list[int] = []
    for size, may_give_back in steps:
        if window.has_room(size):
            window.begin(size)
            begun.append(size)
        elif begun:
            taken.append(begun.pop(0))
            window.take(taken[-1])
        if may_give_back and taken:
            window.give_back(taken.pop())
        assert (window.ahead, window.held) == (sum(begun), sum(begun) + sum(taken))
        assert window.held <= 100
        assert window.ahead <= max(50, *begun, 0)
    assert Window(least=1, first=1, most=100).has_room(100)  # one may always be ahead
