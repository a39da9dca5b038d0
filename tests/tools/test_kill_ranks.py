"""One job is killed, one raises, one is left alone: the tool tells them apart."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.launch import mpiexec
from tools import kill_ranks


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> kill_ranks.Job:
    if Path(mpiexec()) != Path(sys.executable).with_name("mpiexec"):
        pytest.skip("no mpiexec beside this Python")
    return kill_ranks.Job(kill_ranks._make_database(tmp_path_factory.mktemp("kill")), 2, "block", "independent")


def test_a_killed_rank_takes_the_others_along(job: kill_ranks.Job) -> None:
    outcome = kill_ranks.disturb(job, "kill", rank=1, after_s=0.1, limit_s=10)
    assert outcome.seconds < 10
    assert outcome.left == ()


def test_an_exception_of_one_rank_is_told_and_ends_all(job: kill_ranks.Job) -> None:
    outcome = kill_ranks.disturb(job, "raise", rank=1, after_s=0.1, limit_s=10)
    assert outcome.seconds < 10
    assert "lmdbio: rank 1: Traceback" in outcome.output
    assert kill_ranks._MESSAGE in outcome.output


def test_a_job_that_is_left_alone_reads_all(job: kill_ranks.Job, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kill_ranks.undisturbed(job)
    monkeypatch.setattr(kill_ranks, "_N_RECORDS", 1990)
    assert not kill_ranks.undisturbed(job)


def test_the_dead_are_told_from_the_living() -> None:
    process = subprocess.Popen(["sleep", "60"])
    assert kill_ranks.is_alive(process.pid)
    process.kill()
    for _ in range(100):  # it is dead, though nobody has waited for it
        if not kill_ranks.is_alive(process.pid):
            break
        time.sleep(0.02)
    assert not kill_ranks.is_alive(process.pid)
    process.wait()
    assert not kill_ranks.is_alive(process.pid)
    assert kill_ranks.is_alive(os.getpid())
