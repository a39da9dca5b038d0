"""Which database is read in which order: the runs that answer the three questions. Pure: no I/O."""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from tools.ablation.databases import ABLATED, MAIN

Reading: TypeAlias = Literal["sequential", "block", "global", "cursor", "cursor, readahead"]
"""One of lmdbio's orders, or stock LMDB's cursor in key order."""


@dataclass(frozen=True, slots=True)
class Run:
    """One database read in one way."""

    database: str
    """Name of its variant."""
    reading: Reading

    @property
    def is_stock(self) -> bool:
        """Whether stock LMDB reads."""
        return self.reading.startswith("cursor")


SEQUENTIAL: Final = tuple(Run(variant.name, "sequential") for variant in (*MAIN, *ABLATED))
SHUFFLED: Final = (
    Run("sorted", "global"),
    Run("random", "global"),
    Run("shuffle", "global"),
    Run("random", "block"),
    Run("shuffle", "block"),
    Run("stratified", "block"),
    *(Run(variant.name, "block") for variant in ABLATED),
)
STOCK: Final = (
    Run("random", "cursor"),
    Run("shuffle", "cursor"),
    Run("random", "cursor, readahead"),
    Run("shuffle", "cursor, readahead"),
    Run("leaves-apart", "cursor, readahead"),
)
RUNS: Final = (*SEQUENTIAL, *SHUFFLED, *STOCK)


@dataclass(frozen=True, slots=True)
class Bar:
    """A ratio of rates that the layout has to reach."""

    fast: Run
    slow: Run
    least: dict[str, float]
    """By kind of records."""
    places: tuple[str, ...]
    """Where it holds."""


BARS: Final = (
    Bar(Run("shuffle", "block"), Run("sorted", "global"), {"3KB": 5.0, "110KB": 1.2}, ("testbed",)),
    Bar(Run("shuffle", "cursor"), Run("random", "cursor"), {"3KB": 3.0, "110KB": 3.0}, ("testbed", "local")),
)
