import io

import pytest

from lmdbio.cli.progress import Progress


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class _Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def _run(stream: io.StringIO, *, quiet: bool = False, steps: int = 25) -> str:
    held = _Clock()
    with Progress(quiet=quiet, stream=stream, clock=held) as progress:
        progress.begin("train", 25_000)
        for step in range(1, steps + 1):
            held.now += 1
            progress(1000 * step, 50_000_000 * step)
    return stream.getvalue()


def test_a_log_gets_a_plain_line_every_ten_seconds() -> None:
    assert _run(io.StringIO()).splitlines() == [
        "train: 10,000 of 25,000 records, 50.0 MB/s",
        "train: 20,000 of 25,000 records, 50.0 MB/s",
    ]


def test_a_short_run_leaves_nothing_in_the_log() -> None:
    assert _run(io.StringIO(), steps=9) == ""


def test_a_terminal_gets_a_bar_with_records_and_rate_and_gets_it_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmdbio.cli.progress._BAR_EVERY_S", 0)
    shown = _run(_Terminal())
    assert "train" in shown
    assert "25000" in shown
    assert "MB/s" in shown
    assert shown.rsplit("\r", 1)[-1].strip() == ""


@pytest.mark.parametrize("stream", [io.StringIO(), _Terminal()])
def test_quiet_shows_nothing(stream: io.StringIO) -> None:
    assert _run(stream, quiet=True) == ""


def test_only_rank_0_shows_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PMI_RANK", "1")
    monkeypatch.setenv("PMI_SIZE", "2")
    assert _run(io.StringIO()) == ""


def test_a_new_beginning_counts_anew() -> None:
    stream, clock = io.StringIO(), _Clock()
    progress = Progress(quiet=False, stream=stream, clock=clock)
    progress.begin("train", 10)
    progress(10, 10)
    progress.begin("val")
    clock.now += 10
    progress(3, 10_000_000)
    assert stream.getvalue() == "val: 3 records, 1.0 MB/s\n"
