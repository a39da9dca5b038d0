"""What every test shares: the hypothesis profiles, and when the tests that need an MPI launcher are collected."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]

settings.register_profile("ci", max_examples=30, deadline=None, suppress_health_check=_SLOW_IS_FINE, derandomize=True)
settings.register_profile("long", max_examples=1000, deadline=None, suppress_health_check=_SLOW_IS_FINE)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

_LAUNCHERS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK")
_MPI = Path(__file__).parent / "mpi"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave tests/mpi to ``tests/test_mpi.py``, which runs it under a launcher, unless it was named outright."""
    if collection_path != _MPI or any(name in os.environ for name in _LAUNCHERS):
        return None
    named = any(Path(arg.split("::")[0]).resolve().is_relative_to(_MPI) for arg in config.args)
    return None if named else True
