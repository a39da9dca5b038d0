import argparse
from typing import Any

import pytest

from tools.ablation.__main__ import make_plan as plan_ablation
from tools.ablation.__main__ import parse_arguments as parse_ablation
from tools.compare.__main__ import Plan, make_plan, parse_arguments
from tools.compare.estimates import run_s, trials_s
from tools.compare.questions import Question

_LOCAL = Question("read", "lognormal", "local", "cold", "sequential", 1)
_TESTBED = Question("read", "lognormal", "testbed", "cold", "sequential", 2)


def _run_s(question: Question, contestant: str = "lmdbio", n_records: int = 5_000) -> float:
    return run_s(question, contestant, n_records=n_records, n_bytes=n_records * 110_000)


def test_a_run_takes_longer_with_more_records_on_the_testbed_and_with_a_second_epoch() -> None:
    assert _run_s(_LOCAL) < _run_s(_LOCAL, n_records=50_000)
    assert _run_s(_LOCAL) < _run_s(_TESTBED)
    assert _run_s(_TESTBED, "lmdbio") < _run_s(_TESTBED, "stock")
    assert _run_s(_LOCAL, "lmdbio") == _run_s(_LOCAL, "stock")


def test_each_condition_is_tried_by_dd_once() -> None:
    size = [10**8]
    assert trials_s([_LOCAL, _LOCAL], size * 2) == trials_s([_LOCAL], size) > 0
    assert trials_s([_LOCAL, _TESTBED], size * 2) > 2 * trials_s([_LOCAL], size)
    assert trials_s([Question("convert", "photos", "local", "cold")], size) == 0


def _plan(*arguments: str) -> Plan:
    return make_plan(parse_arguments(arguments))


def test_what_was_measured_on_the_testbed_is_about_what_is_estimated() -> None:
    plan = _plan(
        *("--questions", "read-lognormal-testbed-cold-*", "--place", "testbed", "--contestants", "lmdbio"),
        *("arrayrecord", "--ways", "sequential direct", "block direct", "global direct", "sequential", "shuffled"),
        *("--rounds", "3", "--records", "5000"),
    )
    assert plan.n_runs == 108
    assert 600 < plan.expected_s < 1200  # it took 900 s


def test_ceilings_count_as_rows_where_there_are_any() -> None:
    lmdbio = ("--contestants", "lmdbio", "--ways", "block", "--questions")
    assert _plan(*lmdbio, "convert-*-cold", "read-photos-local-cold-shuffled-1").rows == [
        ["lmdbio", "cp"],
        ["lmdbio", "dd", "dd", "dd"],
    ]
    assert _plan(*lmdbio, "decode-*-local-cold-shuffled-1").rows == [["lmdbio"]]


def test_an_ablation_takes_longer_with_more_of_anything() -> None:
    def expected_s(*arguments: str) -> float:
        options: argparse.Namespace | Any = parse_ablation(["--records", "1024", "--only", "shuffle:*", *arguments])
        return plan_ablation(options).expected_s

    least = expected_s("--nodes", "1", "--sizes", "3KB")
    assert expected_s("--nodes", "1", "--sizes", "3KB", "--rounds", "10") == pytest.approx(2 * least, rel=0.1)
    for arguments in (
        ["--nodes", "1", "2", "--sizes", "3KB"],
        ["--nodes", "1", "--sizes", "3KB", "--place", "testbed"],
    ):
        assert expected_s(*arguments) > 1.5 * least
