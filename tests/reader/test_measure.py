from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from lmdbio.comm import SingleProcess
from lmdbio.errors import FormatError, MissingDatabaseError, MissingIndexError
from lmdbio.reader import measure as measure_module
from lmdbio.reader import page_cache
from lmdbio.reader.measure import Measurement, measure, open_subject
from lmdbio.reader.nodes import Nodes
from lmdbio.reader.runs import Run, plan_runs
from lmdbio.reader.survey import survey
from lmdbio.reader.ways import State
from tests.reader.made import make_datum_database

N = 200
ALONE = SingleProcess()


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of a megabyte."""
    folder = tmp_path_factory.mktemp("measure") / "x.lmdb"
    make_datum_database(folder, [(number * 997) % 9000 for number in range(N)])
    return folder


def _measure(
    folder: Path, state: State, *, rounds: int = 1, seconds: float = 0.01, seen: list[int] | None = None
) -> list[Measurement]:
    facts = survey(folder, comm=ALONE)
    runs = plan_runs(
        states=[state],
        node_counts=[1],
        nodes=facts.nodes,
        has_direct=facts.has_direct,
        rounds=rounds,
        time_limit_s=None,
    )
    runs = [replace(run, seconds=seconds) for run in runs]
    with open_subject(facts, None, comm=ALONE, batch_size=16) as (subject, _):
        return measure(
            subject, facts, runs, comm=ALONE, progress=lambda number, _: None if seen is None else seen.append(number)
        )


def test_the_facts_are_found(database: Path) -> None:
    facts = survey(database, comm=ALONE)
    assert (facts.database, facts.data) == (str(database), str(database / "data.mdb"))
    assert facts.file_size == (database / "data.mdb").stat().st_size
    assert (facts.n_records, facts.nodes) == (N, Nodes((0,)))
    assert facts.memory > 0


def test_what_is_no_database_or_an_empty_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingDatabaseError):
        survey(tmp_path, comm=ALONE)
    make_datum_database(tmp_path / "empty.lmdb", [])
    with pytest.raises(FormatError, match="empty"):
        survey(tmp_path / "empty.lmdb", comm=ALONE)


def test_a_cold_run_reads_each_record_once(database: Path) -> None:
    seen: list[int] = []
    done = _measure(database, "cold", rounds=2, seconds=10, seen=seen)
    assert seen == list(range(len(done)))
    assert set(Counter(measured.run.way for measured in done).values()) == {2}
    for measured in done:
        assert measured.n_bytes > 0
        assert measured.seconds > 0
        assert measured.n_records == (0 if measured.run.way.by == "plain" else N)


def test_a_warm_run_repeats_its_sample_until_its_time_is_up(database: Path) -> None:
    done = _measure(database, "warm")
    assert all(measured.seconds >= 0.01 for measured in done)
    assert all(measured.cached_share is None for measured in done)


def test_each_cold_run_finds_the_page_cache_emptied(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    emptied: list[str] = []
    monkeypatch.setattr(page_cache, "empty", lambda path: emptied.append(path))
    monkeypatch.setattr(page_cache, "cached_share", lambda path: 0.01)
    done = _measure(database, "cold")
    assert emptied == [str(database / "data.mdb")] * len(done)
    assert {(measured.run.state, measured.cached_share) for measured in done} == {("cold", 0.01)}


@pytest.mark.parametrize("share", [0.5, None])
def test_a_file_that_stays_in_memory_is_said_to_be_read_as_found(
    database: Path, monkeypatch: pytest.MonkeyPatch, share: float | None
) -> None:
    shares = iter([0.0] * 3)
    monkeypatch.setattr(page_cache, "cached_share", lambda path: next(shares, share))
    assert {measured.run.state for measured in _measure(database, "cold")} == {"as found"}


def test_rounds_after_the_first_are_left_out_when_the_time_is_up(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure_module, "ends_of_states", lambda runs: {"warm": 0.0})
    seen: list[int] = []
    done = _measure(database, "warm", rounds=3, seen=seen)
    assert {measured.run.round for measured in done} == {0}
    assert len(seen) == len(done)


def test_without_an_index_one_is_made_and_goes_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "x.lmdb"
    make_datum_database(folder, [5000] * 10)
    (folder / "data.mdb.index").unlink()
    facts = survey(folder, comm=ALONE)
    with open_subject(facts, None, comm=ALONE, batch_size=1) as (subject, made_s):
        assert made_s is not None
        assert len(subject.index) == 10
        assert subject.index_path is not None
        assert Path(subject.index_path).is_file()
    assert not Path(subject.index_path).exists()
    assert [path.name for path in folder.iterdir()] == ["data.mdb"]
    with pytest.raises(MissingIndexError), open_subject(facts, tmp_path / "none", comm=ALONE, batch_size=1):
        pass


def test_a_run_says_what_it_was(database: Path) -> None:
    facts = survey(database, comm=ALONE)
    runs = plan_runs(
        states=["warm"], node_counts=[1], nodes=facts.nodes, has_direct=False, rounds=1, time_limit_s=None
    )[:2]
    runs = [replace(run, seconds=0.01) for run in runs]
    told: list[tuple[int, Run]] = []
    with open_subject(facts, None, comm=ALONE, batch_size=16) as (subject, _):
        done = measure(subject, facts, runs, comm=ALONE, progress=lambda *words: told.append(words))
    assert told == list(enumerate(runs))
    assert [measured.run for measured in done] == runs
