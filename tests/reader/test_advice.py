from dataclasses import replace

import pytest

from lmdbio.reader.advice import Advice, Facts, advise
from lmdbio.reader.comparison import compare
from lmdbio.reader.ways import State, Way, choose_ways
from tests.reader.test_comparison import measured

FACTS = Facts(database="train.lmdb", index=None, batch_size=64, n_ranks=1, fits_memory=True, default_is_direct=False)
RATES = {"key": 100.0, "random": 20.0, "sequential": 300.0, "block": 200.0, "global": 80.0, "file": 400.0}


def _advise(
    change: dict[tuple[State, str], float] | None = None,
    *,
    facts: Facts = FACTS,
    states: tuple[State, ...] = ("cold",),
    counts: tuple[int, ...] = (1,),
    direct: float = 1.0,
    collective: float = 0.5,
) -> Advice:
    """Return the advice for rates in MB/s by order, some of them changed; of ours direct and collective by factors."""
    done = []
    for state in states:
        for n_nodes in counts:
            for way in choose_ways(state, n_ranks=facts.n_ranks, has_direct=True):
                rate = (change or {}).get((state, way.order), RATES[way.order]) * n_nodes
                done += measured(way, [rate * _factor(way, direct, collective) * 1e6], state=state, n_nodes=n_nodes)
    return advise(compare(done), facts)


def _factor(way: Way, direct: float, collective: float) -> float:
    if way.by == "stock":
        return 1.0 if way.readahead else 0.9
    return collective if way.io == "collective" else direct if way.direct else 1.0


def test_the_advice_is_python_to_copy_and_what_it_is_worth() -> None:
    advice = _advise()
    assert advice.shuffled == "ParallelReader('train.lmdb', batch_size=64, order=\"block\")"
    assert advice.in_order == "ParallelReader('train.lmdb', batch_size=64, order=\"sequential\")"
    shuffled, in_order = advice.sentences
    assert shuffled == (
        "Shuffled, cold: lmdbio independent in block order reads 200 MB/s, 10.0 times stock get (20 MB/s); 50% of what "
        "plain reads of the file bring."
    )
    assert in_order.startswith("In order, cold: lmdbio independent in sequential order reads 300 MB/s, 3.0 times stock")


def test_the_better_shuffle_is_advised_where_it_costs_little() -> None:
    assert 'order="global"' in str(_advise({("cold", "global"): 190}).shuffled)
    assert 'order="block"' in str(_advise({("cold", "global"): 170}).shuffled)


@pytest.mark.parametrize("default", [False, True])
@pytest.mark.parametrize("factor", [0.5, 0.97, 1.03, 2.0])
def test_direct_reads_are_spoken_of_only_where_they_matter_and_are_not_the_default(
    default: bool, factor: float
) -> None:
    advice = _advise(facts=replace(FACTS, default_is_direct=default), direct=factor)
    expected = {(0.5, True): "direct=False", (2.0, False): "direct=True"}.get((factor, default))
    for line in (advice.shuffled, advice.in_order):
        assert line is not None
        assert ("options" in line) == (expected is not None)
        assert expected is None or f"options=ReadOptions({expected})" in line


def test_several_ranks_pass_their_communicator_and_read_collectively_where_that_pays() -> None:
    facts = replace(FACTS, n_ranks=4, index="my.index")
    line = _advise(facts=facts, collective=1.5).in_order
    assert line == (
        'ParallelReader(\'train.lmdb\', comm=MPI.COMM_WORLD, batch_size=64, order="sequential", io="collective", '
        "index='my.index')"
    )
    assert "collective" not in str(_advise(facts=facts, collective=1.02).in_order)


def test_where_stock_is_faster_that_is_said_and_nothing_else_advised() -> None:
    advice = _advise({("cold", "sequential"): 80})
    assert advice.in_order is None
    assert advice.shuffled is not None
    assert "In order, cold: stock LMDB is the better choice here" in advice.sentences[1]


def test_where_both_are_as_fast_ours_may_be_used() -> None:
    advice = _advise({("cold", "sequential"): 98})
    assert advice.in_order is not None
    assert "about as much as stock cursor" in advice.sentences[1]


@pytest.mark.parametrize(("fits", "words"), [(True, "as this one would"), (False, "this one is too large")])
def test_a_hot_file_that_stock_reads_faster_is_told(fits: bool, words: str) -> None:
    hot: dict[tuple[State, str], float] = {("warm", "key"): 9000, ("warm", "sequential"): 6000}
    advice = _advise(hot, states=("warm", "cold"), facts=replace(FACTS, fits_memory=fits))
    assert advice.in_order is not None  # what is advised is for the file that has to be read
    assert "0.67 times in sequential order" in advice.sentences[2]
    assert words in advice.sentences[2]
    assert "stock is the better choice" in advice.sentences[2]


def test_a_hot_file_that_ours_reads_as_fast_is_told_too() -> None:
    advice = _advise(states=("warm", "cold"))
    assert advice.sentences[2] == (
        "From memory lmdbio reads, of what stock LMDB reads, 10.00 times in block order, "
        "3.00 times in sequential order."
    )


def test_a_file_measured_only_hot_is_judged_by_that() -> None:
    advice = _advise({("warm", "key"): 1000}, states=("warm",))
    assert advice.in_order is None
    assert "In order, warm: stock LMDB is the better choice here" in advice.sentences[1]
    assert len(advice.sentences) == 2


def test_the_most_nodes_count_and_growth_is_told() -> None:
    advice = _advise(counts=(1, 4), facts=replace(FACTS, n_ranks=8))
    assert "reads 800 MB/s" in advice.sentences[0]
    assert advice.sentences[-1] == (
        "From 1 to 4 nodes: lmdbio independent in block order 4.0 times as fast, "
        "stock get in random order 4.0 times as fast."
    )
