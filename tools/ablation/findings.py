"""What the figures of an ablation say: which bars are met, what pays, and what buys nothing. Pure: no I/O."""

from collections.abc import Sequence
from typing import Final

from tools.ablation.databases import ABLATED
from tools.ablation.results import Result, Spread, ratio
from tools.ablation.runs import Bar, Reading, Run

_EVEN: Final = 0.1
"""Ratios whose median is this close to 1 count as no difference."""


_MAIN: Final = (
    (
        "`block` on the converted database against `global` on the sorted one",
        Run("shuffle", "block"),
        Run("sorted", "global"),
    ),
    (
        "`sequential`: the converted database against the sorted one",
        Run("shuffle", "sequential"),
        Run("sorted", "sequential"),
    ),
    (
        "stock's cursor with readahead: the converted database against one in random order",
        Run("shuffle", "cursor, readahead"),
        Run("random", "cursor, readahead"),
    ),
)
"""What matters most, with the runs that are compared."""


def _comparisons() -> list[tuple[str, Run, Run]]:
    """Return what is compared: what it is about, the run that has it, the run that does not."""
    shuffle, random = "shuffle", "random"
    found = [
        (
            "`sequential`: the converted database rather than (a)",
            Run(shuffle, "sequential"),
            Run("sorted", "sequential"),
        ),
        ("`sequential`: the converted database rather than (b)", Run(shuffle, "sequential"), Run(random, "sequential")),
        ("a layout in which `block` does for `global`", Run(shuffle, "block"), Run("sorted", "global")),
        ("`block` rather than `global`, both on the converted database", Run(shuffle, "block"), Run(shuffle, "global")),
        ("`block`: the converted database rather than (b)", Run(shuffle, "block"), Run(random, "block")),
        ("`block`: stratified rather than shuffled", Run("stratified", "block"), Run(shuffle, "block")),
    ]
    readings: list[Reading] = ["sequential", "block"]
    for reading in readings:
        for variant in ABLATED:
            what = f"`{reading}`: the default rather than `{variant.name}`"
            found.append((what, Run(shuffle, reading), Run(variant.name, reading)))
    readings = ["cursor", "cursor, readahead"]
    for reading in readings:
        found.append((f"stock's {reading}: (c) rather than (b)", Run(shuffle, reading), Run(random, reading)))
        what = f"stock's {reading}: leaves beside their records rather than apart"
        found.append((what, Run(shuffle, reading), Run("leaves-apart", reading)))
    return found


def bar_lines(results: Sequence[Result], bar: Bar, *, kind: str) -> list[str]:
    """Return a line for each number of nodes: the ratio, and whether it reaches the bar."""
    lines = []
    for nodes in nodes_of([result for result in results if result.place in bar.places]):
        spread = ratio(results, bar.fast, bar.slow, nodes=nodes)
        if spread is not None:
            least = bar.least[kind]
            verdict = "met" if spread.median >= least else "**missed**"
            what = f"{_name(bar.fast)} against {_name(bar.slow)}, {count_nodes(nodes)}"
            lines.append(f"{what}: {times(spread)} times as fast, expected {least:g}: {verdict}")
    return lines


def findings(results: Sequence[Result]) -> list[str]:
    """Return in words what each comparison shows, those in which the layout buys nothing included."""
    return [line for comparison in _comparisons() if (line := _finding(results, *comparison))]


def main_ratios(results: Sequence[Result]) -> dict[str, dict[int, Spread]]:
    """Return the ratios that matter most, by what they are about and number of nodes."""
    found = {
        what: {
            nodes: spread
            for nodes in nodes_of(results)
            if (spread := ratio(results, fast, slow, nodes=nodes)) is not None
        }
        for what, fast, slow in _MAIN
    }
    return {what: ratios for what, ratios in found.items() if ratios}


def _finding(results: Sequence[Result], what: str, with_it: Run, without: Run) -> str | None:
    spreads = {nodes: ratio(results, with_it, without, nodes=nodes) for nodes in nodes_of(results)}
    known = {nodes: spread for nodes, spread in spreads.items() if spread is not None}
    if not known:
        return None
    verdicts = {_verdict(spread) for spread in known.values()}
    verdict = verdicts.pop() if len(verdicts) == 1 else "depends on the nodes"
    ratios = ", ".join(f"{times(spread)} at {count_nodes(nodes)}" for nodes, spread in known.items())
    return f"{what}: {verdict}; {ratios}"


def _verdict(spread: Spread) -> str:
    if abs(spread.median - 1) <= _EVEN:
        return "**buys nothing**"
    if spread.least <= 1 <= spread.most:
        return "within the spread of the rounds"
    return "pays" if spread.median > 1 else "**costs**"


def nodes_of(results: Sequence[Result]) -> list[int]:
    """Return the numbers of nodes that were measured, ascending."""
    return sorted({result.nodes for result in results})


def count_nodes(number: int) -> str:
    """Return a number of nodes in words.

    >>> count_nodes(1), count_nodes(4)
    ('1 node', '4 nodes')
    """
    return f"{number} node" if number == 1 else f"{number} nodes"


def times(spread: Spread | None) -> str:
    """Return a ratio with its spread.

    >>> times(Spread(1.0, 1.5, 2.25))
    '1.50 (1.00 to 2.25)'
    """
    return "" if spread is None else f"{spread.median:.2f} ({spread.least:.2f} to {spread.most:.2f})"


def _name(run: Run) -> str:
    return f"`{run.database}` {run.reading}"
