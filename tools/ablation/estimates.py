"""About how long an ablation takes, by what such runs took before. Pure: no I/O."""

from typing import Final

from tools.ablation.runs import Run

_OVERHEAD_S: Final = {"local": 1.5, "testbed": 3.0}
"""Of each run: interpreters, emptied caches, opening."""
_RATES: Final = {"local": 500e6, "testbed": 300e6}
"""Bytes a second, where many records come with one read."""
_GLOBAL_READS: Final = {"local": 20_000, "testbed": 7_000}
"""Records a second at most, where each is a read of its own."""
_STOCK_RATES: Final = {"local": 100e6, "testbed": 2e6}
_MAKING_RATE: Final = 100e6
"""Bytes a second of a database that is written, indexed and copied to where it is read."""


def run_s(run: Run, *, place: str, n_records: int, n_bytes: int, stock_s: float) -> float:
    """Return about how long one run takes; stock LMDB is stopped after ``stock_s``, 0: never."""
    if run.is_stock:
        reading = min(n_bytes / _STOCK_RATES[place], stock_s or float("inf"))
    else:
        reading = n_bytes / _RATES[place]
        if run.reading == "global":
            reading = max(reading, n_records / _GLOBAL_READS[place])
    return _OVERHEAD_S[place] + reading


def making_s(n_databases: int, *, n_bytes: int) -> float:
    """Return about how long it takes to make the databases."""
    return n_databases * n_bytes / _MAKING_RATE
