"""What makes up a reader's epochs, checked, and the same on every rank."""

import operator
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from lmdbio.comm import Comm
from lmdbio.reader.nodes import host_of
from lmdbio.reader.sequence import ORDERS, Order

Io: TypeAlias = Literal["independent", "collective"]
"""How bytes are read: by each rank alone, with positioned reads from a pool of threads, or by all together, by MPI-IO.
"""
Verify: TypeAlias = Literal["none", "checksum"]
"""Whether every value is compared with its stored checksum before it is handed out."""
OnError: TypeAlias = Literal["abort", "raise"]
"""What an error of one of several ranks leads to: the end of the job, or an exception on that rank alone."""
DEFAULT_STREAMS: Final = 8
_MOST: Final = {"batch_size": 1 << 40, "shuffle_window": 1 << 40, "streams": 1 << 16}
_MOST_RANKS: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a reader that all ranks must share.

    Raises
    ------
    ValueError
        If one is out of its range.
    """

    batch_size: int
    order: Order
    seed: int
    drop_last: bool
    io: Io
    verify: Verify
    shuffle_window: int
    streams: int | None
    on_error: OnError

    def __post_init__(self) -> None:
        choices: dict[str, tuple[str, ...]] = {
            "order": ORDERS,
            "io": get_args(Io),
            "verify": get_args(Verify),
            "on_error": get_args(OnError),
        }
        for name, known in choices.items():
            value = getattr(self, name)
            if value not in known:
                raise ValueError(f"{name}: expected {' or '.join(known)}, found {value!r}")
        object.__setattr__(self, "seed", operator.index(self.seed))
        for name, most in _MOST.items():
            if self.streams is None and name == "streams":
                continue
            # an int, whatever number was given: one of numpy's overflows, and is not for JSON
            value = operator.index(getattr(self, name))
            object.__setattr__(self, name, value)
            if value < 1:
                raise ValueError(f"{name}: expected 1 or more, found {value}")
            if value > most:
                raise ValueError(f"{name}: expected {most} or less, found {value}")


def agree_on(comm: Comm, values: Mapping[str, object]) -> None:
    """Collective. Raise ValueError on every rank if values of the same names differ, naming the first that does."""
    held = comm.allgather(values)
    for name, value in held[0].items():
        for rank, other in enumerate(held):
            if other[name] != value:
                found = f"{value!r} on rank 0, {other[name]!r} on rank {rank}"
                raise ValueError(f"{name}: expected the same on every rank, found {found}")


def count_nodes(comm: Comm) -> tuple[int, int]:
    """Collective. Return the number of machines that the ranks run on, and how many ranks run on this one."""
    names = comm.allgather(host_of(comm))
    return len(set(names)), names.count(names[comm.Get_rank()])


def has_spare_core(n_local_ranks: int) -> bool:
    """Return whether there are two cores or more for each of the ranks on this machine."""
    return len(os.sched_getaffinity(0)) >= 2 * n_local_ranks


def ranks_of(comm: Comm, rank: int | None, world_size: int | None, *, has_comm: bool) -> tuple[int, int]:
    """Return (rank, world size): the communicator's, or the ones given where there is none.

    Raises
    ------
    ValueError
        If both or half of it are given, the rank is none of the world, or the world is of over a million ranks.
    """
    if rank is None and world_size is None:
        return comm.Get_rank(), comm.Get_size()
    if has_comm:
        raise ValueError("rank, world_size: expected none beside a communicator, which has its own")
    if rank is None or world_size is None:
        raise ValueError(f"rank, world_size: expected both or neither, found {rank} and {world_size}")
    if operator.index(world_size) > _MOST_RANKS:
        raise ValueError(f"world_size: expected {_MOST_RANKS} or less, found {world_size}")
    if not 0 <= operator.index(rank) < operator.index(world_size):
        raise ValueError(f"rank: expected 0 to {world_size - 1}, found {rank}")
    return rank, world_size


def require_mpi() -> None:
    """Raise ImportError, which says what to install, where ranks cannot read together for want of MPI."""
    try:
        from mpi4py import MPI  # noqa: F401
    except (ImportError, RuntimeError) as exc:  # no mpi4py, or no MPI library for it
        found = "no mpi4py" if isinstance(exc, ImportError) else "no MPI library that mpi4py can load"
        raise ImportError(f"io: expected MPI for 'collective', found {found}: pip install 'lmdbio[mpich]'") from exc
