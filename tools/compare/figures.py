"""From runs to figures: medians, spreads, and ratios within a round. Pure: no I/O."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from tools.compare.results import Run

OURS: Final = "lmdbio"
"""What the names of our contestants begin with."""
DD: Final = "dd"
CP: Final = "cp -r"
EQUAL: Final = "equal depth"
"""What the name of a way of dd begins with that was not chosen for its speed."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one contestant needed in one of its ways, in one question."""

    contestant: str
    way: str
    shuffle: str
    seconds: Mapping[int, float]
    """Of the first epoch, by round; empty if the row failed."""
    second_epoch: Mapping[int, float]
    """Of the second one, by round; empty if none was read."""
    n_records: int
    n_bytes: int
    n_repeated: int
    """Most values that were given again in a round."""
    cpu_s: float | None
    """Median of the first epoch."""
    peak_memory: int | None
    open_s: float | None
    """Median."""
    failure: str | None
    """Why no figure counts; a row that failed once has failed."""

    @property
    def is_ceiling(self) -> bool:
        """Whether it is no contestant but a measure of what can be had."""
        return self.contestant in (DD, CP)

    @property
    def median_s(self) -> float:
        """Median of the first epoch's seconds."""
        return median(self.seconds.values())

    @property
    def mb_per_s(self) -> tuple[float, float, float]:
        """Millions of bytes a second: least, median, most."""
        low, middle, high = (self.n_bytes / seconds / 1e6 for seconds in _spread(self.seconds))
        return low, middle, high

    @property
    def records_per_s(self) -> float:
        """Median of the first epoch."""
        return self.n_records / self.median_s

    @property
    def cpu_us(self) -> float | None:
        """Processor time for each record, in microseconds."""
        return None if self.cpu_s is None else self.cpu_s / self.n_records * 1e6


def _spread(seconds: Mapping[int, float]) -> tuple[float, float, float]:
    """Return the most, the median and the least seconds."""
    return max(seconds.values()), median(seconds.values()), min(seconds.values())


def rows_of(runs: Sequence[Run], question: str) -> list[Row]:
    """Return the rows of a question, the fastest first, those that failed last."""
    of_question = [run for run in runs if run.question == question]
    names = dict.fromkeys(run.row for run in of_question)
    rows = [_row([run for run in of_question if run.row == name]) for name in names]
    return sorted(rows, key=lambda row: (row.failure is not None, row.median_s if row.seconds else 0.0))


def _row(runs: Sequence[Run]) -> Row:
    failure = next((run.failure for run in runs if run.failure is not None), None)
    good = [] if failure else [run for run in runs if run.seconds is not None]
    first = [run for run in good if run.epoch == 0]
    memory = [run.peak_memory for run in good if run.peak_memory is not None]
    return Row(
        contestant=runs[0].contestant,
        way=runs[0].way,
        shuffle=runs[0].shuffle,
        seconds={run.round: run.seconds for run in first if run.seconds is not None},
        second_epoch={run.round: run.seconds for run in good if run.epoch == 1 and run.seconds is not None},
        n_records=max((run.n_records for run in good), default=0),
        n_bytes=max((run.n_bytes for run in good), default=0),
        n_repeated=max((run.n_repeated for run in good), default=0),
        cpu_s=_median(run.cpu_s for run in first),
        peak_memory=max(memory, default=None),
        open_s=_median(run.open_s for run in first),
        failure=failure,
    )


def _median(values: Iterable[float | None]) -> float | None:
    held = [value for value in values if value is not None]
    return median(held) if held else None


def ratio(row: Row, other: Row | None) -> float | None:
    """Return how many times as fast as another a row is: the median of the ratios within a round."""
    if other is None or row.failure or other.failure:
        return None
    common = row.seconds.keys() & other.seconds.keys()
    return median(other.seconds[number] / row.seconds[number] for number in common) if common else None


def count_rounds(numbers: Iterable[int], *, wanted: int) -> str:
    """Return in words how many rounds there were of each thing that was asked.

    >>> count_rounds([5, 5], wanted=5), count_rounds([2, 4], wanted=5), count_rounds([1], wanted=1)
    ('5 rounds', '2 to 4 rounds of the 5 asked for', '1 round')
    """
    held = sorted(numbers) or [0]
    least, most = held[0], held[-1]
    text = f"{least} round{'' if least == 1 else 's'}" if least == most else f"{least} to {most} rounds"
    return text if least == wanted else f"{text} of the {wanted} asked for"


def best_of(rows: Sequence[Row], start: str, *, equal: bool = False) -> Row | None:
    """Return the fastest row of the contestants whose names begin so.

    Parameters
    ----------
    rows
        Of one question.
    start
        What the names begin with.
    equal
        Whether the ways of dd at equal depth are meant, or those that were chosen for their speed.
    """
    found = [
        row for row in rows if row.contestant.startswith(start) and row.seconds and row.way.startswith(EQUAL) == equal
    ]
    return min(found, key=lambda row: row.median_s, default=None)
