"""How tests start ranks: the launcher beside this Python; settings for few cores, root, MPICH and Open MPI."""

import os
import shutil
import sys
from pathlib import Path
from typing import Final

import pytest

_SETTINGS: Final = {
    "HYDRA_LAUNCHER": "fork",
    "MPIR_CVAR_POLLS_BEFORE_YIELD": "1",  # ranks that wait give way: there may be more of them than cores
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
_KEPT: Final = ("PATH", "HOME", "LANG")


def mpiexec() -> str:
    """Return the launcher that stands beside this Python, else the one on the path; skip where there is none."""
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        pytest.skip("no mpiexec: pip install 'lmdbio[mpich]'")
    return found


def launch_environment(*, is_clean: bool = False, nodes: int | None = None, timeout_s: int = 240) -> dict[str, str]:
    """Return the environment of a launcher.

    Parameters
    ----------
    is_clean
        Whether this process was started by a launcher itself: nothing of that one's may reach the other.
    nodes
        How many nodes the ranks are to take themselves for being on.
    timeout_s
        Seconds after which MPICH's launcher ends the job.
    """
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ} if is_clean else dict(os.environ)
    split = {} if nodes is None else {"MPIR_CVAR_NUM_CLIQUES": str(nodes), "LMDBIO_PRETENDED_NODES": str(nodes)}
    return kept | _SETTINGS | split | {"MPIEXEC_TIMEOUT": str(timeout_s)}
