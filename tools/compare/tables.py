"""Results as markdown: the conditions, and a table for each question. Pure: no I/O."""

from collections.abc import Sequence
from typing import Any, Final

from tools.compare.figures import CP, DD, OURS, Row, best_of, count_rounds, ratio, rows_of
from tools.compare.questions import Question
from tools.compare.results import Results

_MIB: Final = 1 << 20
_COLUMNS: Final = (
    "contestant",
    "way",
    "shuffle",
    "records/s",
    "MB/s",
    "min to max",
    "of dd",
    "of dd, equal depth",
    "lmdbio is",
    "second epoch MB/s",
    "CPU µs/record",
    "peak MiB",
    "open s",
)
_TEXT_COLUMNS: Final = 3
_TOUCHED: Final = (
    "Every byte is touched inside the timing, by the XXH3-64 of each value; a contestant that leaves a record out, or "
    "gives other bytes, has failed"
)
_OF_DD: Final = (
    "`of dd`: part of the rate of the fastest parallel dd over block size and number of processes; `equal depth`: of "
    "the dd with as many reads in flight as lmdbio has"
)
_TIMES: Final = "`lmdbio is`: how many times as fast the fastest of lmdbio's ways is"
_READING: Final = (_TOUCHED, _OF_DD, _TIMES)
"""How to read the tables."""


def document(results: Results) -> str:
    """Return everything: conditions, tables, what was left out."""
    parts = [conditions(results)]
    parts += [section(results, question) for question in results.questions if rows_of(results.runs, question.name)]
    if results.notes:
        parts.append("\n".join(["### Left out", "", *(f"- {note}" for note in results.notes)]))
    return "\n\n".join(parts) + "\n"


def conditions(results: Results) -> str:
    """Return on what, with what and how it was measured."""
    machine, settings = results.machine, results.settings
    rounds = count_rounds(map(len, _rounds(results).values()), wanted=settings["rounds"])
    spread = f"{rounds}, all contestants in turn, forwards and backwards; medians, least and most"
    points = [
        f"Machine: {_machine(machine)}",
        *(f"{place}: {_file_system(facts)}" for place, facts in machine["file_systems"].items()),
        f"{spread}; ratios are medians of the ratios within a round",
        f"Cold: {settings['cold']}; batches of {settings['batch_size']} records on each rank",
        *_READING,
        f"Versions: {_versions(results)}",
    ]
    lines = [
        f"Measured on {settings['date']} by",
        "",
        f"    {settings['command']}",
        "",
        *(f"- {one}" for one in points),
    ]
    return "\n".join(lines)


def _rounds(results: Results) -> dict[str, set[int]]:
    """Return the rounds of each question in which anything was measured."""
    found: dict[str, set[int]] = {}
    for run in results.runs:
        if run.failure is None:
            found.setdefault(run.question, set()).add(run.round)
    return found


def _machine(machine: dict[str, Any]) -> str:
    memory = machine["memory"] / (1 << 30)
    return f"{machine['processor']}, {machine['cores']} cores, {memory:.0f} GiB, {machine['kernel']}"


def _file_system(facts: dict[str, Any]) -> str:
    read_ahead = facts["read_ahead"]
    return facts["type"] + ("" if read_ahead is None else f", read-ahead {read_ahead >> 10} KiB")


def _versions(results: Results) -> str:
    """Return each package's version once: environments share most of them."""
    found: dict[str, list[str]] = {}
    for versions in results.versions.values():
        for name, version in versions.items():
            if version not in found.setdefault(name, []):
                found[name].append(version)
    return ", ".join(f"{name} {' and '.join(sorted(versions))}" for name, versions in sorted(found.items()))


def section(results: Results, question: Question) -> str:
    """Return the heading and the table of a question."""
    rows = rows_of(results.runs, question.name)
    good = [row for row in rows if not row.failure]
    sizes = f"{good[0].n_records:,} records, {good[0].n_bytes / 1e6:,.0f} MB" if good else "no result"
    rounds = max((len(row.seconds) for row in good), default=0)
    counted = count_rounds([rounds], wanted=rounds)
    lines = [f"### {question.title}", "", f"{sizes}, {counted} (`{question.name}`).", ""]
    return "\n".join(lines + table(rows, question))


def table(rows: Sequence[Row], question: Question) -> list[str]:
    """Return the lines of a markdown table; columns that would be empty are left out."""
    ceiling = best_of(rows, CP if question.work == "convert" else DD)
    equal, ours = best_of(rows, DD, equal=True), best_of(rows, OURS)
    header = [name.replace("dd", CP) if question.work == "convert" else name for name in _COLUMNS]
    cells = [_cells(row, ceiling=ceiling, equal=equal, ours=ours) for row in rows]
    used = [place for place in range(len(header)) if place < 1 or any(line[place] for line in cells)]
    rule = ["---" if place < _TEXT_COLUMNS else "---:" for place in used]
    return [_line([header[place] for place in used]), _line(rule)] + [
        _line([line[place] for place in used]) for line in cells
    ]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _cells(row: Row, *, ceiling: Row | None, equal: Row | None, ours: Row | None) -> list[str]:
    name = f"**{row.contestant}**" if row.contestant.startswith(OURS) else row.contestant
    if row.failure:
        reason = f"failed: {' '.join(row.failure.split())[:200]}"
        return [name, row.way, reason] + [""] * (len(_COLUMNS) - _TEXT_COLUMNS)
    low, middle, high = row.mb_per_s
    again = f", {row.n_repeated} again" if row.n_repeated else ""
    second = sorted(row.n_bytes / seconds / 1e6 for seconds in row.second_epoch.values())
    behind = None if row.contestant.startswith(OURS) or ours is None else ratio(ours, row)
    return [
        name,
        row.way,
        row.shuffle + again,
        f"{row.records_per_s:,.0f}",
        f"{middle:,.0f}",
        f"{low:,.0f} to {high:,.0f}",
        _number(ratio(row, ceiling)),
        _number(ratio(row, equal)),
        "" if behind is None else f"{behind:.2f} x",
        f"{second[len(second) // 2]:,.0f}" if second else "",
        _number(row.cpu_us, "{:,.1f}"),
        "" if row.peak_memory is None else f"{row.peak_memory / _MIB:,.0f}",
        _number(row.open_s),
    ]


def _number(value: float | None, form: str = "{:.2f}") -> str:
    return "" if value is None else form.format(value)
