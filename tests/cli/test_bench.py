import importlib.util
import json
import subprocess
from pathlib import Path

import lmdb
import pytest

from tests.cli.commands import BIN, Done, Run
from tests.launch import launch_environment, mpiexec

SHORT = ("--rounds", "1", "--state", "cold")


def _out(done: Done) -> str:
    """Return the output of a command that ended well, which may have told how far it was."""
    assert done.status == 0, done
    assert all(line.startswith("bench: ") for line in done.err.splitlines()), done.err
    return done.out


@pytest.fixture
def small(run: Run, tmp_path: Path) -> Path:
    """A database of a megabyte that stock LMDB wrote."""
    folder = tmp_path / "small.lmdb"
    with lmdb.open(str(folder), map_size=1 << 26) as environment, environment.begin(write=True) as txn:
        for number in range(200):
            txn.put(b"%03d" % number, bytes([number % 256]) * 5000)
    run("lmdbio-index", folder, "--quiet").ok()
    return folder


def test_the_table_has_every_way_and_the_advice_is_python(run: Run, small: Path) -> None:
    text = _out(run("lmdbio", "bench", small, *SHORT))
    for words in (
        "stock cursor",
        "stock get",
        "lmdbio independent",
        "plain reads",
        "x stock",
        "x plain",
        "no ceiling",
        "one round",
    ):
        assert words in text
    assert "Shuffled, " in text
    assert "In order, " in text
    for line in text.splitlines():
        if line.startswith("use, "):
            use = line.split(":", 1)[1].strip()
            assert use == "stock LMDB" or use.startswith("ParallelReader(")
            compile(use.removeprefix("stock "), "advice", "eval")


def test_json_is_one_object_with_all_that_was_measured(run: Run, small: Path) -> None:
    told = json.loads(_out(run("lmdbio", "bench", small, "--rounds", "1", "--time-limit", "5", "--json")))
    assert (told["n_records"], told["nodes"]["count"]) == (200, 1)
    assert {row["state"] for row in told["rows"]} <= {"warm", "cold", "as found"}
    assert len(told["rows"]) == len(told["measurements"])
    for row in told["rows"]:
        assert row["bytes_per_second"]["min"] <= row["bytes_per_second"]["median"] <= row["bytes_per_second"]["max"]
        assert (row["to_stock"] is None) == (row["way"]["by"] == "plain")
    assert told["advice"]["sentences"]


def test_quiet_says_nothing(run: Run, small: Path) -> None:
    assert run("lmdbio", "bench", small, *SHORT, "--quiet").ok() == ""


def test_a_dry_run_says_what_would_be_run_and_needs_no_index(run: Run, small: Path) -> None:
    (small / "data.mdb.index").unlink()
    text = run("lmdbio", "bench", small, "--dry-run").ok()
    assert "would do" in text
    assert "  lmdbio independent, block" in text
    told = json.loads(run("lmdbio", "bench", small, "--dry-run", "--json").ok())
    assert len(told["runs"]) == 3 * len({json.dumps(run | {"round": 0}) for run in told["runs"]})


def test_a_missing_index_is_made_and_the_command_that_keeps_one_named(run: Run, small: Path) -> None:
    (small / "data.mdb.index").unlink()
    text = _out(run("lmdbio", "bench", small, *SHORT))
    assert f"`lmdbio-index {small}`" in text
    assert not (small / "data.mdb.index").exists()


def test_more_nodes_than_there_are_are_refused(run: Run, small: Path) -> None:
    line = run("lmdbio", "bench", small, "--nodes", "1,2").error("lmdbio bench")
    assert line.startswith("--nodes: expected 1 or less, the nodes that the ranks run on, found 2")


def test_too_short_a_time_is_refused(run: Run, small: Path) -> None:
    line = run("lmdbio", "bench", small, "--time-limit", "1", "--rounds", "9").error("lmdbio bench")
    assert line.startswith("--time-limit: expected ")


@pytest.mark.parametrize(
    "option",
    [("--nodes", "0"), ("--nodes", "1;2"), ("--state", "hot"), ("--rounds", "0"), ("--time-limit", "0")],
    ids=" ".join,
)
def test_bad_usage_is_status_2(run: Run, small: Path, option: tuple[str, str]) -> None:
    done = run("lmdbio", "bench", small, *option)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"lmdbio bench: error: {option[0]}: expected ")
    assert f"found {option[1]!r}" in done.err
    assert done.err.count("\n") == 1


def test_bad_input_is_one_line(run: Run, small: Path, tmp_path: Path) -> None:
    assert "found nothing" in run("lmdbio", "bench", tmp_path / "none.lmdb").error("lmdbio bench")
    assert "found none" in run("lmdbio", "bench", small, "--index", tmp_path / "none").error("lmdbio bench")
    with lmdb.open(str(small), map_size=1 << 26) as environment, environment.begin(write=True) as txn:
        txn.put(b"new", b"value")
    assert f"lmdbio-index {small}" in run("lmdbio", "bench", small).error("lmdbio bench")


def test_a_missing_extra_is_named_before_anything_is_read(run: Run, small: Path, tmp_path: Path) -> None:
    hide = "import importlib.util; importlib.util.find_spec = lambda name: None"
    line = run("lmdbio", "bench", small, "--plot", tmp_path / "x.png", setup=hide).error("lmdbio bench")
    assert line == "--plot: expected matplotlib, found none: pip install 'lmdbio[plot]'"


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="pip install 'lmdbio[plot]'")
def test_the_rates_are_drawn(run: Run, small: Path, tmp_path: Path) -> None:
    run("lmdbio", "bench", small, *SHORT, "--plot", tmp_path / "x.png", "--quiet")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    assert "found none" in run("lmdbio", "bench", small, "--plot", tmp_path / "no" / "x.png").error("lmdbio bench")


def test_all_ranks_read_and_one_talks(small: Path) -> None:
    launched = [mpiexec(), "-n", "2", BIN / "lmdbio", "bench", small, *SHORT, "--nodes", "1,2", "--json"]
    env = launch_environment(nodes=2)
    done = subprocess.run(launched, capture_output=True, env=env, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert {(row["nodes"], row["ranks"]) for row in told["rows"]} == {(1, 1), (2, 2)}
    assert {row["way"]["io"] for row in told["rows"] if row["nodes"] == 2} == {"mapped", "independent", "collective"}
    done = subprocess.run([*launched[:-2], "3"], capture_output=True, env=env, timeout=240, check=False)
    assert done.returncode == 1
    assert done.stderr.count(b"lmdbio bench: error: ") == 1
