"""What was measured: every run, the shuffle quality, the machine and the settings, as JSON; rates and ratios of it."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from tools.ablation.runs import Run
from tools.ablation.shuffle_quality import ShuffleQuality
from tools.compare.results import read_json

_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Result:
    """What one run took in one round."""

    place: str
    kind: str
    """Of the records."""
    nodes: int
    round: int
    run: Run
    seconds: float
    """From the first rank's start to the last rank's end."""
    open_s: float
    """What opening took before."""
    cpu_s: float
    """Processor time of all ranks."""
    records: int
    n_bytes: int
    """Of the values that were read."""
    digest: int
    """All values' XXH3-64, combined."""

    @property
    def rate(self) -> float:
        """Bytes of values a second."""
        return self.n_bytes / self.seconds


@dataclass(frozen=True, slots=True)
class Quality:
    """How well an order shuffles on a database."""

    kind: str
    run: Run
    quality: ShuffleQuality


@dataclass(slots=True)
class Results:
    """Everything of one ablation."""

    settings: dict[str, Any]
    machine: dict[str, Any]
    qualities: list[Quality] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)

    def save(self, path: Path) -> None:
        """Write all of it, in place of what was there."""
        partial = path.with_name(path.name + ".partial")
        partial.write_text(json.dumps({"format": _FORMAT} | asdict(self), indent=1) + "\n")
        partial.replace(path)

    @classmethod
    def load(cls, path: Path) -> "Results":
        """Return what :meth:`save` wrote.

        Raises
        ------
        ValueError
            If it is of another format, or damaged.
        """
        found = read_json(path)
        if found.pop("format", None) != _FORMAT:
            raise ValueError(f"{path}: expected an ablation's results of format {_FORMAT}, found something else")
        try:
            qualities = [
                Quality(one["kind"], Run(**one["run"]), ShuffleQuality(**one["quality"])) for one in found["qualities"]
            ]
            results = [Result(**one | {"run": Run(**one["run"])}) for one in found["results"]]
            return cls(found["settings"], found["machine"], qualities, results)
        except (KeyError, TypeError) as exc:
            raise ValueError(f"{path}: expected the results of an ablation, found others: {exc}") from exc

    def of(self, *, place: str, kind: str) -> "list[Result]":
        """Return the results of one place and kind of records."""
        return [result for result in self.results if (result.place, result.kind) == (place, kind)]

    def quality(self, kind: str, run: Run) -> ShuffleQuality | None:
        """Return the shuffle quality of a run, if it was worked out."""
        found = (one.quality for one in self.qualities if (one.kind, one.run) == (kind, run))
        return next(found, None)


class Spread(NamedTuple):
    """A figure over the rounds."""

    least: float
    median: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread | None":
        """Return the spread of the values, None where there are none."""
        held = sorted(values)
        return cls(held[0], median(held), held[-1]) if held else None


def rates(results: Iterable[Result], run: Run, *, nodes: int) -> dict[int, float]:
    """Return the rate of a run by round, in bytes a second."""
    return {result.round: result.rate for result in results if (result.run, result.nodes) == (run, nodes)}


def ratio(results: Sequence[Result], fast: Run, slow: Run, *, nodes: int) -> Spread | None:
    """Return how many times as fast one run is as another, round by round; None where they share no round."""
    mine, others = rates(results, fast, nodes=nodes), rates(results, slow, nodes=nodes)
    return Spread.of(mine[number] / others[number] for number in mine.keys() & others.keys())


def check(results: Sequence[Result]) -> None:
    """Refuse results of runs that did not read the same records; stock LMDB may have been stopped before its end.

    Raises
    ------
    RuntimeError
        If one differs from the others of its kind.
    """
    for kind in dict.fromkeys(result.kind for result in results):
        of_kind = [result for result in results if result.kind == kind]
        whole = max(result.records for result in of_kind)
        read = {
            (result.records, result.digest) for result in of_kind if result.records == whole or not result.run.is_stock
        }
        if len(read) > 1:
            raise RuntimeError(f"{kind}: expected all runs to read the same, found (records, digest) {sorted(read)}")
