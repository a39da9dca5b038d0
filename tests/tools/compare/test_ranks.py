import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.tools.compare import fakes
from tools.compare.data import DataSet, Synthetic
from tools.compare.digests import expect
from tools.compare.entrants import Conditions, Reading, Storing
from tools.compare.questions import Question
from tools.compare.ranks import Job, RankFailure, RankGroup

_ALONE, _TWO = (Question("read", "tiny", "local", "warm", "sequential", processes) for processes in (1, 2))


@pytest.fixture
def conditions(tmp_path: Path) -> Conditions:
    data = DataSet("tiny", 40, 0)
    return Conditions(data, expect(Synthetic(data), tmp_path / "tiny.npz"), tmp_path, 8, 0, 60.0)


def _reading(name: str, *, way: int = 0) -> Reading:
    fake = getattr(fakes, name)
    return Reading(fake, f"{fakes.__name__}:{name}", fake.ways[way], sys.executable, {})


def _read(
    name: str, conditions: Conditions, tmp_path: Path, *, way: int = 0, question: Question = _ALONE
) -> list[dict[str, float]]:
    target = tmp_path / "store"
    if not target.exists():
        getattr(fakes, name).convert(Synthetic(conditions.data), target)
    return _reading(name, way=way).run(question, conditions, [target] * question.processes, lambda: None)


def test_ranks_that_give_every_record_are_timed_from_the_first_start_to_the_last_end(
    conditions: Conditions, tmp_path: Path
) -> None:
    begun = time.monotonic()
    (facts,) = _read("HONEST", conditions, tmp_path, question=_TWO)
    assert begun < facts["start"] < facts["end"] < time.monotonic()
    assert facts["n_repeated"] == 0
    assert facts["peak_memory"] > 0


def test_ranks_under_mpiexec_say_the_same(conditions: Conditions, tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    (facts,) = _read("HONEST", conditions, tmp_path, way=1, question=_TWO)
    assert facts["n_repeated"] == 0


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("SKIPS", "expected every record, found 1 missing and 0 with other bytes"),
        ("SWAPS", "expected every record, found 1 missing and 0 with other bytes"),
        ("ALTERS", "expected every record, found 1 missing and 1 with other bytes"),
        ("RAISES", "rank 0: ValueError: expected sense, found none"),
        ("DIES", "rank 0 ended without a word"),
    ],
)
def test_a_contestant_that_does_not_give_every_record_fails_with_the_reason(
    name: str, reason: str, conditions: Conditions, tmp_path: Path
) -> None:
    with pytest.raises(RankFailure, match=reason):
        _read(name, conditions, tmp_path)


def test_a_value_given_again_is_told_and_no_fault(conditions: Conditions, tmp_path: Path) -> None:
    (facts,) = _read("REPEATS", conditions, tmp_path)
    assert facts["n_repeated"] == 1


def test_a_contestant_that_hangs_is_ended_in_time_with_all_that_it_started(
    conditions: Conditions, tmp_path: Path
) -> None:
    with pytest.raises(RankFailure, match="expected 'done' of rank 0 after 'epoch' within 6 s, found none"):
        _read("HANGS", replace(conditions, timeout_s=6.0), tmp_path)
    for pid in (tmp_path / "store" / "pids").read_text().split():
        status = Path(f"/proc/{pid}/status")
        assert not status.exists() or "State:\tZ" in status.read_text()


def test_a_contestant_that_cannot_store_fails_with_the_reason(conditions: Conditions, tmp_path: Path) -> None:
    storing = Storing(fakes.CANNOT_STORE, f"{fakes.__name__}:CANNOT_STORE", sys.executable, {})
    with pytest.raises(RankFailure, match="rank 0: OSError: no room"):
        storing.run(Question("convert", "tiny", "local", "warm"), conditions, [tmp_path / "store"], lambda: None)


def test_a_contestant_whose_environment_is_broken_fails_with_what_it_printed(
    conditions: Conditions, tmp_path: Path
) -> None:
    broken = Reading(fakes.HONEST, "no.such.module:NAME", fakes.HONEST.ways[0], sys.executable, {})
    with pytest.raises(RankFailure, match="No module named 'no'"):
        broken.run(_ALONE, conditions, [tmp_path], lambda: None)


def test_versions_are_looked_up_once_by_one_rank(conditions: Conditions, tmp_path: Path) -> None:
    fakes.HONEST.convert(Synthetic(conditions.data), tmp_path / "store")
    reading = _reading("HONEST")
    folders = [tmp_path / "store"] * 2
    reading.run(_TWO, conditions, folders, lambda: None)
    assert reading.versions["honest"]["numpy"] == np.__version__
    reading.run(_TWO, conditions, folders, lambda: None)
    assert reading.versions["honest"]["numpy"] == np.__version__
    arguments = [*conditions.arguments(reading.name, folders), "--way", reading.way]
    with RankGroup(Job(sys.executable, arguments, 2, False, 1, 60.0)) as group:
        assert group.versions == {}
        group.ask("open", "ready")
