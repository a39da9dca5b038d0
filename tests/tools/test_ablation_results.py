from dataclasses import replace
from pathlib import Path

import pytest

from tools.ablation.__main__ import chosen, parse_arguments
from tools.ablation.findings import bar_lines, findings
from tools.ablation.report import document, summary
from tools.ablation.results import Quality, Result, Results, Spread, check, rates, ratio
from tools.ablation.runs import BARS, RUNS, Run
from tools.ablation.shuffle_quality import ShuffleQuality

BLOCK, PLAIN = Run("shuffle", "block"), Run("sorted", "global")
SETTINGS = {"date": "2026-01-02", "command": "python -m tools.ablation", "rounds": 2, "batch_size": 256, "stock_s": 8}


def result(run: Run, seconds: float, *, number: int = 0, nodes: int = 1, **more: int) -> Result:
    facts = {"records": 300, "n_bytes": 9_000_000, "digest": 7} | more
    return Result("testbed", "3KB", nodes, number, run, seconds, 0.1, 0.2, **facts)


def results_of(*found: Result) -> Results:
    quality = ShuffleQuality(1.0123, 0.3345, 0.9876)
    return Results(SETTINGS, {"cores": 2}, [Quality("3KB", BLOCK, quality)], list(found))


def test_ratios_are_taken_within_a_round_and_rounds_of_one_alone_do_not_count() -> None:
    found = [result(BLOCK, 1, number=0), result(PLAIN, 4, number=0), result(BLOCK, 2, number=1)]
    found += [result(PLAIN, 16, number=1), result(PLAIN, 1, number=2), result(PLAIN, 1, number=0, nodes=2)]
    assert ratio(found, BLOCK, PLAIN, nodes=1) == Spread(4, 6, 8)
    assert ratio(found, BLOCK, PLAIN, nodes=2) is None
    assert rates(found, BLOCK, nodes=1) == {0: 9e6, 1: 4.5e6}


def test_results_come_back_from_json(tmp_path: Path) -> None:
    results = results_of(result(BLOCK, 1), result(PLAIN, 4))
    results.save(tmp_path / "ablation.json")
    assert Results.load(tmp_path / "ablation.json") == results
    (tmp_path / "damaged.json").write_text('{"format": 1, "results": [{}]}')
    with pytest.raises(ValueError, match=r"damaged\.json: expected the results of an ablation, found others"):
        Results.load(tmp_path / "damaged.json")
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(ValueError, match="expected an ablation's results of format 1"):
        Results.load(tmp_path / "other.json")


def test_a_run_that_read_other_bytes_is_refused_and_stock_stopped_early_is_not() -> None:
    stopped = result(Run("random", "cursor"), 1, records=20, digest=99)
    check([result(BLOCK, 1), result(PLAIN, 1), stopped])
    with pytest.raises(RuntimeError, match="3KB: expected all runs to read the same"):
        check([result(BLOCK, 1), result(PLAIN, 1, digest=8)])
    with pytest.raises(RuntimeError, match="expected all runs to read the same"):
        check([result(BLOCK, 1), result(PLAIN, 1, records=299)])
    with pytest.raises(RuntimeError, match="expected all runs to read the same"):
        check([result(BLOCK, 1), replace(stopped, records=300)])


@pytest.mark.parametrize(("seconds", "verdict"), [(5.0, "met"), (4.9, "**missed**")])
def test_a_bar_is_met_from_its_ratio_on(seconds: float, verdict: str) -> None:
    (line,) = bar_lines([result(BLOCK, 1), result(PLAIN, seconds)], BARS[0], kind="3KB")
    assert line.startswith(f"`shuffle` block against `sorted` global, 1 node: {seconds:.2f} ")
    assert line.endswith(f"times as fast, expected 5: {verdict}")


def test_a_bar_of_the_testbed_says_nothing_of_the_local_disk() -> None:
    found = [replace(one, place="local") for one in (result(BLOCK, 1), result(PLAIN, 9))]
    assert bar_lines(found, BARS[0], kind="3KB") == []


@pytest.mark.parametrize(
    ("seconds", "verdict"),
    [
        ([2.0, 3.0], "pays"),
        ([1.05, 0.95], "**buys nothing**"),
        ([0.4, 0.5], "**costs**"),
        ([0.5, 9.0], "within the spread of the rounds"),
    ],
)
def test_findings_say_what_pays_and_what_buys_nothing(seconds: list[float], verdict: str) -> None:
    found = [result(BLOCK, 1, number=number) for number in range(2)]
    found += [result(PLAIN, second, number=number) for number, second in enumerate(seconds)]
    (line,) = findings(found)
    assert line.startswith(f"a layout in which `block` does for `global`: {verdict};")


def test_the_document_has_a_row_for_each_run_with_its_quality_and_ratio() -> None:
    text = document(results_of(result(BLOCK, 1), result(PLAIN, 6), result(Run("random", "cursor"), 9, records=20)))
    assert "### 3KB records, testbed\n\n300 records of 3,072 bytes each, 9 MB." in text
    assert "| `shuffle` | block | 1.01 | 0.33 | 0.99 | 9.00 (9.00 to 9.00) | 6.00 (6.00 to 6.00) |" in text
    assert "| `sorted` | global |  |  |  | 1.50 (1.50 to 1.50) | 1 |" in text
    assert "| `random` | cursor | 1.00 (1.00 to 1.00) | 1 |" in text
    assert "expected 5: met" in text


def test_the_document_tells_how_many_rounds_there_were() -> None:
    found = [result(BLOCK, 1, number=0), result(BLOCK, 1, number=1), result(PLAIN, 6)]
    assert "- 1 to 2 rounds of the 2 asked for, all runs in turn" in document(results_of(*found))
    assert "- 2 rounds, all runs in turn" in document(results_of(*found[:2]))


def test_the_summary_has_a_line_for_each_main_ratio_that_was_measured() -> None:
    local = [replace(one, place="local") for one in (result(BLOCK, 1, nodes=2), result(PLAIN, 3, nodes=2))]
    header, _, *lines = summary([results_of(result(BLOCK, 1), result(PLAIN, 6)), results_of(*local)]).splitlines()
    assert header.endswith("| 1 node | 2 nodes |")
    assert [line.split("|")[1:3] + line.split("|")[4:6] for line in lines] == [
        [" 3KB ", " testbed ", " 6.00 (6.00 to 6.00) ", "  "],
        [" 3KB ", " local ", "  ", " 3.00 (3.00 to 3.00) "],
    ]


def test_runs_are_chosen_by_pattern() -> None:
    assert chosen(["*"]) == RUNS
    assert chosen(["sorted:global", "shuffle:bl*"]) == (PLAIN, BLOCK)
    with pytest.raises(ValueError, match=r"--only: expected some of sorted:sequential .* found 'nosuch'"):
        chosen(["sorted:global", "nosuch"])
    assert parse_arguments(["--nodes", "1", "4", "--place", "testbed"]).nodes == [1, 4]
