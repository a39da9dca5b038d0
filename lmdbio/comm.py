"""What lmdbio needs of a communicator, a stand-in for one process, agreement on errors, and abort.

mpi4py's communicators fit :class:`Comm` as they are. Nothing here imports mpi4py: the caller brings the communicator.
"""

import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol

_PASS_ON_S = 0.2


class Comm(Protocol):
    """The part of ``mpi4py.MPI.Intracomm`` that lmdbio calls, in mpi4py's own spelling."""

    def Get_rank(self) -> int:
        """Number of this process, from 0."""

    def Get_size(self) -> int:
        """Number of processes."""

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """Collective. Give every rank the root's small object."""

    def Bcast(self, buf: Any, root: int = 0) -> None:
        """Collective. Fill every rank's buffer with the root's bytes."""

    def allgather(self, sendobj: Any) -> list[Any]:
        """Collective. Give every rank the list of all ranks' small objects."""

    def Barrier(self) -> None:
        """Collective. Wait for all ranks."""

    def Abort(self, errorcode: int = 0) -> NoReturn:
        """End every process of the job."""


class SingleProcess:
    """A communicator of one process, for work without MPI."""

    def Get_rank(self) -> int:
        """Return 0."""
        return 0

    def Get_size(self) -> int:
        """Return 1."""
        return 1

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """Return the object."""
        return obj

    def Bcast(self, buf: Any, root: int = 0) -> None:
        """Leave the buffer as it is."""

    def allgather(self, sendobj: Any) -> list[Any]:
        """Return the object alone in a list."""
        return [sendobj]

    def Barrier(self) -> None:
        """Return at once."""

    def Abort(self, errorcode: int = 0) -> NoReturn:
        """End this process."""
        raise SystemExit(errorcode or 1)


def comm_or_single(comm: Comm | None) -> Comm:
    """Return the communicator, or one of a single process where it is None."""
    return SingleProcess() if comm is None else comm


@contextmanager
def agreement(comm: Comm) -> Generator[None]:
    """Collective. Make an error of any rank within the block an error of every rank.

    Each rank raises its own error if it has one, else the error of the lowest rank that has. No collective call may
    stand inside the block: a rank that failed before it would leave the others waiting.
    """
    error: Exception | None = None
    try:
        yield
    except Exception as exc:  # noqa: BLE001  # whatever it is, the other ranks must learn of it
        error = exc
    errors = comm.allgather(error)
    if error is not None:
        raise error
    for other in errors:
        if other is not None:
            raise other


def abort(comm: Comm, message: str, *, status: int = 1) -> NoReturn:
    """Print one message and end every process of the job with the status given."""
    print(message, file=sys.stderr, flush=True)
    # Launchers drop what they have not passed on yet when a job is aborted: MPICH's lost one message in thirteen.
    time.sleep(_PASS_ON_S)
    comm.Abort(status)
    # MPICH's Abort comes back before the process is killed: running on would print the error again.
    os._exit(status)
