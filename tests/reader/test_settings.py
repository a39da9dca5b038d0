"""Settings out of their range are refused by name; ranks that differ are told."""

import os
import sys

import pytest

from lmdbio.comm import SingleProcess
from lmdbio.reader import ParallelReader
from lmdbio.reader.settings import Settings, agree_on, count_nodes, has_spare_core, ranks_of, require_mpi

GOOD = {
    "batch_size": 1,
    "order": "block",
    "seed": 0,
    "drop_last": False,
    "io": "independent",
    "verify": "none",
    "shuffle_window": 4,
    "streams": None,
    "on_error": "abort",
}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("order", "random", "order: expected sequential or block or global, found 'random'"),
        ("io", "mapped", "io: expected independent or collective, found 'mapped'"),
        ("verify", True, "verify: expected none or checksum, found True"),
        ("on_error", "ignore", "on_error: expected abort or raise"),
        ("batch_size", 0, "batch_size: expected 1 or more, found 0"),
        ("shuffle_window", -1, "shuffle_window: expected 1 or more"),
        ("streams", 0, "streams: expected 1 or more, found 0"),
    ],
)
def test_a_setting_out_of_range_is_named(name: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Settings(**(GOOD | {name: value}))


@pytest.mark.parametrize("name", ["seed", "batch_size"])
def test_a_number_must_be_whole(name: str) -> None:
    with pytest.raises(TypeError):
        Settings(**(GOOD | {name: 1.5}))


def test_ranks_that_differ_are_told_on_every_rank() -> None:
    class TwoRanks(SingleProcess):
        def allgather(self, sendobj: object) -> list[object]:
            return [GOOD, GOOD | {"batch_size": 2}]

    with pytest.raises(ValueError, match="batch_size: expected the same on every rank, found 1 on rank 0, 2 on rank 1"):
        agree_on(TwoRanks(), GOOD)
    agree_on(SingleProcess(), GOOD)


def test_ranks_of_one_machine_count_as_one_node() -> None:
    class ManyNodes(SingleProcess):
        def allgather(self, sendobj: object) -> list[object]:
            return [f"node{rank // 2}" for rank in range(24)]

    assert count_nodes(SingleProcess()) == (1, 1)
    assert count_nodes(ManyNodes())[0] == 12


def test_a_core_is_spare_where_ranks_have_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    assert has_spare_core(2)
    assert not has_spare_core(3)


def test_ranks_come_from_the_communicator_or_the_caller() -> None:
    one = SingleProcess()
    assert ranks_of(one, None, None, has_comm=False) == (0, 1)
    assert ranks_of(one, 3, 4, has_comm=False) == (3, 4)
    for rank, world_size, has_comm in [(0, 1, True), (0, None, False), (None, 2, False), (2, 2, False), (-1, 2, False)]:
        with pytest.raises(ValueError, match="rank"):
            ranks_of(one, rank, world_size, has_comm=has_comm)


class NoLibrary:
    """A finder in whose sight mpi4py is there, and MPI is not."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "mpi4py.MPI":
            raise RuntimeError("cannot load MPI library\nlibmpi.so.12: cannot open shared object file")


def test_where_mpi_is_missing_what_to_install_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    import mpi4py

    monkeypatch.delattr(mpi4py, "MPI", raising=False)
    monkeypatch.delitem(sys.modules, "mpi4py.MPI", raising=False)
    with monkeypatch.context() as patch, pytest.raises(ImportError, match=r"no MPI library.*'lmdbio\[mpich\]'"):
        patch.setattr(sys, "meta_path", [NoLibrary(), *sys.meta_path])
        require_mpi()
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(ImportError, match=r"io: .* no mpi4py: pip install 'lmdbio\[mpich\]'"):
        require_mpi()
    with pytest.raises(ImportError, match="pip install"):
        ParallelReader("none.lmdb", batch_size=1, io="collective")
