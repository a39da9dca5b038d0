import pytest

from tools.compare.__main__ import parse_arguments
from tools.compare.ceilings import choose, trial_ways
from tools.compare.questions import SHORT, all_questions, select


def test_every_question_has_a_name_of_its_own() -> None:
    names = [question.name for question in all_questions()]
    assert len(set(names)) == len(names)


def test_questions_are_chosen_by_pattern_and_place() -> None:
    chosen = select(["read-photos-*-4", "convert-*-cold"], places=["local"])
    assert {question.name for question in chosen} == {
        "convert-photos-local-cold",
        *(f"read-photos-local-{cache}-{order}-4" for cache in ("cold", "warm") for order in ("sequential", "shuffled")),
    }


def test_a_pattern_that_matches_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected the name of one, or a pattern, found 'reed-\*'"):
        select(["reed-*"], places=["local"])


def test_a_pattern_of_questions_that_are_asked_elsewhere_is_refused() -> None:
    with pytest.raises(ValueError, match=r"asked at local, found 'read-tiny-testbed-\*', which is asked at testbed"):
        select(["convert-*", "read-tiny-testbed-*"], places=["local"])
    assert len(select(["convert-*", "read-tiny-testbed-*"], places=["local", "testbed"])) == 8


def test_the_short_form_stores_and_reads_cold_and_warm_in_both_orders() -> None:
    chosen = select(SHORT, places=["local"])
    assert {(question.work, question.cache, question.order) for question in chosen} == {
        *(("convert", cache, None) for cache in ("cold", "warm")),
        *(("read", cache, order) for cache in ("cold", "warm") for order in ("sequential", "shuffled")),
    }


def test_data_sets_come_one_after_the_other_so_that_each_is_stored_once() -> None:
    kinds = [question.data for question in all_questions()]
    assert len(list(dict.fromkeys(kinds))) == sum(a != b for a, b in zip(["", *kinds], kinds, strict=False))


def test_the_fastest_ways_of_dd_take_part() -> None:
    ways = trial_ways(cold=True)
    fastest = ways[5]
    assert choose(ways, lambda way: 1.0 if way == fastest else 2.0)[0] == fastest
    assert not any(way.direct for way in trial_ways(cold=False))


def test_the_default_is_the_short_form_here() -> None:
    options = parse_arguments([])
    assert (tuple(options.questions), options.place, options.rounds) == (SHORT, ["local"], 5)
