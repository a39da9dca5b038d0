"""The tests of tests/mpi, run whole under a real MPI launcher at several world sizes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_MPI = Path(__file__).parent / "mpi"
_TIMEOUT_S = 240


def mpiexec() -> str:
    """Return the launcher that stands beside this Python, else the one on the path; skip where there is none."""
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        pytest.skip("no mpiexec: pip install 'lmdbio[mpich]'")
    return found


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4])
def test_the_mpi_tests_pass_under_a_launcher(n_ranks: int) -> None:
    command = [mpiexec(), "-n", str(n_ranks), sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(_MPI)]
    env = dict(os.environ, HYDRA_LAUNCHER="fork", MPIR_CVAR_POLLS_BEFORE_YIELD="1", MPIEXEC_TIMEOUT=str(_TIMEOUT_S))
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=_TIMEOUT_S + 30, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "passed" in done.stdout
