"""What many comparisons come to: one line for each question. Pure: no I/O."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tools.compare.figures import CP, DD, OURS, Row, best_of, ratio, rows_of
from tools.compare.questions import Question
from tools.compare.results import Results, Run

_HEADER: Final = (
    "question",
    "records",
    "lmdbio's best way",
    "MB/s",
    "best peer",
    "MB/s",
    "lmdbio is",
    "of dd or cp -r",
    "rounds",
)
_RULE: Final = ("---", "---:", "---", "---:", "---", "---:", "---:", "---:", "---:")
_NOTE: Final = (
    "The best peer is the one that comes nearest to the fastest of lmdbio's ways; `lmdbio is` how many times as fast, "
    "and which part of the fastest dd (of `cp -r` where data are stored), the median of the ratios within a round. "
    "Rounds of several runs count together where they asked the same of as many records; rates are of those rounds in "
    "which both took part."
)


@dataclass(frozen=True, slots=True)
class _Asked:
    """One question about so many records, put once or several times."""

    question: Question
    n_records: int
    runs: list[Run]
    """Of all comparisons; no round has the number of another."""


def summary(comparisons: Sequence[Results]) -> str:
    """Return a table with a line for each question, of all comparisons together."""
    lines = [_line(_HEADER), _line(_RULE), *(_line(_cells(asked)) for asked in _asked(comparisons))]
    return "\n".join(lines) + f"\n\n{_NOTE}"


def _asked(comparisons: Sequence[Results]) -> list[_Asked]:
    found: dict[tuple[str, int], _Asked] = {}
    first_round = 0
    for results in comparisons:
        for question in results.questions:
            runs = [run for run in results.runs if run.question == question.name]
            n_records = max((run.n_records for run in runs), default=0)
            if n_records:
                asked = found.setdefault((question.name, n_records), _Asked(question, n_records, []))
                asked.runs.extend(replace(run, round=run.round + first_round) for run in runs)
        first_round += 1 + max((run.round for run in results.runs), default=0)
    return list(found.values())


def _cells(asked: _Asked) -> list[str]:
    rows = rows_of(asked.runs, asked.question.name)
    ours = best_of(rows, OURS)
    peer = None if ours is None else nearest_peer(rows, ours)
    ceiling = best_of(rows, CP if asked.question.work == "convert" else DD)
    if ours is not None and peer is not None:  # what was measured beside the peer alone
        common = ours.seconds.keys() & peer.seconds.keys()
        ours, peer = _in_rounds(ours, common), _in_rounds(peer, common)
    behind = None if ours is None or peer is None else ratio(ours, peer)
    share = None if ours is None else ratio(ours, ceiling)
    return [
        asked.question.title,
        f"{asked.n_records:,}",
        *_named(ours),
        *_named(peer),
        "" if behind is None else f"{behind:.2f} x",
        "" if share is None else f"{share:.2f}",
        "" if ours is None else str(len(ours.seconds)),
    ]


def _in_rounds(row: Row, rounds: Collection[int]) -> Row:
    return replace(row, seconds={number: seconds for number, seconds in row.seconds.items() if number in rounds})


def nearest_peer(rows: Sequence[Row], ours: Row) -> Row | None:
    """Return the peer that a row of ours is ahead of by the least, or behind by the most, within the rounds."""
    ratios = [
        (found, row)
        for row in rows
        if not row.is_ceiling and not row.contestant.startswith(OURS) and (found := ratio(ours, row)) is not None
    ]
    return min(ratios, key=lambda pair: pair[0])[1] if ratios else None


def _named(row: Row | None) -> list[str]:
    if row is None:
        return ["", ""]
    name = f"{row.contestant}, {row.way}" if row.way else row.contestant
    return [name, f"{row.mb_per_s[1]:,.0f}"]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
