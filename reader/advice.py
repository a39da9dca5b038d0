"""What to use for a database, told from how fast each way reads it. Pure: no I/O.

All that is said and decided here is a ratio within the rounds, with its range: the medians of two rates may lie the
other way round. The table beside it has the rates.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lmdbio.reader.comparison import Row, Spread
from lmdbio.reader.ways import State

_WORTH: Final = 1.05
"""How many times as fast is faster at all."""
_NEAR: Final = 0.9
"""Part of ``block`` order's rate from which on ``global`` order is advised: it shuffles better."""
_PLACES: Final[dict[State, str]] = {"warm": "from memory (warm)", "cold": "from storage (cold)", "as found": "as found"}


@dataclass(frozen=True, slots=True)
class Facts:
    """What the advice depends on, beside the rows."""

    database: str
    """As it was named."""
    index: str | None
    """The index, where it was named."""
    batch_size: int
    """Records of a step on each rank."""
    n_ranks: int
    """All ranks."""
    fits_memory: bool
    """Whether the data file fits the page cache."""
    default_is_direct: bool
    """Whether reads go past the page cache here unless they are told otherwise."""

    @property
    def stays_in_memory(self) -> bool:
        """Whether the file is in memory from the second epoch on, unless other arguments keep it out."""
        return self.fits_memory and not self.default_is_direct


@dataclass(frozen=True, slots=True)
class Advice:
    """What to use, and what it is worth."""

    shuffled: str | None
    """A line of Python for records in random order; None where it is better left to stock LMDB."""
    in_order: str | None
    """A line of Python for records in the order of the file; None where it is better left to stock LMDB."""
    sentences: tuple[str, ...]
    """Why."""


def advise(rows: Iterable[Row], facts: Facts) -> Advice:
    """Return the advice for as many nodes as were measured at most.

    A file that stays in memory is read from there in every epoch but the first, so ``warm`` decides what to use, and
    sentences of their own say what that way is worth in the first epoch. A file that does not stay is read anew in
    every epoch: there ``warm`` counts only where nothing else was measured.

    Arguments beyond the order, and stock LMDB, are advised only where all rounds agree that they are faster.
    """
    rows = list(rows)
    most = [row for row in rows if row.n_nodes == max(row.n_nodes for row in rows)]
    by_state = {is_warm: [row for row in most if (row.state == "warm") == is_warm] for is_warm in (True, False)}
    main = by_state[facts.stays_in_memory] or by_state[not facts.stays_in_memory]
    chosen = [choose_ours(main, facts, is_shuffled=is_shuffled) for is_shuffled in (True, False)]
    sentences = [_worth(ours, main, facts) for ours in chosen]
    if facts.stays_in_memory and main is by_state[True]:
        ways = [ours.way for ours in chosen]
        first = sorted((row for row in by_state[False] if row.way in ways), key=lambda row: ways.index(row.way))
        sentences += [_worth(row, by_state[False], facts) for row in first]
    sentences += _scaling(chosen[0], rows)
    lines = [None if _is_faster(_best_stock(ours, main), ours) else _python(ours, facts) for ours in chosen]
    return Advice(lines[0], lines[1], tuple(sentences))


def choose_ours(rows: Iterable[Row], facts: Facts, *, is_shuffled: bool) -> Row:
    """Return the row of ours that is advised for a kind of order, of rows of one state and one number of nodes.

    Never one of direct reads for a file that would otherwise stay in memory: they keep it out.
    """
    by_order: dict[str, list[Row]] = {}
    for row in rows:
        if row.way.by != "lmdbio" or (row.way.direct and facts.stays_in_memory):
            continue
        if row.way.is_shuffled == is_shuffled:
            by_order.setdefault(row.way.order, []).append(row)
    best = {order: _simplest(ways, facts) for order, ways in by_order.items()}
    if not is_shuffled:
        return best["sequential"]
    ratio = best["global"].to(best["block"])
    return best["global"] if ratio is None or ratio.median >= _NEAR else best["block"]


def _simplest(rows: list[Row], facts: Facts) -> Row:
    """Return the row of the way that takes no arguments, or else the fastest of those that are worth them."""
    plain = next((row for row in rows if not _arguments(row, facts)), None)
    worth = [row for row in rows if plain is None or _is_faster(row, plain)]
    return max(worth, key=lambda row: row.rate.median) if plain is None or worth else plain


def _is_faster(row: Row, other: Row) -> bool:
    """Return whether a way is faster than another by more than chance: in every round, and by enough in the middle."""
    ratio = row.to(other)
    return ratio is not None and ratio.least > 1 and ratio.median >= _WORTH


def _arguments(row: Row, facts: Facts) -> list[str]:
    """Return the arguments of a reader that make it read in this way, where they are not the default."""
    if row.way.io != "independent":
        return [f'io="{row.way.io}"']
    # What is in memory is read from there by direct reads too.
    is_default = row.state == "warm" or row.way.direct == facts.default_is_direct
    return [] if is_default else [f"options=ReadOptions(direct={row.way.direct})"]


def _python(ours: Row, facts: Facts) -> str:
    arguments = [
        repr(facts.database),
        *(["comm=MPI.COMM_WORLD"] if facts.n_ranks > 1 else []),
        f"batch_size={facts.batch_size}",
        f'order="{ours.way.order}"',
        *_arguments(ours, facts),
        *([f"index={facts.index!r}"] if facts.index else []),
    ]
    return f"ParallelReader({', '.join(arguments)})"


def _worth(ours: Row, rows: list[Row], facts: Facts) -> str:
    """Say what a way of ours is worth against the better of stock's in the same kind of order, and plain reads."""
    kind = "Shuffled" if ours.way.is_shuffled else "In order"
    when = ""
    if facts.stays_in_memory:
        when = "later epochs, " if ours.state == "warm" else "first epoch, "
    stock = _best_stock(ours, rows)
    ratio = ours.to(stock)
    head = f"{kind}, {when}{_PLACES[ours.state]}: {ours.way.name} in {ours.way.order} order"
    if ratio is None:
        return f"{head} has no bytes to compare."
    plain = f", and {_times(ours.to_plain)} as plain reads of the file" if ours.to_plain else ""
    text = f"{head} is {_times(ratio)} as {stock.way.name}{plain}"
    if _is_faster(stock, ours):
        return f"{text}: stock LMDB is the better choice here."
    return f"{text}." if _is_faster(ours, stock) else f"{text}: too close to tell."


def _scaling(ours: Row, rows: list[Row]) -> list[str]:
    """Say how the rates grow with the nodes, where several numbers of them were measured."""
    least = min(row.n_nodes for row in rows)
    if least == ours.n_nodes:
        return []
    before = {row.way: row for row in rows if row.n_nodes == least and row.state == ours.state}
    grown = [
        f"{row.way.name} in {row.way.order} order {_times(ratio)}"
        for row in (ours, _best_stock(ours, rows))
        if row.way in before and (ratio := row.to(before[row.way])) is not None
    ]
    return [f"From {least} to {ours.n_nodes} nodes: {', '.join(grown)}."] if grown else []


def _best_stock(ours: Row, rows: list[Row]) -> Row:
    """Return the row of stock LMDB's better way under the same conditions."""
    rivals = [
        row
        for row in rows
        if row.way.by == "stock"
        and (row.state, row.n_nodes, row.way.is_shuffled) == (ours.state, ours.n_nodes, ours.way.is_shuffled)
    ]
    return max(rivals, key=lambda row: row.rate.median)


def _times(ratio: Spread) -> str:
    """Return a ratio in words, with its range where there is one."""
    span = f" ({ratio.least:.2f} to {ratio.most:.2f})" if ratio.least < ratio.most else ""
    return f"{ratio.median:.2f} times{span} as fast"
