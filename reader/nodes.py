"""Which rank runs on which node, as MPI tells it, and waiting for others without using the processor."""

import os
import socket
import time
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from lmdbio.comm import Comm

_PRETENDED_NODES: Final = "LMDBIO_PRETENDED_NODES"
_YIELDS: Final = 64
"""Looks that only give the processor to others, before sleeping begins: others often come at once."""
_FIRST_SLEEP_S: Final = 50e-6
_LONGEST_SLEEP_S: Final = 10e-3


@dataclass(frozen=True, slots=True)
class Nodes:
    """The node of each rank; nodes are numbered from 0 by their lowest ranks."""

    node_of: tuple[int, ...]
    """Node of each rank."""

    @property
    def n_nodes(self) -> int:
        """How many nodes there are."""
        return max(self.node_of) + 1

    def ranks(self, n_nodes: int) -> list[int]:
        """Return the ranks of the first nodes, ascending."""
        return [rank for rank, node in enumerate(self.node_of) if node < n_nodes]

    def is_first(self, rank: int) -> bool:
        """Return whether the rank is the lowest of its node."""
        return self.node_of.index(self.node_of[rank]) == rank


def find_nodes(comm: Comm) -> Nodes:
    """Collective. Return the nodes: ranks that MPI says can share memory are on one."""
    if comm.Get_size() == 1:
        return Nodes((0,))
    from mpi4py import MPI

    assert isinstance(comm, MPI.Intracomm)
    local = comm.Split_type(MPI.COMM_TYPE_SHARED, key=comm.Get_rank())
    leader = local.bcast(comm.Get_rank())
    local.Free()
    homes = comm.allgather((leader, pretended_node(comm)))
    lowest = [homes.index(home) for home in homes]
    numbers = {rank: number for number, rank in enumerate(sorted(set(lowest)))}
    return Nodes(tuple(numbers[rank] for rank in lowest))


def host_of(comm: Comm) -> str:
    """Return what names the node of this rank, the same on all of its ranks."""
    pretended = pretended_node(comm)
    return socket.gethostname() if pretended is None else f"{socket.gethostname()}, node {pretended}"


def pretended_node(comm: Comm) -> int | None:
    """Return the node that this rank is told to be on, for tests of several nodes on one; None: wherever it is.

    ``LMDBIO_PRETENDED_NODES`` says how many nodes there are to be; consecutive ranks are on one.
    """
    n_nodes = os.environ.get(_PRETENDED_NODES, "")
    return comm.Get_rank() * int(n_nodes) // comm.Get_size() if n_nodes.isdecimal() and int(n_nodes) else None


class PatientComm:
    """A communicator whose ranks sleep until all have come, where MPI's own calls would keep a core busy each.

    It has what :class:`lmdbio.comm.Comm` asks for.

    Parameters
    ----------
    comm
        The ranks: an ``mpi4py`` communicator, or a stand-in of one process.
    """

    def __init__(self, comm: Comm) -> None:
        self._comm = comm
        self._is_alone = comm.Get_size() == 1

    def Get_rank(self) -> int:
        """Return the number of this process."""
        return self._comm.Get_rank()

    def Get_size(self) -> int:
        """Return the number of processes."""
        return self._comm.Get_size()

    def Barrier(self) -> None:
        """Collective. Wait for all ranks, asleep."""
        if self._is_alone:
            return
        comm: Any = self._comm
        request = comm.Ibarrier()
        looks, pause_s = 0, _FIRST_SLEEP_S
        while not request.Test():
            looks += 1
            if looks <= _YIELDS:
                os.sched_yield()
                continue
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_SLEEP_S)

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """Collective. Give every rank the root's small object."""
        self.Barrier()
        return self._comm.bcast(obj, root)

    def Bcast(self, buf: Any, root: int = 0) -> None:
        """Collective. Fill every rank's buffer with the root's bytes."""
        self.Barrier()
        self._comm.Bcast(buf, root)

    def allgather(self, sendobj: Any) -> list[Any]:
        """Collective. Give every rank the list of all ranks' small objects."""
        self.Barrier()
        return self._comm.allgather(sendobj)

    def Abort(self, errorcode: int = 0) -> NoReturn:
        """End every process of the job."""
        self._comm.Abort(errorcode)
