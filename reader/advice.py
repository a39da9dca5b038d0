"""What to use for a database, told from how fast each way reads it. Pure: no I/O."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from lmdbio.reader.comparison import Row
from lmdbio.reader.ways import Way

_WORTH: Final = 1.05
"""How many times as fast a way must be to be advised instead of the one that needs no arguments: rounds differ by so
much."""
_NEAR: Final = 0.9
"""Part of ``block`` order's rate from which on ``global`` order is advised: it shuffles better."""


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

    The page cache counts as emptied, or as it was found, where that was measured: whoever has a database that stays in
    memory learns from a sentence what is best then.
    """
    rows = list(rows)
    most = [row for row in rows if row.n_nodes == max(row.n_nodes for row in rows)]
    main = [row for row in most if row.state != "warm"] or most
    shuffled, in_order = (choose_ours(main, facts, is_shuffled=is_shuffled) for is_shuffled in (True, False))
    sentences = [_worth(shuffled, main), _worth(in_order, main)]
    if main is not most:
        sentences += _when_hot([shuffled, in_order], most, facts)
    sentences += _scaling(shuffled, rows)
    lines = [_python(ours.way, facts) if _ratio(ours) >= 1 / _WORTH else None for ours in (shuffled, in_order)]
    return Advice(lines[0], lines[1], tuple(sentences))


def choose_ours(rows: Iterable[Row], facts: Facts, *, is_shuffled: bool) -> Row:
    """Return the row of ours that is advised for a kind of order, of rows of one state and one number of nodes."""
    by_order: dict[str, list[Row]] = {}
    for row in rows:
        if row.way.by == "lmdbio" and row.way.is_shuffled == is_shuffled:
            by_order.setdefault(row.way.order, []).append(row)
    best = {order: _simplest(ways, facts) for order, ways in by_order.items()}
    if not is_shuffled:
        return best["sequential"]
    is_near = best["global"].rate.median >= _NEAR * best["block"].rate.median
    return best["global"] if is_near else best["block"]


def _simplest(rows: list[Row], facts: Facts) -> Row:
    """Return the row of the way that takes no arguments, unless another is worth them."""
    fastest = max(rows, key=lambda row: row.rate.median)
    for row in rows:
        if not _arguments(row.way, facts) and fastest.rate.median < _WORTH * row.rate.median:
            return row
    return fastest


def _arguments(way: Way, facts: Facts) -> list[str]:
    """Return the arguments of a reader that make it read in this way, where they are not the default."""
    if way.io != "independent":
        return [f'io="{way.io}"']
    return [] if way.direct == facts.default_is_direct else [f"options=ReadOptions(direct={way.direct})"]


def _python(way: Way, facts: Facts) -> str:
    arguments = [
        repr(facts.database),
        *(["comm=MPI.COMM_WORLD"] if facts.n_ranks > 1 else []),
        f"batch_size={facts.batch_size}",
        f'order="{way.order}"',
        *_arguments(way, facts),
        *([f"index={facts.index!r}"] if facts.index else []),
    ]
    return f"ParallelReader({', '.join(arguments)})"


def _worth(ours: Row, rows: list[Row]) -> str:
    """Say what a way of ours is worth against the better of stock's in the same kind of order."""
    way, ratio = ours.way, _ratio(ours)
    stock = _best_stock(ours, rows)
    kind = f"{'Shuffled' if way.is_shuffled else 'In order'}, {ours.state}"
    how = f"{way.name} in {way.order} order"
    theirs = f"{stock.way.name} ({_rate(stock)})"
    plain = f"; {ours.to_plain.median:.0%} of what plain reads of the file bring" if ours.to_plain else ""
    if ratio >= _WORTH:
        return f"{kind}: {how} reads {_rate(ours)}, {ratio:.1f} times {theirs}{plain}."
    if ratio >= 1 / _WORTH:
        return f"{kind}: {how} reads {_rate(ours)}, about as much as {theirs}{plain}."
    return (
        f"{kind}: stock LMDB is the better choice here: {how} reads {_rate(ours)}, {ratio:.2f} times {theirs}{plain}."
    )


def _when_hot(chosen: list[Row], rows: list[Row], facts: Facts) -> list[str]:
    """Say whether what is advised holds for a file that is in memory, if that was measured."""
    hot = [
        row
        for ours in chosen
        for row in rows
        if row.state == "warm" and row.way == replace(ours.way, direct=False) and row.to_stock
    ]
    if not hot:
        return []
    ratios = ", ".join(f"{_ratio(row):.2f} times in {row.way.order} order" for row in hot)
    against = f"From memory lmdbio reads, of what stock LMDB reads, {ratios}"
    if all(_ratio(row) >= 1 / _WORTH for row in hot):
        return [f"{against}."]
    fits = "as this one would" if facts.fits_memory else "for which this one is too large"
    return [f"{against}: where a file stays in memory from epoch to epoch, {fits}, stock is the better choice."]


def _scaling(ours: Row, rows: list[Row]) -> list[str]:
    """Say how the rates grow with the nodes, where several numbers of them were measured."""
    least = min(row.n_nodes for row in rows)
    if least == ours.n_nodes:
        return []
    before = {row.way: row for row in rows if row.n_nodes == least and row.state == ours.state}
    grown = [
        f"{row.way.name} in {row.way.order} order {row.rate.median / before[row.way].rate.median:.1f} times as fast"
        for row in (ours, _best_stock(ours, rows))
        if row.way in before
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


def _ratio(row: Row) -> float:
    return row.to_stock.median if row.to_stock else 1.0


def _rate(row: Row) -> str:
    return f"{row.rate.median / 1e6:,.0f} MB/s"
