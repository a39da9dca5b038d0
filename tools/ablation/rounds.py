"""Rounds of all runs, interleaved, each cold: what each took."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tools.ablation.rank import Task
from tools.ablation.results import Result
from tools.ablation.runs import Run
from tools.compare import caches
from tools.compare.places import Roots
from tools.compare.ranks import ROOT
from tools.compare.rounds import order_of
from tools.launch import MPI_SETTINGS

_TIMEOUT_S: Final = 1800


@dataclass(frozen=True, slots=True)
class Conditions:
    """What is the same for all runs."""

    place: str
    kind: str
    """Of the records."""
    roots: Roots
    """Where the databases lie, as each node sees it."""
    batch_size: int
    """Records of a global batch."""
    most_s: float
    """Seconds after which stock LMDB is stopped; its rate is that of what it has read by then."""
    options: dict[str, Any]
    """Of the reader."""


def run_rounds(conditions: Conditions, runs: Sequence[Run], *, n_rounds: int, nodes: Sequence[int]) -> Iterator[Result]:
    """Yield the result of every run by each number of nodes, in rounds of all runs.

    Raises
    ------
    RuntimeError
        If a run fails.
    """
    for number in range(n_rounds):
        for n_nodes in nodes:
            for run in order_of(runs, number=number):
                folders = conditions.roots.folders(f"{run.database}.lmdb", n_ranks=n_nodes)
                os.sync()
                caches.make_cold(list(dict.fromkeys(folders)))
                report = launch(_task(conditions, run, folders))
                yield Result(
                    place=conditions.place, kind=conditions.kind, nodes=n_nodes, round=number, run=run, **report
                )


def _task(conditions: Conditions, run: Run, folders: Sequence[Path]) -> Task:
    return Task(
        [str(folder) for folder in folders],
        "cursor" if run.is_stock else run.reading,
        readahead=run.reading == "cursor, readahead",
        batch_size=conditions.batch_size,
        most_s=conditions.most_s,
        options=conditions.options,
    )


def launch(task: Task) -> dict[str, Any]:
    """Return the report of a task's ranks, which MPI takes for being on a node each.

    Raises
    ------
    RuntimeError
        If they fail.
    """
    beside = Path(sys.executable).with_name("mpiexec")
    n_ranks = len(task.databases)
    command = [str(beside) if beside.exists() else "mpiexec", "-n", str(n_ranks), sys.executable]
    settings = MPI_SETTINGS | {"PYTHONDONTWRITEBYTECODE": "1"}
    if n_ranks > 1:
        settings["MPIR_CVAR_NUM_CLIQUES"] = str(n_ranks)
    done = subprocess.run(
        [*command, "-m", "tools.ablation.rank", json.dumps(asdict(task))],
        cwd=ROOT,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
    )
    if done.returncode:
        raise RuntimeError(f"{task}: expected the ranks to read, found them failed: {done.stderr.strip()[-2000:]}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report
