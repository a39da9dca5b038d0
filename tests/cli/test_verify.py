import json
import os
import subprocess
from pathlib import Path

import lmdb
import pytest

from lmdbio.layout import Index
from tests.cli.commands import BIN, Run
from tests.launch import launch_environment, mpiexec


@pytest.mark.parametrize("more", [(), ("--cross-check",)])
def test_a_sound_database_passes(run: Run, database: Path, more: tuple[str, ...]) -> None:
    assert "none" in run("lmdbio", "verify", database, *more).ok().splitlines()[-1]
    told = json.loads(run("lmdbio", "verify", database, "--json", *more).ok())
    assert (told["n_records"], told["n_findings"], told["cross_check"]) == (10, 0, bool(more))
    assert run("lmdbio", "verify", database, "--quiet", *more).ok() == ""


def _damage(database: Path, number: int) -> bytes:
    """Flip a bit in the middle of a value, where the fingerprint does not look; return its key."""
    index = Index.open(database)
    position = int(index.offsets[number]) + 1000
    with open(database / "data.mdb", "r+b") as file:
        byte = os.pread(file.fileno(), 1, position)
        os.pwrite(file.fileno(), bytes([byte[0] ^ 1]), position)
    return index.keys[number]


@pytest.fixture
def large(run: Run, tmp_path: Path) -> Path:
    """A database of so many pages that the fingerprint samples few of them."""
    folder = tmp_path / "large.lmdb"
    with lmdb.open(str(folder), map_size=1 << 26) as environment, environment.begin(write=True) as txn:
        for number in range(400):
            txn.put(b"%03d" % number, bytes([number % 256]) * 6000)
    run("lmdbio-index", folder, "--checksum", "--quiet").ok()
    return folder


@pytest.mark.parametrize("more", [(), ("--cross-check",)])
def test_what_differs_is_named_and_the_status_is_1(run: Run, large: Path, more: tuple[str, ...]) -> None:
    key = _damage(large, 123)
    done = run("lmdbio", "verify", large, *more)
    assert done.status == 1
    assert done.err.startswith(
        f"lmdbio verify: error: {large}: 1 difference, the first: record 123 (key {key.decode()}): checksum"
    )
    assert done.err.count("\n") == 1
    assert "record 123" in done.out
    told = run("lmdbio", "verify", large, "--json", *more)
    assert told.status == 1
    assert [finding["number"] for finding in json.loads(told.out)["findings"]] == [123]


def test_the_ranks_of_a_launcher_share_the_work_and_one_answers(database: Path) -> None:
    launched = [mpiexec(), "-n", "3", BIN / "lmdbio", "verify", database, "--cross-check"]
    env = launch_environment()
    done = subprocess.run(launched, capture_output=True, env=env, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.count(b"records") == 1
    (database / "data.mdb.index").unlink()
    done = subprocess.run(launched, capture_output=True, env=env, timeout=120, check=False)
    assert done.returncode == 1
    assert done.stderr.count(b"lmdbio verify: error: ") == 1
    assert b"Traceback" not in done.stderr


def test_without_checksums_the_advice_is_to_store_them(run: Run, large: Path) -> None:
    (large / "data.mdb.index").unlink()
    run("lmdbio-index", large).ok()
    assert "lmdbio-index --checksum" in run("lmdbio", "verify", large).ok()
