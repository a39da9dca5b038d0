"""The results of an ablation as markdown: three tables for each kind of records and place, and what they say. Pure."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from tools.ablation.databases import VARIANTS
from tools.ablation.findings import bar_lines, count_nodes, findings, main_ratios, nodes_of, times
from tools.ablation.records import KINDS
from tools.ablation.results import Result, Results, Spread, rates, ratio
from tools.ablation.runs import BARS, SEQUENTIAL, SHUFFLED, STOCK, Run
from tools.ablation.shuffle_quality import ShuffleQuality
from tools.compare.figures import count_rounds

_NOTES: Final = (
    "every rank stands for a node and reads cold; every byte is touched inside the timing, by each value's XXH3-64",
    "MB/s: millions of bytes of values a second, the median of the rounds (least to most)",
    "ratio: median of the ratios within a round (least to most)",
    "imbalance: Pearson's chi-square of the classes in a batch by what a uniform shuffle gives; 1 as random",
    "moved: how far a record moves from epoch to epoch, as a share of the epoch; 0.33 as random",
    "met again: how often two records of a batch share one in the next epoch, by what a uniform shuffle gives",
)
_QUALITY_HEADER: Final = ("imbalance", "moved", "met again")


def document(results: Results) -> str:
    """Return everything: conditions, tables, bars, findings."""
    settings = results.settings
    lines = [
        f"Measured on {settings['date']} by",
        "",
        f"    {settings['command']}",
        "",
        f"- {count_rounds(_rounds(results), wanted=settings['rounds'])}, all runs in turn, forwards and backwards",
        f"- global batches of {settings['batch_size']} records",
        f"- stock LMDB is stopped after {settings['stock_s']:g} s; its rate is that of what it has read by then",
        *(f"- {note}" for note in _NOTES),
        "- databases: " + "; ".join(f"`{variant.name}` {variant.about}" for variant in VARIANTS.values()),
    ]
    parts = ["\n".join(lines)]
    parts += [
        _section(results, place=place, kind=kind)
        for place, kind in dict.fromkeys((result.place, result.kind) for result in results.results)
    ]
    return "\n\n".join(parts) + "\n"


def _rounds(results: Results) -> list[int]:
    """Return how many rounds there were of each run by each number of nodes."""
    kinds = Counter((one.place, one.kind, one.nodes, one.run) for one in results.results)
    return list(kinds.values())


def summary(ablations: Sequence[Results]) -> str:
    """Return a table of the ratios that matter most, of all ablations."""
    nodes = sorted({number for results in ablations for number in nodes_of(results.results)})
    lines = [
        _line(["records", "place", "times as fast", *map(count_nodes, nodes)]),
        _line(["---"] * 3 + ["---:"] * len(nodes)),
    ]
    for results in ablations:
        for place, kind in dict.fromkeys((result.place, result.kind) for result in results.results):
            found = results.of(place=place, kind=kind)
            for what, ratios in main_ratios(found).items():
                lines.append(_line([kind, place, what, *(times(ratios.get(number)) for number in nodes)]))
    return "\n".join(lines)


def _section(results: Results, *, place: str, kind: str) -> str:
    found = results.of(place=place, kind=kind)
    whole = max(found, key=lambda result: result.records)
    size = f"{whole.records:,} records of {KINDS[kind].about}, {whole.n_bytes / 1e6:,.0f} MB"
    in_order = Run("sorted", "sequential")
    bars = [line for bar in BARS for line in bar_lines(found, bar, kind=kind)]
    parts = [
        f"### {kind} records, {place}\n\n{size}.",
        "The same order on every database, `sequential`:",
        _table(results, found, SEQUENTIAL, dict.fromkeys(SEQUENTIAL, in_order)),
        "Shuffled anew in every epoch:",
        _table(results, found, SHUFFLED, dict.fromkeys(SHUFFLED, Run("sorted", "global"))),
        "Stock LMDB's cursor in key order:",
        _table(results, found, STOCK, {run: Run("random", run.reading) for run in STOCK}),
        *(["Bars:", "\n".join(f"- {line}" for line in bars)] if bars else []),
        "What the layout is worth here:",
        "\n".join(f"- {line}" for line in findings(found)),
    ]
    return "\n\n".join(parts)


def _table(results: Results, found: Sequence[Result], runs: Sequence[Run], against: dict[Run, Run]) -> str:
    """Return a table of rates by nodes, and of ratios to another run; with the shuffle quality where it is known."""
    nodes = nodes_of(found)
    kind = found[0].kind
    has_quality = any(results.quality(kind, run) for run in runs)
    header = ["database", "read", *(_QUALITY_HEADER if has_quality else ())]
    for number in nodes:
        header += [f"MB/s, {count_nodes(number)}", "ratio"]
    lines = [_line(header), _line(["---"] * 2 + ["---:"] * (len(header) - 2))]
    for run in runs:
        if not any(result.run == run for result in found):
            continue
        cells = [f"`{run.database}`", run.reading]
        if has_quality:
            cells += _quality_cells(results.quality(kind, run))
        for number in nodes:
            cells.append(_rate(Spread.of(rates(found, run, nodes=number).values())))
            cells.append("1" if run == against[run] else times(ratio(found, run, against[run], nodes=number)))
        lines.append(_line(cells))
    return "\n".join(lines)


def _quality_cells(quality: ShuffleQuality | None) -> list[str]:
    if quality is None:
        return [""] * len(_QUALITY_HEADER)
    return [f"{quality.imbalance:.2f}", f"{quality.displacement:.2f}", f"{quality.repeats:,.2f}"]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _rate(spread: Spread | None) -> str:
    if spread is None:
        return ""
    low, middle, high = (_significant(value / 1e6) for value in spread)
    return f"{middle} ({low} to {high})"


def _significant(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2f}"
