"""The examples run as their first lines say."""

import subprocess
import sys
from pathlib import Path

from lmdbio.layout import build_index
from lmdbio.layout.writer import write_database
from tests.launch import launch_environment, mpiexec

_EXAMPLES = Path(__file__).parents[1] / "examples"


def test_an_epoch_is_read_by_two_ranks(tmp_path: Path) -> None:
    write_database(tmp_path / "data.mdb", [(b"%08d" % number, bytes(3000)) for number in range(100)])
    command = [mpiexec(), "-n", "2", sys.executable, str(_EXAMPLES / "read_epochs.py"), str(tmp_path), "--epochs", "2"]
    done = subprocess.run(command, env=launch_environment(), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split(",")[0] for line in lines] == ["epoch 0: 100 records", "epoch 1: 100 records"]


def test_training_is_resumed_on_other_ranks(tmp_path: Path) -> None:
    write_database(tmp_path / "data.mdb", [(b"%08d" % number, bytes(3000)) for number in range(100)])
    build_index(tmp_path / "data.mdb").save(tmp_path / "data.mdb.index")
    said = []
    for n_ranks, steps in ((2, 3), (1, 4), (3, 100), (1, 1)):
        script = [sys.executable, str(_EXAMPLES / "resume_training.py"), str(tmp_path), "--batch-size", "8"]
        more = ["--checkpoint", str(tmp_path / "run.json"), "--steps", str(steps)]
        done = subprocess.run(
            [mpiexec(), "-n", str(n_ranks), *script, *more],
            env=launch_environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.splitlines())
    assert said == [
        ["epoch 0: 48 records, up to position 48"],
        ["epoch 0: 32 records, up to position 80"],
        ["epoch 0: 21 records, up to position 100", "epoch 1: 102 records, up to position 100"],
        ["epoch 1: 0 records, up to position 100"],
    ]
