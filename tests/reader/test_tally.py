from collections.abc import Iterator

import pytest

from lmdbio.comm import SingleProcess
from lmdbio.reader import tally
from lmdbio.reader.subject import Work
from lmdbio.reader.tally import read_passes


class _Clock:
    """Seconds that pass only when something is done."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class _Passes:
    """A way whose steps are of one record of 10 bytes and take a second, the first of each period 50 more."""

    step_size = 10

    def __init__(self, clock: _Clock, *, n_steps: int, period: int = 1) -> None:
        self.n_steps = n_steps
        self.period = period
        self.n_passes = 0
        self.prepared: list[int] = []
        self._clock = clock

    def prepare(self, steps: range) -> None:
        self.prepared += steps
        self._clock.now += 1000 * len(steps)

    def begin(self) -> Iterator[Work]:
        self.n_passes += 1
        for step in range(self.n_steps):
            assert step in self.prepared
            self._clock.now += 51 if self.period > 1 and step % self.period == 0 else 1
            yield Work(1, 10)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    """The clock of wall and processor."""
    clock = _Clock()
    monkeypatch.setattr(tally.time, "perf_counter", clock)
    monkeypatch.setattr(tally.time, "process_time", clock)
    return clock


def _read(passes: _Passes, *, n_steps: int | None = None, budget_s: float, repeats: bool = False) -> tally.Tally:
    n_steps = n_steps or passes.n_steps
    return read_passes(passes, SingleProcess(), n_steps=n_steps, budget_s=budget_s, repeats=repeats)


def test_what_is_read_and_how_long_it_took_is_told_but_not_what_is_prepared(clock: _Clock) -> None:
    found = _read(_Passes(clock, n_steps=20), budget_s=1000)
    assert found == (20, 20, 200, 20.0, 20.0, True)


def test_a_run_ends_when_its_time_is_up(clock: _Clock) -> None:
    passes = _Passes(clock, n_steps=10_000)
    found = _read(passes, budget_s=100)
    assert 100 <= found.seconds <= 115
    assert found.n_records == found.n_steps == found.seconds
    assert passes.prepared == list(range(found.n_steps))


def test_no_more_steps_are_read_than_asked_for(clock: _Clock) -> None:
    assert _read(_Passes(clock, n_steps=100), n_steps=30, budget_s=1000).n_records == 30


def test_a_run_that_repeats_reads_the_same_steps_until_its_time_is_up(clock: _Clock) -> None:
    passes = _Passes(clock, n_steps=100)
    found = _read(passes, n_steps=30, budget_s=100, repeats=True)
    assert found.n_steps == 30
    assert found.n_records == found.seconds >= 100
    assert passes.n_passes == 4
    assert max(passes.prepared) == 29


def test_of_what_is_read_at_once_from_time_to_time_as_much_counts_as_is_used_up(clock: _Clock) -> None:
    found = _read(_Passes(clock, n_steps=1000, period=100), budget_s=40)
    assert found.is_steady
    assert found.n_records == found.n_steps - 1  # the first is read before the clock starts
    assert found.seconds == found.n_records + 50  # and the hundred and first after that
    assert 105 <= found.n_records < 201


def test_where_there_are_few_steps_all_are_read_and_count(clock: _Clock) -> None:
    found = _read(_Passes(clock, n_steps=150, period=100), budget_s=50)
    assert (found.n_records, found.seconds, found.is_steady) == (150, 250.0, True)


def test_a_run_that_does_not_come_to_an_end_is_cut_and_said_to_be_unsteady(clock: _Clock) -> None:
    found = _read(_Passes(clock, n_steps=1000, period=400), budget_s=1)
    assert not found.is_steady
    assert found.n_records < 400
    assert found.seconds == found.n_records + 50  # what was read before the clock started counts, too
