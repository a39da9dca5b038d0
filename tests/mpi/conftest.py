"""A temporary folder for each rank: ranks that share pytest's trip over each other when it is cleaned up."""

import shutil
import tempfile

import pytest
from mpi4py import MPI


@pytest.hookimpl(tryfirst=True)  # before the plugin that makes the folders reads the option
def pytest_configure(config: pytest.Config) -> None:
    if config.option.basetemp is None:
        config.option.basetemp = tempfile.mkdtemp(prefix=f"lmdbio-rank{MPI.COMM_WORLD.Get_rank()}-")
        config.add_cleanup(lambda: shutil.rmtree(config.option.basetemp, ignore_errors=True))
