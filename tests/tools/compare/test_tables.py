from dataclasses import replace
from pathlib import Path

import pytest

from tools.compare.charts import figures_of
from tools.compare.questions import Question
from tools.compare.results import Results, Run
from tools.compare.tables import document

_SETTINGS = {"date": "2026-01-02", "command": "python -m tools.compare", "rounds": 1, "cold": "sync", "batch_size": 64}
_MACHINE = {
    "processor": "P",
    "cores": 2,
    "memory": 8 << 30,
    "kernel": "Linux 6",
    "file_systems": {"local": {"type": "ext4", "read_ahead": 128 << 10}},
}


@pytest.fixture
def results() -> Results:
    question = Question("read", "photos", "local", "cold", "sequential", 1)
    facts = {"n_records": 1000, "n_bytes": 100_000_000, "cpu_s": 0.1}
    runs = [
        Run(question.name, 0, "stock", "cursor", "none", seconds=1.0, **facts),
        Run(question.name, 0, "lmdbio", "sequential", "once", seconds=0.25, **facts),
        Run(question.name, 0, "dd", "8 x 1 MiB direct", "none", seconds=0.2, **facts),
        Run(question.name, 0, "cheat", "fast", "none", failure="expected every record, found 1 missing"),
        Run(question.name, 0, "pads", "whole", "none", seconds=2.0, n_repeated=24, **facts),
    ]
    versions = {"stock": {"lmdb": "1.6.2"}, "lmdbio": {"lmdb": "1.6.2", "numpy": "2.0"}}
    return Results(_SETTINGS, _MACHINE, [question], versions, runs, ["files: left out"])


def _cells(text: str, start: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {start} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_table_says_rates_the_part_of_dd_and_how_many_times_as_fast_lmdbio_is(results: Results) -> None:
    text = document(results)
    header = _cells(text, "contestant")
    stock = dict(zip(header, _cells(text, "stock"), strict=True))
    assert (stock["records/s"], stock["MB/s"], stock["of dd"], stock["lmdbio is"]) == ("1,000", "100", "0.20", "4.00 x")
    ours = dict(zip(header, _cells(text, "**lmdbio**"), strict=True))
    assert (ours["MB/s"], ours["of dd"], ours["lmdbio is"], ours["CPU µs/record"]) == ("400", "0.80", "", "100.0")


def test_what_failed_stands_in_the_table_with_its_reason_and_without_a_figure(results: Results) -> None:
    cheat = _cells(document(results), "cheat")
    assert cheat[2] == "failed: expected every record, found 1 missing"
    assert not any(cheat[3:])


def test_values_given_again_are_told(results: Results) -> None:
    assert _cells(document(results), "pads")[2] == "none, 24 again"


def test_columns_that_nobody_fills_are_left_out(results: Results) -> None:
    assert "second epoch MB/s" not in _cells(document(results), "contestant")


def test_the_conditions_name_machine_file_system_versions_and_what_was_left_out(results: Results) -> None:
    text = document(results)
    for part in ("P, 2 cores, 8 GiB", "local: ext4, read-ahead 128 KiB", "lmdb 1.6.2, numpy 2.0", "- files: left out"):
        assert part in text


def test_the_conditions_tell_how_many_rounds_there_were_where_time_was_up(results: Results) -> None:
    assert "- 1 round, all contestants in turn" in document(results)
    assert "100 MB, 1 round (`" in document(results)
    other = Question("read", "photos", "local", "warm", "sequential", 1)
    results.questions.append(other)
    runs = [replace(run, question=other.name, round=number) for run in results.runs for number in range(3)]
    results.runs += runs
    results.settings = results.settings | {"rounds": 5}
    assert "- 1 to 3 rounds of the 5 asked for, all contestants in turn" in document(results)
    assert "100 MB, 3 rounds (`" in document(results)


def test_results_come_back_from_json_as_they_were(results: Results, tmp_path: Path) -> None:
    results.save(tmp_path / "results.json")
    assert Results.load(tmp_path / "results.json") == results


def test_results_of_another_format_are_refused(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text('{"format": 99}')
    with pytest.raises(ValueError, match="expected results of format 1, found 99"):
        Results.load(tmp_path / "results.json")


def test_a_store_that_does_not_hold_all_strikes_the_times_of_storing_it_alone(results: Results) -> None:
    results.questions.append(Question("convert", "photos", "local", "cold"))
    results.runs.append(Run("convert-photos-local-cold", 0, "stock", "", "", seconds=1.0))
    results.fail("stock", work="convert", reason="what it stored: nothing")
    assert [run.failure for run in results.runs if run.contestant == "stock"] == [None, "what it stored: nothing"]


def test_questions_that_differ_in_processes_only_share_a_figure(results: Results) -> None:
    other = Question("read", "photos", "local", "cold", "sequential", 2)
    empty = Question("read", "photos", "local", "warm", "sequential", 2)
    results.questions += [other, empty]
    results.runs.append(Run(other.name, 0, "stock", "cursor", "none", seconds=1.0, n_records=1, n_bytes=1))
    assert figures_of(results) == {"read-photos-local-cold-sequential": [results.questions[0], other]}
