import socket
from typing import Any

import pytest

from lmdbio.comm import SingleProcess
from lmdbio.reader import nodes
from lmdbio.reader.nodes import Nodes, PatientComm, find_nodes, host_of, pretended_node


def test_ranks_of_the_first_nodes_and_the_first_of_each() -> None:
    spread = Nodes((0, 1, 0, 2, 1))
    assert spread.n_nodes == 3
    assert [spread.ranks(n) for n in (1, 2, 3)] == [[0, 2], [0, 1, 2, 4], [0, 1, 2, 3, 4]]
    assert [rank for rank in range(5) if spread.is_first(rank)] == [0, 1, 3]


def test_a_process_alone_is_one_node() -> None:
    assert find_nodes(SingleProcess()) == Nodes((0,))


class _Slow(SingleProcess):
    """Two ranks, of which the other comes late to a barrier; records what it is asked."""

    def __init__(self, looks: int) -> None:
        self.looks = looks
        self.calls: list[str] = []

    def Get_size(self) -> int:
        return 2

    def Ibarrier(self) -> "_Slow":
        self.calls.append("Ibarrier")
        return self

    def Test(self) -> bool:
        self.looks -= 1
        return self.looks < 0

    def allgather(self, sendobj: Any) -> list[Any]:
        assert self.looks < 0, "asked before all had come"
        self.calls.append("allgather")
        return [sendobj, sendobj]


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long each sleep was to be."""
    pauses: list[float] = []
    monkeypatch.setattr(nodes.time, "sleep", pauses.append)
    return pauses


def test_who_waits_sleeps_and_ever_longer_but_not_long(slept: list[float]) -> None:
    comm = _Slow(looks=1000)
    PatientComm(comm).Barrier()
    assert 900 < len(slept) < 1000
    assert slept == sorted(slept)
    assert slept[0] < 1e-4
    assert slept[-1] <= 0.01


def test_who_comes_last_does_not_sleep(slept: list[float]) -> None:
    PatientComm(_Slow(looks=0)).Barrier()
    assert slept == []


def test_ranks_exchange_when_all_have_come(slept: list[float]) -> None:
    comm = _Slow(looks=100)
    assert PatientComm(comm).allgather("x") == ["x", "x"]
    assert comm.calls == ["Ibarrier", "allgather"]


def test_a_process_alone_waits_for_nobody() -> None:
    alone = PatientComm(SingleProcess())
    alone.Barrier()
    assert (alone.bcast(3), alone.allgather(4)) == (3, [4])


class Ranks(SingleProcess):
    """Rank 5 of 8, of which nothing else is asked."""

    def Get_rank(self) -> int:
        return 5

    def Get_size(self) -> int:
        return 8


def test_nodes_can_be_pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    for told, node in (("", None), ("x", None), ("0", None), ("1", 0), ("2", 1), ("4", 2), ("8", 5)):
        monkeypatch.setenv("LMDBIO_PRETENDED_NODES", told)
        assert pretended_node(Ranks()) == node
        assert (host_of(Ranks()) == socket.gethostname()) == (node is None)
    monkeypatch.delenv("LMDBIO_PRETENDED_NODES")
    assert pretended_node(Ranks()) is None
