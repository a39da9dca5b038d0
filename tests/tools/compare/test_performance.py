from pathlib import Path

import pytest

from tools.compare.performance import BEGIN, END, measured_text, write_measured


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


def test_a_document_that_is_not_there_is_made(tmp_path: Path) -> None:
    write_measured(tmp_path / "new.md", "text", pictures=[])
    assert BEGIN in (tmp_path / "new.md").read_text()


def test_results_of_several_runs_follow_each_other(tmp_path: Path) -> None:
    for name in ("second", "first"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.md").write_text(f"{name} run\n")
    assert measured_text([tmp_path / "first", tmp_path / "second"]) == "first run\n\nsecond run"
    with pytest.raises(FileNotFoundError, match="expected the folder of a run"):
        measured_text([tmp_path])
