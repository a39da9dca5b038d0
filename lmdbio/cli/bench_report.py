"""What ``lmdbio bench`` says: the plan, the table, the advice; for people and as JSON."""

import os
import platform
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import lmdb

from lmdbio import __version__
from lmdbio.cli.sizes import format_size
from lmdbio.cli.text import plural, print_json, print_line, print_table
from lmdbio.reader.advice import Advice, Facts, advise
from lmdbio.reader.comparison import Row, Spread, compare
from lmdbio.reader.direct import pays_direct
from lmdbio.reader.measure import Measurement
from lmdbio.reader.options import ReadOptions
from lmdbio.reader.runs import Run
from lmdbio.reader.survey import Survey
from lmdbio.reader.ways import Way

_HEAD: Final = ("state", "nodes", "way", "order", "MB/s", "(least-most)", "records/s", "CPU µs", "x stock", "x plain")
_MOMENT_S: Final = 0.05
_LEFT: Final = 4  # columns of words, set to the left


@dataclass(slots=True)
class Report:
    """What was measured, and what follows."""

    facts: Survey
    """Of the database and the machines."""
    measurements: list[Measurement]
    """All that count."""
    batch_size: int
    """Records of a step on each rank."""
    index: Path | None
    """The index, where it was named."""
    index_made_s: float | None
    """Seconds that it took to make one in memory; None where there was one."""
    rounds: int
    """Rounds that were asked for."""
    rows: list[Row] = field(init=False)
    """A row for each way."""
    advice: Advice = field(init=False)
    """What to use."""

    def __post_init__(self) -> None:
        facts = self.facts
        self.rows = compare(self.measurements)
        self.advice = advise(
            self.rows,
            Facts(
                database=facts.database,
                index=None if self.index is None else os.fspath(self.index),
                batch_size=self.batch_size,
                n_ranks=len(facts.nodes.node_of),
                fits_memory=facts.file_size <= facts.memory,
                default_is_direct=pays_direct(facts.network, file_size=facts.file_size, memory_size=facts.memory),
            ),
        )

    @property
    def notes(self) -> list[str]:
        """What must be known to judge the numbers."""
        facts, states = self.facts, {row.state for row in self.rows}
        made, least = self.index_made_s, min(row.n_rounds for row in self.rows)
        kept = "memory is its place, it has a cache of its own, or a process has it mapped"
        makes_once = f"`lmdbio-index {facts.database}` makes it once"
        elsewhere = f"{facts.network} keeps caches of its own, on servers or beside the kernel's"
        notes = {
            f"no index: one was made in memory in {made or 0:.1f} s, as each start would; {makes_once}": made
            is not None,
            f"the page cache could not be emptied of this file ({kept}): it was read as found": "as found" in states,
            f"{elsewhere}, which stay: cold means this machine's page cache": facts.network and "cold" in states,
            "this file system refuses direct reads": not facts.has_direct,
            f"rounds: {least} of {self.rounds}, the time was up: --time-limit gives more": least < self.rounds,
            "one round cannot tell a difference from chance: --rounds and --time-limit give more": least == 1,
            "what is read in so short a time goes by starting: its rates say little": self._is_over_at_once,
            "~ was measured for too short a time, and is faster in the long run: --time-limit gives more": not all(
                row.is_steady for row in self.rows
            ),
        }
        size = ReadOptions().read_size
        plain = (
            f"plain reads take the file's bytes in order, {format_size(size)} at a time, "
            f"{ReadOptions().depth_of(size)} in flight on each rank: one simple way, no ceiling"
        )
        return [*(note for note, holds in notes.items() if holds), plain]

    @property
    def _is_over_at_once(self) -> bool:
        """Whether all records together are read in a moment."""
        return any(done.seconds < _MOMENT_S and done.n_records == self.facts.n_records for done in self.measurements)


def print_plan(facts: Survey, runs: Sequence[Run], *, json: bool) -> None:
    """Say what would be run."""
    if json:
        print_json({**_facts_as_json(facts), "runs": [_run_as_json(run) for run in runs]})
        return
    print_table(_facts(facts))
    seconds = sum(run.seconds for run in runs)
    print_line(f"would do {plural(len(runs), 'run')} of {runs[0].seconds:.2f} s each, {seconds:.0f} s of reading:")
    for state, n_nodes in dict.fromkeys((run.state, run.n_nodes) for run in runs):
        chosen = [run for run in runs if (run.state, run.n_nodes) == (state, n_nodes)]
        rounds = len({run.round for run in chosen})
        print_line(f"{state}, {plural(n_nodes, 'node')}: {plural(rounds, 'round')} of")
        for way in dict.fromkeys(run.way for run in chosen):
            print_line(f"  {way.name}, {way.order}")


def print_report(report: Report) -> None:
    """Print the facts, the table, the notes and the advice."""
    print_table([*_facts(report.facts), ("batch", f"{plural(report.batch_size, 'record')} on each rank")])
    print_line("")
    for line in _columns(report.rows):
        print_line(line)
    print_line("")
    for note in report.notes:
        print_line(f"note: {note}")
    for sentence in report.advice.sentences:
        print_line(sentence)
    uses = [("shuffled", report.advice.shuffled), ("in order", report.advice.in_order)]
    print_table([(f"use, {kind}:", line or "stock LMDB") for kind, line in uses])


def report_as_json(report: Report) -> dict[str, Any]:
    """Return all that was measured, and what follows."""
    return {
        **_facts_as_json(report.facts),
        "batch_size": report.batch_size,
        "index_made_s": report.index_made_s,
        "versions": {"lmdbio": __version__, "lmdb": lmdb.__version__, "LMDB": ".".join(map(str, lmdb.version()))},
        "machine": {"system": platform.platform(), "n_cores": os.cpu_count()},
        "rows": [_row_as_json(row) for row in report.rows],
        "measurements": [{**_run_as_json(done.run), **_numbers(done)} for done in report.measurements],
        "notes": report.notes,
        "advice": asdict(report.advice),
    }


def _facts(facts: Survey) -> list[tuple[str, str]]:
    n_ranks, n_nodes = len(facts.nodes.node_of), facts.nodes.n_nodes
    place = f", on {facts.network}" if facts.network else ""
    return [
        ("database", f"{facts.data}: {plural(facts.n_records, 'record')}, {format_size(facts.file_size)}{place}"),
        ("ranks", f"{n_ranks} on {plural(n_nodes, 'node')}"),
    ]


def _columns(rows: Iterable[Row]) -> Iterator[str]:
    """Give the lines of the table, a group for each state and number of nodes."""
    lines = [_HEAD, *map(_cells, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEAD))]
    last = lines[0][:2]
    for line in lines:
        if line[:2] != last and last != _HEAD[:2]:
            yield ""
        last = line[:2]
        cells = (
            f"{cell:<{width}}" if column < _LEFT else f"{cell:>{width}}"
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


def _cells(row: Row) -> tuple[str, ...]:
    rate = row.rate
    return (
        row.state,
        str(row.n_nodes),
        row.way.name,
        row.way.order,
        f"{'' if row.is_steady else '~'}{rate.median / 1e6:,.0f}",
        f"({rate.least / 1e6:,.0f}-{rate.most / 1e6:,.0f})",
        "" if row.records_per_s is None else f"{row.records_per_s:,.0f}",
        "" if row.cpu_s_per_record is None else f"{row.cpu_s_per_record * 1e6:,.1f}",
        "" if row.to_stock is None else f"{row.to_stock.median:.2f}",
        "" if row.to_plain is None else f"{row.to_plain.median:.2f}",
    )


def _facts_as_json(facts: Survey) -> dict[str, Any]:
    return {**asdict(facts), "nodes": {"count": facts.nodes.n_nodes, "node_of_rank": facts.nodes.node_of}}


def _run_as_json(run: Run) -> dict[str, Any]:
    return {"state": run.state, "round": run.round, "nodes": run.n_nodes, "way": _way_as_json(run.way)}


def _way_as_json(way: Way) -> dict[str, Any]:
    return {"name": way.name, **asdict(way)}


def _numbers(done: Measurement) -> dict[str, Any]:
    return {
        "ranks": done.n_ranks,
        "records": done.n_records,
        "bytes": done.n_bytes,
        "seconds": done.seconds,
        "cpu_seconds": done.cpu_s,
        "is_steady": done.is_steady,
        "cached_share": done.cached_share,
    }


def _row_as_json(row: Row) -> dict[str, Any]:
    spreads = {"bytes_per_second": row.rate, "to_stock": row.to_stock, "to_plain": row.to_plain}
    return {
        "state": row.state,
        "nodes": row.n_nodes,
        "ranks": row.n_ranks,
        "way": _way_as_json(row.way),
        "rounds": row.n_rounds,
        "is_steady": row.is_steady,
        "records_per_second": row.records_per_s,
        "cpu_seconds_per_record": row.cpu_s_per_record,
        **{name: _spread_as_json(spread) for name, spread in spreads.items()},
    }


def _spread_as_json(spread: Spread | None) -> dict[str, float] | None:
    return None if spread is None else {"median": spread.median, "min": spread.least, "max": spread.most}
