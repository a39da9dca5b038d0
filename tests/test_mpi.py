"""The tests of tests/mpi, run whole under a real MPI launcher at several world sizes."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.launch import launch_environment, mpiexec

_MPI = Path(__file__).parent / "mpi"
_TIMEOUT_S = 240


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4])
def test_the_mpi_tests_pass_under_a_launcher(n_ranks: int) -> None:
    command = [mpiexec(), "-n", str(n_ranks), sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(_MPI)]
    env = launch_environment(timeout_s=_TIMEOUT_S)
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=_TIMEOUT_S + 30, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "passed" in done.stdout
