from lmdbio.reader.comparison import compare
from lmdbio.reader.measure import Measurement
from lmdbio.reader.runs import Run
from lmdbio.reader.ways import State, Way

CURSOR = Way("stock", "key", "mapped")
CURSOR_NO_READAHEAD = Way("stock", "key", "mapped", readahead=False)
GET = Way("stock", "random", "mapped")
SEQUENTIAL = Way("lmdbio", "sequential", "independent")
BLOCK = Way("lmdbio", "block", "independent")
PLAIN = Way("plain", "file", "independent")


def measured(
    way: Way,
    rates: list[float],
    *,
    state: State = "cold",
    n_nodes: int = 1,
    record_size: int = 100,
    is_steady: bool = True,
) -> list[Measurement]:
    """Return a measurement for each rate, in bytes per second, each of another length."""
    return [
        Measurement(
            Run(state, number, n_nodes, way, 1.0),
            n_ranks=2 * n_nodes,
            n_records=0 if way.by == "plain" else int(rate) // record_size * (number + 1),
            n_bytes=int(rate) * (number + 1),
            seconds=number + 1.0,
            cpu_s=0.5 * (number + 1),
            is_steady=is_steady,
            cached_share=0.0,
        )
        for number, rate in enumerate(rates)
    ]


def test_a_row_has_medians_over_rounds_of_rates_not_of_times() -> None:
    (row,) = compare(measured(SEQUENTIAL, [1000, 5000, 2000]))
    assert (row.rate.median, row.rate.least, row.rate.most) == (2000, 1000, 5000)
    assert row.records_per_s == 20
    assert row.cpu_s_per_record == 0.025
    assert (row.n_rounds, row.n_ranks, row.is_steady) == (3, 2, True)


def test_a_ratio_is_taken_within_the_round() -> None:
    rows = compare([*measured(CURSOR, [100, 1000, 300]), *measured(SEQUENTIAL, [200, 2000, 900])])
    ratio = rows[1].to_stock
    assert ratio is not None
    assert (ratio.median, ratio.least, ratio.most) == (2, 2, 3)


def test_stock_stands_for_its_better_way_in_the_same_kind_of_order() -> None:
    rates = {CURSOR: 200, CURSOR_NO_READAHEAD: 100, GET: 50, SEQUENTIAL: 400, BLOCK: 400, PLAIN: 800}
    rows = {row.way: row for row in compare(done for way, rate in rates.items() for done in measured(way, [rate]))}
    ratios = {way: row.to_stock.median for way, row in rows.items() if row.to_stock}
    assert ratios == {CURSOR: 1, CURSOR_NO_READAHEAD: 0.5, GET: 1, SEQUENTIAL: 2, BLOCK: 8}
    assert rows[PLAIN].to_stock is None
    assert rows[PLAIN].records_per_s is None
    assert rows[BLOCK].to_plain is not None
    assert rows[BLOCK].to_plain.median == 0.5


def test_states_and_numbers_of_nodes_are_not_mixed() -> None:
    rows = compare(
        done
        for state in ("warm", "cold")
        for n_nodes in (1, 2)
        for way in (CURSOR, SEQUENTIAL)
        for done in measured(way, [100 * n_nodes], state=state, n_nodes=n_nodes)
    )
    assert [(row.state, row.n_nodes, row.way) for row in rows] == [
        (state, n_nodes, way) for state in ("warm", "cold") for n_nodes in (1, 2) for way in (CURSOR, SEQUENTIAL)
    ]
    assert all(row.to_stock is not None and row.to_stock.median == 1 for row in rows)


def test_values_without_bytes_have_no_ratio() -> None:
    rows = compare([*measured(CURSOR, [0]), *measured(SEQUENTIAL, [0])])
    assert [row.to_stock for row in rows] == [None, None]


def test_any_two_rows_are_compared_in_the_rounds_that_both_have() -> None:
    cursor, block = compare([*measured(CURSOR, [100, 1000, 0, 500]), *measured(BLOCK, [200, 1000, 900])])
    ratio = block.to(cursor)
    assert ratio is not None
    assert (ratio.median, ratio.least, ratio.most) == (1.5, 1, 2)
    assert cursor.to(compare(measured(BLOCK, [0]))[0]) is None
