"""The picture that ``lmdbio read --plot`` draws: what each thread did when, and the rate at which bytes came in."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from lmdbio.reader.timeline import Span

_COLOURS: Final = {"next": "#d9d9d9", "wait": "#b0543a", "verify": "#8a6d3b", "decode": "#6b8e5a", "read": "#2f6f9f"}
_N_BINS: Final = 200
_LANE_INCHES: Final = 0.16


def draw(spans: Sequence[Span], path: Path, *, title: str) -> None:
    """Write a picture of the spans of one rank: a lane for each thread, the consumer's first, over the rate of reads.

    A read's bytes count as coming in evenly while it lasts.
    """
    from matplotlib.figure import Figure

    begin = min((span.begin_s for span in spans), default=0.0)
    end = max((span.end_s for span in spans), default=1.0)
    consumer = next((span.thread for span in spans if span.name == "next"), None)
    threads = [consumer, *sorted({span.thread for span in spans} - {consumer})]
    figure = Figure(figsize=(11, 3.2 + _LANE_INCHES * len(threads)), layout="constrained")
    lanes, rate = figure.subplots(2, 1, sharex=True, height_ratios=(len(threads) + 3, 8))
    bars: defaultdict[tuple[str, int | None], list[tuple[float, float]]] = defaultdict(list)
    for span in spans:
        bars[span.name, span.thread].append((span.begin_s - begin, span.end_s - span.begin_s))
    for name, colour in _COLOURS.items():  # what lies within another comes later, and so above it
        for lane, thread in enumerate(threads):
            lanes.broken_barh(bars[name, thread], (lane - 0.4, 0.8), facecolors=colour)
        lanes.plot([], [], color=colour, linewidth=6, label=name)
    names = ["consumer", *(f"thread {number}" for number in range(1, len(threads)))]
    lanes.set_yticks(range(len(threads)), names, fontsize="small")
    lanes.set_ylim(len(threads) - 0.5, -0.5)
    lanes.legend(loc="upper right", ncols=len(_COLOURS), fontsize="small", frameon=False, bbox_to_anchor=(1, 1.18))
    edges, rates = read_rates(spans, begin=begin, end=end)
    rate.stairs(rates / 1e6, edges - begin, fill=True, color=_COLOURS["read"])
    rate.set_ylabel("MB/s read")
    rate.set_xlabel("s")
    for axes in (lanes, rate):
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize="medium", parse_math=False)
    figure.savefig(path, dpi=150)


def read_rates(
    spans: Sequence[Span], *, begin: float, end: float
) -> "tuple[np.ndarray[tuple[int], np.dtype[np.float64]], np.ndarray[tuple[int], np.dtype[np.float64]]]":
    """Return (edges, shape (n_bins + 1,); bytes a second between them, shape (n_bins,)) of the reads."""
    edges = np.linspace(begin, max(end, begin + 1e-9), _N_BINS + 1)
    reads = [span for span in spans if span.name == "read"]
    # the bytes that have come in by each edge: a sum of ramps
    begins = np.array([span.begin_s for span in reads])
    lengths = np.maximum(np.array([span.end_s for span in reads]) - begins, 1e-9)
    sizes = np.array([span.facts["bytes"] for span in reads], np.float64)
    by_edge = np.array([float((sizes * np.clip((edge - begins) / lengths, 0, 1)).sum()) for edge in edges])
    return edges, np.diff(by_edge) / np.diff(edges)
