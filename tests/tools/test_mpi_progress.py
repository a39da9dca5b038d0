"""The probe says of an MPI whether reads go on while their caller sleeps, from times that it takes on all ranks."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools.mpi_progress import Progress


@pytest.mark.parametrize(
    ("start_s", "wait_s", "hidden", "words"),
    [
        (0.1, 0.1, 0.8, "the read goes on while the caller sleeps: reading ahead hides 80% of it"),
        (0.0, 1.2, 0.0, "no progress while the caller sleeps: waiting for it does the reading"),
        (0.9, 0.0, 0.1, "no progress while the caller sleeps: starting it does the reading"),
    ],
)
def test_times_are_put_into_words(start_s: float, wait_s: float, hidden: float, words: str) -> None:
    found = Progress("cold", 4, 1 << 20, blocking_s=1.0, start_s=start_s, wait_s=wait_s)
    assert found.hidden == pytest.approx(hidden)
    assert found.meaning().startswith(f"cold: {words}")


def test_one_rank_reads_a_file_both_ways(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(3 << 20))
    command = [sys.executable, "-m", "tools.mpi_progress", str(path), "--rounds", "1", "--states", "warm", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    (row,) = json.loads(done.stdout)["states"]
    assert (row["n_bytes"], row["n_ranks"]) == (3 << 20, 1)
    assert row["blocking_s"] > 0
    path.write_bytes(bytes(100))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "expected at least 1048576 bytes for 1 ranks" in done.stderr
