"""Bar charts of results as PNG, one file a kind of conditions: ``python -m tools.compare.charts RESULTS FOLDER``.

It runs in an environment of its own, which holds matplotlib.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tools.compare.figures import OURS, Row, rows_of
from tools.compare.questions import Question
from tools.compare.results import Results

_OURS_COLOUR: Final = "#c0392b"
_CEILING_COLOUR: Final = "#95a5a6"
_PEER_COLOUR: Final = "#2e86c1"
_ROW_INCHES: Final = 0.26
_WIDTH_INCHES: Final = 9.0
_DPI: Final = 110


def figures_of(results: Results) -> dict[str, list[Question]]:
    """Return which questions share a figure: those that differ only in the number of processes."""
    figures: dict[str, list[Question]] = {}
    for question in results.questions:
        if any(not row.failure for row in rows_of(results.runs, question.name)):
            name = question.name if question.order is None else question.name.rpartition("-")[0]
            figures.setdefault(name, []).append(question)
    return figures


def draw(results: Results, folder: Path) -> list[Path]:
    """Draw all figures into a folder and return their paths."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    paths = []
    for name, questions in figures_of(results).items():
        panels = [[row for row in rows_of(results.runs, one.name) if not row.failure] for one in questions]
        heights = [len(rows) * _ROW_INCHES + 0.9 for rows in panels]
        figure = Figure(figsize=(_WIDTH_INCHES, sum(heights)), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axis, question, rows in zip(axes, questions, panels, strict=True):
            _draw_bars(axis, question, rows)
        paths.append(folder / f"{name}.png")
        figure.savefig(paths[-1], dpi=_DPI)
    return paths


def _draw_bars(axis: Any, question: Question, rows: Sequence[Row]) -> None:
    """Draw one bar a row, the fastest on top, with a whisker from the least to the most."""
    spreads = [row.mb_per_s for row in rows]
    medians = [middle for _, middle, _ in spreads]
    whiskers = [[middle - low for low, middle, _ in spreads], [high - middle for _, middle, high in spreads]]
    places = range(len(rows))
    axis.barh(places, medians, color=[_colour(row) for row in rows], height=0.72)
    axis.errorbar(medians, places, xerr=whiskers, fmt="none", ecolor="black", elinewidth=1, capsize=2)
    axis.set_yticks(places, [f"{row.contestant}  {row.way}".strip() for row in rows], fontsize=8)
    most = max(high for _, _, high in spreads)
    for place, (row, (_, middle, high)) in enumerate(zip(rows, spreads, strict=True)):
        text = f"{middle:,.0f} MB/s, {row.records_per_s:,.0f} records/s"
        axis.text(high + most * 0.012, place, text, va="center", fontsize=7)
    axis.set_xlim(0, most * 1.36)
    axis.invert_yaxis()
    axis.margins(y=0.02)
    axis.set_title(question.title, fontsize=10, loc="left")
    axis.set_xlabel("MB/s: median, least and most", fontsize=8)
    axis.tick_params(axis="x", labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)


def _colour(row: Row) -> str:
    if row.contestant.startswith(OURS):
        return _OURS_COLOUR
    return _CEILING_COLOUR if row.is_ceiling else _PEER_COLOUR


def main() -> None:
    """Draw the figures of a results file into a folder."""
    _, results, folder = sys.argv
    for path in draw(Results.load(Path(results)), Path(folder)):
        print(path)


if __name__ == "__main__":
    main()
