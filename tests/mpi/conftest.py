"""A temporary folder for each rank: ranks that share pytest's trip over each other when it is cleaned up.

And a database that all ranks read.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from mpi4py import MPI

from tests.mpi.shared_database import SIZES
from tests.reader.made import make_datum_database, stock_values


@pytest.hookimpl(tryfirst=True)  # before the plugin that makes the folders reads the option
def pytest_configure(config: pytest.Config) -> None:
    if config.option.basetemp is None:
        config.option.basetemp = tempfile.mkdtemp(prefix=f"lmdbio-rank{MPI.COMM_WORLD.Get_rank()}-")
        config.add_cleanup(lambda: shutil.rmtree(config.option.basetemp, ignore_errors=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    comm = MPI.COMM_WORLD
    folder = Path(comm.bcast(str(tmp_path_factory.mktemp("shared") / "a.lmdb")))
    if comm.Get_rank() == 0:
        make_datum_database(folder, SIZES)
    comm.Barrier()
    yield folder
    comm.Barrier()


@pytest.fixture(scope="module")
def values(folder: Path) -> list[bytes]:
    return stock_values(folder)
