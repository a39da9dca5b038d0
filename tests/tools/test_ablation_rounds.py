import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tools.ablation import rounds
from tools.ablation.databases import VARIANTS, make_database
from tools.ablation.results import check
from tools.ablation.rounds import Conditions, run_rounds
from tools.ablation.runs import Run
from tools.compare.places import Roots

pytest.importorskip("mpi4py")

N_RECORDS = 400
RUNS = (Run("sorted", "global"), Run("shuffle", "block"), Run("shuffle", "cursor"))


@pytest.fixture
def conditions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Conditions:
    if not Path(sys.executable).with_name("mpiexec").exists() and shutil.which("mpiexec") is None:
        pytest.skip("needs mpiexec")
    monkeypatch.setattr(rounds.caches, "make_cold", lambda folders: None)  # others' files are none of a test's business
    monkeypatch.setattr(rounds.os, "sync", lambda: None)
    for name in ("sorted", "shuffle"):
        folder = make_database(tmp_path, VARIANTS[name], kind="3KB", n_records=N_RECORDS).parent
    return Conditions("local", "3KB", Roots([folder]), batch_size=32, most_s=60, options={"depth": 2})


def test_every_rank_reads_its_part_and_all_ranks_read_everything_once(conditions: Conditions) -> None:
    results = list(run_rounds(conditions, RUNS, n_rounds=1, nodes=[1, 2]))
    assert [(result.nodes, result.run) for result in results] == [(nodes, run) for nodes in (1, 2) for run in RUNS]
    assert {result.records for result in results} == {N_RECORDS}
    assert {result.n_bytes for result in results} == {N_RECORDS * 3072}
    check(results)


def test_stock_is_stopped_when_its_time_is_up(conditions: Conditions) -> None:
    (result,) = run_rounds(replace(conditions, most_s=1e-9), RUNS[2:], n_rounds=1, nodes=[1])
    assert result.records == 1


def test_a_rank_that_fails_ends_the_run_with_its_reason(conditions: Conditions) -> None:
    with pytest.raises(RuntimeError, match=r"4MiB\.lmdb"):
        list(run_rounds(conditions, [Run("4MiB", "block")], n_rounds=1, nodes=[1]))
