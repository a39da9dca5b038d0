"""The ways in which records of a database can be read: stock LMDB's, ours, and plain reads to compare with. Pure."""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from lmdbio.reader.sequence import ORDERS

By: TypeAlias = Literal["stock", "lmdbio", "plain"]
"""Who reads: stock LMDB, :class:`lmdbio.reader.ParallelReader`, or positioned reads of the file, whatever is in it."""
WayOrder: TypeAlias = Literal["key", "random", "sequential", "block", "global", "file"]
"""``key``: a cursor's. ``random``: get by key, shuffled. ``file``: from the first byte on. Others: ParallelReader's."""
WAY_ORDERS: Final[tuple[WayOrder, ...]] = get_args(WayOrder)
WayIo: TypeAlias = Literal["mapped", "independent", "collective"]
State: TypeAlias = Literal["warm", "cold", "as found"]
"""``warm``: what is read was read before, and is in memory. ``cold``: the page cache was emptied of the file before a
run. ``as found``: it could not be emptied."""

_SHUFFLED: Final = {"random", "block", "global"}


@dataclass(frozen=True, slots=True)
class Way:
    """One way of reading."""

    by: By
    """Who reads."""
    order: WayOrder
    """In which order."""
    io: WayIo
    """How bytes come: through LMDB's map, by each rank's own positioned reads, or by all ranks' together."""
    direct: bool = False
    """Whether reads go past the page cache (O_DIRECT)."""
    readahead: bool = True
    """Whether the system may read ahead in LMDB's map, ``lmdb.open(readahead=)``."""

    @property
    def is_shuffled(self) -> bool:
        """Whether records come in random order."""
        return self.order in _SHUFFLED

    @property
    def name(self) -> str:
        """What it is called in tables, without its order."""
        if self.by == "stock":
            return f"stock {'get' if self.order == 'random' else 'cursor'}{'' if self.readahead else ', no readahead'}"
        return f"{'plain reads' if self.by == 'plain' else f'lmdbio {self.io}'}{', direct' if self.direct else ''}"


def choose_ways(state: State, *, n_ranks: int, has_direct: bool) -> list[Way]:
    """Return the ways that differ from each other in a state of the page cache.

    Where all is in memory, direct reads take it from there and nothing is read ahead, so that these two are left out.

    Parameters
    ----------
    state
        Of the page cache.
    n_ranks
        Ranks that read; one alone has nobody to read with.
    has_direct
        Whether the file system reads past its page cache.
    """
    buffered_or_direct = (False, True) if has_direct and state != "warm" else (False,)
    ways = [
        Way("stock", order, "mapped", readahead=readahead)
        for order in ("key", "random")
        for readahead in ((True,) if state == "warm" else (True, False))
    ]
    for order in ORDERS:
        ways += [Way("lmdbio", order, "independent", direct) for direct in buffered_or_direct]
        if n_ranks > 1:
            ways.append(Way("lmdbio", order, "collective"))
    return ways + [Way("plain", "file", "independent", direct) for direct in buffered_or_direct]
