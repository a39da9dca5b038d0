"""Settings under which the tools start ranks: few cores, one machine, root, MPICH and Open MPI."""

from typing import Final

MPI_SETTINGS: Final = {
    "HYDRA_LAUNCHER": "fork",
    "MPIR_CVAR_POLLS_BEFORE_YIELD": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
"""mpiexec starts its ranks itself, and ranks that wait give way: there may be more of them than cores."""
