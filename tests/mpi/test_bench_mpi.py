"""Several ranks measure one database: all learn what those of the first nodes did, and fail together."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from mpi4py import MPI

from lmdbio.errors import MissingDatabaseError, ReadError
from lmdbio.reader import page_cache
from lmdbio.reader import stock as stock_module
from lmdbio.reader.measure import Measurement, measure, open_subject
from lmdbio.reader.nodes import Nodes, PatientComm, find_nodes
from lmdbio.reader.runs import plan_runs
from lmdbio.reader.survey import Survey, survey
from tests.reader.made import make_datum_database

COMM = MPI.COMM_WORLD
RANK, SIZE = COMM.Get_rank(), COMM.Get_size()
N = 203
ORDERS = ("key", "random", "sequential", "block", "global", "file")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Path]:
    """A database of rank 0's."""
    folder = Path(COMM.bcast(str(tmp_path / "x.lmdb")))
    if RANK == 0:
        make_datum_database(folder, [(number * 997) % 9000 for number in range(N)])
    COMM.Barrier()
    yield folder
    COMM.Barrier()


def _two_nodes(facts: Survey) -> Survey:
    """Return the facts as if every second rank ran on another node."""
    return replace(facts, nodes=Nodes(tuple(rank % 2 for rank in range(SIZE))))


def _measure(folder: Path, facts: Survey, *, counts: list[int], orders: tuple[str, ...] = ORDERS) -> list[Measurement]:
    runs = plan_runs(
        states=["cold"], node_counts=counts, nodes=facts.nodes, has_direct=False, rounds=1, time_limit_s=None
    )
    # enough time for all there is
    runs = [replace(run, seconds=30.0) for run in runs if run.way.order in orders and run.way.readahead]
    with open_subject(facts, None, comm=COMM, batch_size=8) as (subject, _):
        return measure(subject, facts, runs, comm=COMM, progress=lambda number, run: None)


@pytest.fixture(autouse=True)
def _leave_the_page_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "empty", lambda path: None)
    monkeypatch.setattr(page_cache, "cached_share", lambda path: 0.0)


def test_the_nodes_are_those_that_mpi_tells_of() -> None:
    nodes = find_nodes(COMM)
    local = COMM.Split_type(MPI.COMM_TYPE_SHARED)
    assert nodes.node_of.count(nodes.node_of[RANK]) == local.Get_size()
    assert len(set(COMM.allgather(nodes))) == 1
    local.Free()


def test_every_way_reads_each_record_once_by_all_ranks_together(database: Path) -> None:
    done = _measure(database, survey(database, comm=COMM), counts=[1])
    ways = {measured.run.way.io for measured in done}
    assert ways == {"mapped", "independent"} | ({"collective"} if SIZE > 1 else set())
    for measured in done:
        assert measured.n_ranks == SIZE
        if measured.run.way.by == "plain":
            assert measured.n_bytes == (database / "data.mdb").stat().st_size
        else:
            assert N <= measured.n_records <= N + SIZE  # the last step is padded
    assert len(set(COMM.allgather(repr(done)))) == 1


def test_without_an_index_all_ranks_read_by_the_one_that_rank_0_makes(database: Path) -> None:
    if RANK == 0:
        (database / "data.mdb.index").unlink()
    COMM.Barrier()
    done = _measure(database, survey(database, comm=COMM), counts=[1], orders=("sequential",))
    assert all(N <= measured.n_records <= N + SIZE for measured in done)


@pytest.mark.skipif(SIZE < 2, reason="takes two nodes")
def test_the_ranks_of_the_first_node_read_alone_while_the_others_wait(database: Path) -> None:
    facts = _two_nodes(survey(database, comm=COMM))
    done = _measure(database, facts, counts=[1, 2], orders=("random", "sequential"))
    n_ranks = {measured.run.n_nodes: measured.n_ranks for measured in done}
    assert n_ranks == {1: (SIZE + 1) // 2, 2: SIZE}
    assert all(N <= measured.n_records <= N + SIZE for measured in done if measured.run.way.by != "plain")
    assert len(set(COMM.allgather(repr(done)))) == 1


@pytest.mark.skipif(SIZE < 2, reason="takes two nodes")
def test_each_nodes_first_rank_empties_its_page_cache(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    emptied: list[object] = []
    monkeypatch.setattr(page_cache, "empty", emptied.append)
    facts = _two_nodes(survey(database, comm=COMM))
    done = _measure(database, facts, counts=[1, 2], orders=("key",))
    n_runs = {n: sum(measured.run.n_nodes == n for measured in done) for n in (1, 2)}
    assert len(emptied) == {0: n_runs[1] + n_runs[2], 1: n_runs[2]}.get(RANK, 0)


@pytest.mark.skipif(SIZE < 2, reason="takes two nodes")
@pytest.mark.parametrize("failing", ["open", "read"])
def test_what_fails_on_one_rank_fails_on_every_rank(
    database: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise ReadError("x", 0, 1, "the disk is broken")

    if RANK == 0:
        if failing == "read":
            monkeypatch.setattr(stock_module, "hashed", fail)
        else:
            monkeypatch.setattr(stock_module.lmdb, "open", fail)
    facts = _two_nodes(survey(database, comm=COMM))
    with pytest.raises(ReadError, match="the disk is broken"):
        _measure(database, facts, counts=[1], orders=("key",))


def test_a_missing_database_is_the_same_error_on_every_rank(tmp_path: Path) -> None:
    folder = Path(COMM.bcast(str(tmp_path / "none.lmdb")))
    with pytest.raises(MissingDatabaseError):
        survey(folder, comm=COMM)
    COMM.Barrier()


def test_who_waits_for_others_gets_what_they_send() -> None:
    patient = PatientComm(COMM)
    patient.Barrier()
    assert patient.allgather(RANK) == list(range(SIZE))
    assert patient.bcast(RANK) == 0
