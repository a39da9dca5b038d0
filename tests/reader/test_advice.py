from dataclasses import replace

import pytest

from lmdbio.reader.advice import Advice, Facts, advise
from lmdbio.reader.comparison import compare
from lmdbio.reader.ways import State, Way, choose_ways
from tests.reader.test_comparison import BLOCK, CURSOR, GET, SEQUENTIAL, measured

GLOBAL = Way("lmdbio", "global", "independent")
FACTS = Facts(database="train.lmdb", index=None, batch_size=64, n_ranks=1, fits_memory=False, default_is_direct=False)
STAYS = replace(FACTS, fits_memory=True)
RATES = {"key": 100.0, "random": 20.0, "sequential": 300.0, "block": 200.0, "global": 80.0, "file": 400.0}


def _advise(
    change: dict[tuple[State, str], float] | None = None,
    *,
    facts: Facts = FACTS,
    states: tuple[State, ...] = ("cold",),
    counts: tuple[int, ...] = (1,),
    direct: tuple[float, ...] = (1.0,),
    collective: tuple[float, ...] = (0.5,),
) -> Advice:
    """Return the advice for rates in MB/s by order, some of them changed.

    Of ours, direct and collective reads are faster by factors, one for each round.
    """
    done = []
    for state in states:
        for n_nodes in counts:
            for way in choose_ways(state, n_ranks=facts.n_ranks, has_direct=True):
                rate = (change or {}).get((state, way.order), RATES[way.order]) * n_nodes * 1e6
                factors = _factors(way, direct, collective, n_rounds=max(len(direct), len(collective)))
                done += measured(way, [rate * factor for factor in factors], state=state, n_nodes=n_nodes)
    return advise(compare(done), facts)


def _factors(way: Way, direct: tuple[float, ...], collective: tuple[float, ...], *, n_rounds: int) -> tuple[float, ...]:
    if way.by == "lmdbio" and (way.direct or way.io == "collective"):
        return direct if way.direct else collective
    return (1.0 if way.readahead else 0.9,) * n_rounds


def test_the_advice_is_python_to_copy_and_what_it_is_worth() -> None:
    advice = _advise()
    assert advice.shuffled == "ParallelReader('train.lmdb', batch_size=64, order=\"block\")"
    assert advice.in_order == "ParallelReader('train.lmdb', batch_size=64, order=\"sequential\")"
    shuffled, in_order = advice.sentences
    assert shuffled == (
        "Shuffled, from storage (cold): lmdbio independent in block order is 10.00 times as fast as stock get, "
        "and 0.50 times as fast as plain reads of the file."
    )
    assert in_order.startswith(
        "In order, from storage (cold): lmdbio independent in sequential order is 3.00 times as fast as stock cursor"
    )


def test_a_ratio_is_told_with_the_range_of_the_rounds() -> None:
    done = [*measured(CURSOR, [100, 100, 100]), *measured(SEQUENTIAL, [90, 300, 200])]
    done += [*measured(GET, [100]), *measured(BLOCK, [300]), *measured(GLOBAL, [300])]
    sentence = advise(compare(done), FACTS).sentences[1]
    assert "2.00 times (0.90 to 3.00) as fast as stock cursor: too close to tell." in sentence


def test_the_better_shuffle_is_advised_where_it_costs_little() -> None:
    assert 'order="global"' in str(_advise({("cold", "global"): 190}).shuffled)
    assert 'order="block"' in str(_advise({("cold", "global"): 170}).shuffled)


@pytest.mark.parametrize("default", [False, True])
@pytest.mark.parametrize("factor", [0.5, 0.97, 1.03, 2.0])
def test_direct_reads_are_spoken_of_only_where_they_matter_and_are_not_the_default(
    default: bool, factor: float
) -> None:
    advice = _advise(facts=replace(FACTS, default_is_direct=default), direct=(factor,))
    expected = {(0.5, True): "direct=False", (2.0, False): "direct=True"}.get((factor, default))
    for line in (advice.shuffled, advice.in_order):
        assert line is not None
        assert ("options" in line) == (expected is not None)
        assert expected is None or f"options=ReadOptions({expected})" in line


@pytest.mark.parametrize(("factors", "advised"), [((1.1, 1.2, 1.5), True), ((0.99, 1.2, 1.5), False)])
def test_arguments_are_advised_only_where_every_round_is_faster_with_them(
    factors: tuple[float, ...], advised: bool
) -> None:
    advice = _advise(direct=factors, collective=(0.5,) * 3)
    assert ("direct=True" in str(advice.in_order)) == advised
    facts = replace(FACTS, n_ranks=4)
    advice = _advise(facts=facts, direct=(0.5,) * 3, collective=factors)
    assert ('io="collective"' in str(advice.in_order)) == advised


def test_several_ranks_pass_their_communicator_and_read_collectively_where_that_pays() -> None:
    facts = replace(FACTS, n_ranks=4, index="my.index")
    line = _advise(facts=facts, collective=(1.5,)).in_order
    assert line == (
        'ParallelReader(\'train.lmdb\', comm=MPI.COMM_WORLD, batch_size=64, order="sequential", io="collective", '
        "index='my.index')"
    )
    assert "collective" not in str(_advise(facts=facts, collective=(1.02,)).in_order)


def test_where_stock_is_faster_that_is_said_and_nothing_else_advised() -> None:
    advice = _advise({("cold", "sequential"): 80})
    assert advice.in_order is None
    assert advice.shuffled is not None
    assert advice.sentences[1].endswith("stock LMDB is the better choice here.")


def test_stock_is_advised_only_where_every_round_is_faster_with_it() -> None:
    others = [*measured(GET, [100]), *measured(BLOCK, [300]), *measured(GLOBAL, [300]), *measured(CURSOR, [100] * 3)]
    for last, is_stock in ((90, True), (101, False)):
        advice = advise(compare([*others, *measured(SEQUENTIAL, [50, 60, last])]), FACTS)
        assert (advice.in_order is None) == is_stock
        assert ("better choice" in advice.sentences[1]) == is_stock


def test_where_both_are_as_fast_ours_may_be_used() -> None:
    advice = _advise({("cold", "sequential"): 98})
    assert advice.in_order is not None
    assert advice.sentences[1].endswith("too close to tell.")


def test_values_without_bytes_are_told() -> None:
    done = [made for way in (CURSOR, GET, SEQUENTIAL, BLOCK, GLOBAL) for made in measured(way, [0])]
    advice = advise(compare(done), FACTS)
    assert advice.in_order is not None
    assert "no bytes" in advice.sentences[1]


HOT: dict[tuple[State, str], float] = {("warm", "key"): 9000, ("warm", "sequential"): 6000}


def test_for_a_file_that_stays_in_memory_later_epochs_decide_and_the_first_is_told() -> None:
    advice = _advise(HOT, states=("warm", "cold"), facts=STAYS, direct=(2.0,))
    assert advice.in_order is None
    assert advice.shuffled == "ParallelReader('train.lmdb', batch_size=64, order=\"block\")"
    heads = [sentence.partition(":")[0] for sentence in advice.sentences]
    assert heads == [
        "Shuffled, later epochs, from memory (warm)",
        "In order, later epochs, from memory (warm)",
        "Shuffled, first epoch, from storage (cold)",
        "In order, first epoch, from storage (cold)",
    ]
    assert "0.67 times as fast as stock cursor" in advice.sentences[1]
    assert advice.sentences[1].endswith("stock LMDB is the better choice here.")
    assert "3.00 times as fast as stock cursor" in advice.sentences[3]  # without direct reads


@pytest.mark.parametrize("states", [("cold",), ("warm", "cold")])
def test_direct_reads_are_never_advised_for_a_file_that_would_stay_in_memory(states: tuple[State, ...]) -> None:
    advice = _advise(states=states, facts=STAYS, direct=(2.0,))
    assert "direct" not in "".join([str(advice.shuffled), str(advice.in_order), *advice.sentences])


@pytest.mark.parametrize("facts", [FACTS, replace(STAYS, default_is_direct=True)])
def test_for_a_file_that_does_not_stay_only_reading_it_anew_counts(facts: Facts) -> None:
    advice = _advise(HOT, states=("warm", "cold"), facts=facts)
    assert advice.in_order is not None
    assert len(advice.sentences) == 2
    assert not any("memory" in sentence for sentence in advice.sentences)


@pytest.mark.parametrize("facts", [FACTS, STAYS, replace(FACTS, default_is_direct=True)])
def test_a_file_measured_only_hot_is_judged_by_that(facts: Facts) -> None:
    advice = _advise({("warm", "key"): 1000}, states=("warm",), facts=facts)
    assert advice.in_order is None
    assert "options" not in str(advice.shuffled)
    assert "from memory (warm)" in advice.sentences[1]
    assert len(advice.sentences) == 2


def test_the_most_nodes_count_and_growth_is_told() -> None:
    advice = _advise(counts=(1, 4), facts=replace(FACTS, n_ranks=8))
    assert advice.sentences[-1] == (
        "From 1 to 4 nodes: lmdbio independent in block order 4.00 times as fast, "
        "stock get in random order 4.00 times as fast."
    )
