import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tools.ablation.results import Result
from tools.ablation.results import Results as Ablation
from tools.ablation.runs import Run as RunOfAblation
from tools.compare.performance import BEGIN, END, load_folder, main, measured_text, write_measured
from tools.compare.questions import Question
from tools.compare.results import Results, Run


def test_only_what_is_between_the_marks_is_written_anew(tmp_path: Path) -> None:
    document = tmp_path / "performance.md"
    document.write_text(f"by hand\n\n{BEGIN}\nold\n{END}\n\nby hand, too\n")
    pictures = [tmp_path / run / "a.png" for run in ("one", "two")]
    for picture in pictures:
        picture.parent.mkdir()
        picture.write_bytes(picture.parent.name.encode())
    for text in ("first\n", "new\n"):
        write_measured(document, text, pictures=pictures)
    text = document.read_text()
    assert text.startswith("by hand\n\n")
    assert text.endswith(f"{END}\n\nby hand, too\n")
    assert "old" not in text
    assert "first" not in text
    assert "new\n\n![a](performance/one-a.png)\n\n![a](performance/two-a.png)\n" in text
    assert (tmp_path / "performance/two-a.png").read_bytes() == b"two"


def test_a_document_without_marks_is_left_alone(tmp_path: Path) -> None:
    document = tmp_path / "performance.md"
    document.write_text("by hand\n")
    with pytest.raises(ValueError, match=r"performance\.md: expected the lines .* found none"):
        write_measured(document, "new", pictures=[])
    assert document.read_text() == "by hand\n"


def test_a_document_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"new\.md: expected a markdown file .* found no file"):
        write_measured(tmp_path / "new.md", "text", pictures=[])
    assert not list(tmp_path.iterdir())


def _comparison(*, seconds: float = 1.0) -> Results:
    question = Question("convert", "photos", "local", "cold")
    settings = {"date": "2026-01-02", "command": "one", "rounds": 1, "cold": "sync", "batch_size": 64}
    machine = {"processor": "P", "cores": 2, "memory": 8 << 30, "kernel": "Linux 6", "file_systems": {}}
    runs = [Run(question.name, 0, "lmdbio", "", "", seconds=seconds, n_records=10, n_bytes=10**6, cpu_s=0.1)]
    return Results(settings, machine, [question], runs=runs)


def _ablation() -> Ablation:
    run = RunOfAblation("shuffle", "block")
    result = Result("local", "3KB", 1, 0, run, 1.0, 0.1, 0.2, records=300, n_bytes=9_000_000, digest=7)
    settings = {"date": "2026-01-02", "command": "two", "rounds": 1, "batch_size": 256, "stock_s": 8}
    return Ablation(settings, {}, results=[result, replace(result, run=RunOfAblation("sorted", "global"), seconds=3)])


def test_a_summary_comes_first_and_then_each_run_in_the_order_given(tmp_path: Path) -> None:
    _comparison().save(tmp_path / "results.json")
    _ablation().save(tmp_path / "ablation.json")
    text = measured_text(load_folder(tmp_path))
    places = [
        text.index(part)
        for part in ("### In short", "| Convert", "in short", "3.00 (3.00 to 3.00) |\n", "    one\n", "    two\n")
    ]
    assert places == sorted(places)
    assert "In short" not in measured_text([_ablation()])


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "expected the folder of a run, with results.json or ablation.json, found neither"),
        ("{", r"results\.json: expected JSON, found a damaged file"),
        ("[]", r"results\.json: expected a JSON object, found list"),
        ('{"format": 1}', r"results\.json: expected the results of a comparison, found others"),
    ],
)
def test_a_folder_without_results_ends_the_command_with_one_line_and_the_document_as_it_was(
    content: str | None,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = tmp_path / "performance.md"
    document.write_text(f"{BEGIN}\nold\n{END}\n")
    if content is not None:
        (tmp_path / "results.json").write_text(content)
    monkeypatch.setattr(sys, "argv", ["performance", str(document), str(tmp_path)])
    with pytest.raises(SystemExit) as raised:
        main()
    assert raised.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.match(f"performance: .*{expected}", line)
    assert document.read_text() == f"{BEGIN}\nold\n{END}\n"
