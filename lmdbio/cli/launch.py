"""Which rank of how many this process is, by what its launcher left in the environment. Starts no MPI."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lmdbio.cli.failure import CommandError

if TYPE_CHECKING:
    from lmdbio.comm import Comm

_LAUNCHERS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI's mpiexec
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI and Cray's launchers
    # srun. A batch script's own shell has a SLURM_PROCID and SLURM_NTASKS too, but it is one process: only the
    # step's count tells.
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)


@dataclass(frozen=True, slots=True)
class Launch:
    """The place of this process among the processes that one command started."""

    rank: int
    """Number of this process, from 0."""
    size: int
    """Number of processes."""


def find_launch(environment: Mapping[str, str] = os.environ) -> Launch:
    """Return the rank and the number of ranks; 0 of 1 where no launcher has left its marks.

    >>> find_launch({"PMI_RANK": "2", "PMI_SIZE": "4"})
    Launch(rank=2, size=4)
    """
    for rank, size in _LAUNCHERS:
        try:
            return Launch(int(environment[rank]), int(environment[size]))
        except (KeyError, ValueError):
            continue
    return Launch(0, 1)


def require_one_process() -> None:
    """Refuse to go on where several ranks run this command: each would write the same file.

    Raises
    ------
    CommandError
        If there is more than one rank.
    """
    launch = find_launch()
    if launch.size > 1:
        raise CommandError(
            f"expected one process, found {launch.size} ranks: this command writes one output, "
            "start it without mpiexec or srun (it uses several cores by itself)"
        )


def communicator() -> "Comm":
    """Return the communicator of all ranks that a launcher started; a stand-in for a process alone."""
    launched = find_launch().size
    if launched == 1:
        from lmdbio.comm import SingleProcess

        return SingleProcess()
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as exc:  # none is installed, or none can be loaded
        raise CommandError(f"expected an MPI, found none ({exc}): pip install 'lmdbio[mpich]'") from None

    if MPI.COMM_WORLD.Get_size() != launched:
        raise CommandError(
            f"expected {launched} ranks, which the launcher started, found {MPI.COMM_WORLD.Get_size()} in MPI: start "
            "them with the mpiexec or srun of the MPI that mpi4py was built for"
        )
    return MPI.COMM_WORLD
