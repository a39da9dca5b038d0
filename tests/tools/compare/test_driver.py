import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.tools.compare import fakes
from tools.compare import caches, ceilings
from tools.compare.driver import Driver, Settings
from tools.compare.figures import rows_of
from tools.compare.members import Member
from tools.compare.questions import Question
from tools.compare.results import Results
from tools.compare.rounds import Clock

_CONVERT = Question("convert", "photos", "local", "warm")
_READ = Question("read", "photos", "local", "warm", "sequential", 1)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A cache that holds photographs, of sorts."""
    monkeypatch.setattr(caches.os, "sync", lambda: None)  # what else this machine writes is not for a test to wait for
    monkeypatch.setattr(ceilings, "trial_ways", lambda *, cold: [ceilings.DdWay(1, 1 << 20, direct=False)])
    rng = np.random.default_rng(0)
    for number in range(12):
        path = tmp_path / "data" / "photos-12-0" / "train" / f"n{number % 3}" / f"{number}.JPEG"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(rng.bytes(5000))
    return Settings(tmp_path, tmp_path / "stores", tmp_path / "results.json", 1, 12, 4, 0, 60.0)


def _ask(
    settings: Settings, names: list[str], questions: list[Question], *, limit_s: float | None = None, n_rounds: int = 1
) -> Results:
    members = []
    for name in names:
        fake = getattr(fakes, name)
        members.append(Member(f"{fakes.__name__}:{name}", fake, fake.ways[:1], sys.executable))
    results = Results({}, {"file_systems": {}}, questions)
    Driver(replace(settings, n_rounds=n_rounds), members, results, Clock(10, limit_s)).ask(questions)
    return results


def test_each_contestant_stores_and_reads_and_the_stores_are_gone_in_the_end(settings: Settings) -> None:
    results = _ask(settings, ["HONEST", "SKIPS"], [_CONVERT, _READ])
    stored = {row.contestant: row.failure for row in rows_of(results.runs, _CONVERT.name)}
    # What the second one stored was fine for all that is known, but nobody could read it.
    assert stored == {"honest": None, "cp -r": None, "skips": stored["skips"]}
    assert "1 missing" in str(stored["skips"])
    read = {row.contestant: row for row in rows_of(results.runs, _READ.name)}
    assert read["honest"].failure is None
    assert read["honest"].n_records == 12
    assert len([run for run in results.runs if run.contestant == "dd"]) == 2
    assert not any(path for path in settings.stores.rglob("*") if path.is_file())
    assert Results.load(settings.results).runs == results.runs
    assert results.versions["honest"]["numpy"] == np.__version__


def test_one_that_stores_too_little_or_nothing_is_struck_and_the_others_go_on(settings: Settings) -> None:
    results = _ask(settings, ["STORES_TOO_LITTLE", "CANNOT_STORE", "HONEST"], [_CONVERT, _READ], n_rounds=2)
    stored = {row.contestant: row.failure or "" for row in rows_of(results.runs, _CONVERT.name)}
    assert "what it stored: expected every record, found 1 missing" in stored["stores too little"]
    assert "no room" in stored["cannot store"]
    assert stored["honest"] == ""
    assert [run.contestant for run in results.runs].count("cannot store") == 1  # it did not run again
    good = {row.contestant for row in rows_of(results.runs, _READ.name) if not row.failure}
    assert good == {"honest", "dd"}


def test_when_time_is_up_no_further_round_begins_and_that_is_told(settings: Settings) -> None:
    results = _ask(settings, ["HONEST"], [_CONVERT], limit_s=-1.0)
    assert not results.runs
    assert results.notes == ["convert-photos-local-warm: time was up after 0 rounds"]
