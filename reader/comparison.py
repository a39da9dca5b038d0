"""Measurements made comparable: a row for each way, medians over rounds, ratios within a round. Pure: no I/O."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final, Self

from lmdbio.reader.measure import Measurement
from lmdbio.reader.ways import State, Way

_TICK_S: Final = 1e-9
"""What a clock can tell apart, and so the least time that anything takes."""


@dataclass(frozen=True, slots=True)
class Spread:
    """What several rounds came to."""

    median: float
    """The middle one."""
    least: float
    """The least."""
    most: float
    """The most."""

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Self:
        """Return the spread of at least one number."""
        return cls(median(numbers), min(numbers), max(numbers))


@dataclass(frozen=True, slots=True)
class Row:
    """One way, in one state of the page cache, read by the ranks of some nodes."""

    state: State
    """State of the page cache."""
    n_nodes: int
    """Nodes whose ranks read."""
    n_ranks: int
    """Ranks that read."""
    way: Way
    """The way."""
    n_rounds: int
    """Rounds that were measured."""
    is_steady: bool
    """Whether all rounds went on for long enough; otherwise it would be faster in the long run."""
    rates: Mapping[int, float] = field(repr=False)
    """Bytes per second, of all ranks together, by the round's number."""
    rate: Spread
    """What they come to."""
    records_per_s: float | None
    """Records per second, of all ranks together, median; None for plain reads."""
    cpu_s_per_record: float | None
    """Seconds of processor time for each record, median; None for plain reads."""
    to_stock: Spread | None
    """How many times stock's rate, in the same kind of order and its better way there; None for plain reads."""
    to_plain: Spread | None
    """How many times the faster plain reads' rate; None for plain reads."""

    def to(self, other: "Row") -> Spread | None:
        """Return how many times as fast as another, each time in the same round; None where none can be compared."""
        return _ratio(self.rates, other.rates)


def compare(measurements: Iterable[Measurement]) -> list[Row]:
    """Return a row for each way that was measured, in the order of first appearance by state, nodes, and order."""
    by_way: dict[tuple[State, int], dict[Way, list[Measurement]]] = {}
    for done in measurements:
        by_way.setdefault((done.run.state, done.run.n_nodes), {}).setdefault(done.run.way, []).append(done)
    rows = []
    for (state, n_nodes), ways in by_way.items():
        rivals = {way: {run.run.round: _rate(run) for run in done} for way, done in ways.items()}
        rows += [_row(way, done, state=state, n_nodes=n_nodes, rivals=rivals) for way, done in ways.items()]
    return rows


def _row(
    way: Way,
    done: list[Measurement],
    *,
    state: State,
    n_nodes: int,
    rivals: dict[Way, dict[int, float]],
) -> Row:
    rates, is_plain = rivals[way], way.by == "plain"
    records = [run for run in done if run.n_records]
    stock = _fastest(rivals, lambda rival: rival.by == "stock" and rival.is_shuffled == way.is_shuffled)
    plain = _fastest(rivals, lambda rival: rival.by == "plain")
    return Row(
        state=state,
        n_nodes=n_nodes,
        n_ranks=done[0].n_ranks,
        way=way,
        n_rounds=len(done),
        is_steady=all(run.is_steady for run in done),
        rates=rates,
        rate=Spread.of(list(rates.values())),
        records_per_s=median(run.n_records / max(run.seconds, _TICK_S) for run in records) if records else None,
        cpu_s_per_record=median(run.cpu_s / run.n_records for run in records) if records else None,
        to_stock=None if is_plain else _ratio(rates, stock),
        to_plain=None if is_plain else _ratio(rates, plain),
    )


def _rate(done: Measurement) -> float:
    return done.n_bytes / max(done.seconds, _TICK_S)


def _fastest(rates: dict[Way, dict[int, float]], is_rival: Callable[[Way], bool]) -> dict[int, float]:
    """Return the rates of the way that is fastest in the median, of those asked for."""
    rivals = [by_round for way, by_round in rates.items() if is_rival(way)]
    return max(rivals, key=lambda by_round: median(by_round.values()), default={})


def _ratio(rates: Mapping[int, float], others: Mapping[int, float]) -> Spread | None:
    """Return how many times as fast as the others, in the same round."""
    ratios = [rate / others[number] for number, rate in rates.items() if others.get(number)]
    return Spread.of(ratios) if ratios else None
