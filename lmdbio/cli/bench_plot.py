"""The bars that ``lmdbio bench --plot`` draws: the rate of each way, a panel for each state of the page cache."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from lmdbio.reader.comparison import Row
from lmdbio.reader.ways import WAY_ORDERS, Way

_COLOURS: Final = {"stock": "#b0543a", "lmdbio": "#2f6f9f", "plain": "#8a8a8a"}
_BAR_INCHES: Final = 0.22


def draw(rows: Sequence[Row], path: Path, *, title: str) -> None:
    """Write a picture of the rows: medians as bars, from the least to the most as whiskers.

    Where several numbers of nodes were measured, a way has a bar for each, the most nodes the darkest.
    """
    from matplotlib.figure import Figure

    states = list(dict.fromkeys(row.state for row in rows))
    counts = sorted({row.n_nodes for row in rows})
    ways = sorted({row.way for row in rows}, key=_place)
    height = 1.4 + _BAR_INCHES * len(ways) * len(counts)
    figure = Figure(figsize=(5.5 * len(states) + 2, height), layout="constrained")
    for axes, state in zip(figure.subplots(1, len(states), sharey=True, squeeze=False)[0], states, strict=True):
        for row in rows:
            if row.state == state:
                place = ways.index(row.way) + (counts.index(row.n_nodes) + 0.5) / len(counts) - 0.5
                _draw_bar(axes, row, place, height=0.85 / len(counts), alpha=_alpha(row, counts))
        axes.set_title(state)
        axes.set_xlabel("MB/s")
        axes.set_yticks(range(len(ways)), [f"{way.name}, {way.order}" for way in ways])
        axes.set_ylim(len(ways) - 0.5, -0.5)
        axes.spines[["top", "right"]].set_visible(False)
    nodes = f"; nodes, from light to dark: {', '.join(map(str, counts))}" if len(counts) > 1 else ""
    figure.suptitle(f"{title}{nodes}", fontsize="medium", parse_math=False)
    figure.savefig(path, dpi=150)


def _place(way: Way) -> tuple[bool | int, ...]:
    """Return what ways are sorted by: what is comparable stands together."""
    return (
        way.is_shuffled,
        list(_COLOURS).index(way.by),
        WAY_ORDERS.index(way.order),
        way.io == "collective",
        way.direct,
    )


def _alpha(row: Row, counts: list[int]) -> float:
    return 0.35 + 0.65 * (counts.index(row.n_nodes) + 1) / len(counts)


def _draw_bar(axes: Any, row: Row, place: float, *, height: float, alpha: float) -> None:
    rate = row.rate
    axes.barh(
        place,
        rate.median / 1e6,
        height=height,
        color=_COLOURS[row.way.by],
        alpha=alpha,
        xerr=[[(rate.median - rate.least) / 1e6], [(rate.most - rate.median) / 1e6]],
        error_kw={"elinewidth": 0.8, "ecolor": "#333333"},
    )
