"""``lmdbio read`` reads what it says, tells what it took, and leaves a trace and a picture where asked."""

import importlib.util
import json
import os
import subprocess
from pathlib import Path

import lmdb
import numpy as np
import pytest

from lmdbio.cli.read_plot import read_rates
from lmdbio.reader.timeline import Span
from tests.cli.commands import BIN, Done, Run
from tests.launch import launch_environment, mpiexec

N, SIZE = 200, 5000


def make(path: Path) -> None:
    with lmdb.open(str(path), map_size=1 << 26) as environment, environment.begin(write=True) as txn:
        for number in range(N):
            txn.put(b"%03d" % number, bytes([number % 256]) * SIZE)


@pytest.fixture
def small(run: Run, tmp_path: Path) -> Path:
    """A database of a megabyte that stock LMDB wrote."""
    make(tmp_path / "s-1.lmdb")
    run("lmdbio-index", "--checksum", tmp_path / "s-1.lmdb", "--quiet").ok()
    return tmp_path / "s-1.lmdb"


def out(done: Done) -> str:
    assert done.status == 0, done
    return done.out


@pytest.mark.parametrize("order", ["sequential", "block", "global"])
def test_each_epoch_is_told(run: Run, small: Path, order: str) -> None:
    text = out(run("lmdbio", "read", small, "--epochs", "2", "--order", order, "--checksum", "--direct", "off"))
    for words in ("epoch 0: 200 records, 976.6 KiB in ", "epoch 1: ", "in flight", "checksums", "page faults", "held"):
        assert words in text
    assert "on 2 ranks" not in text


def test_json_holds_every_number(run: Run, small: Path) -> None:
    told = json.loads(out(run("lmdbio", "read", small, "--epochs", "3", "--batch-size", "7", "--json")))
    assert (told["n_records"], told["order"], told["batch_size"]) == (N, "sequential", 7)
    assert [epoch["epoch"] for epoch in told["epochs"]] == [0, 1, 2]
    for epoch in told["epochs"]:
        assert (epoch["records"], epoch["bytes"]) == (N, N * SIZE)
        (rank,) = epoch["ranks"]
        assert rank["batches"] == -(-N // 7)
        assert epoch["bytes_per_second"] == pytest.approx(N * SIZE / rank["elapsed_s"])
    assert sum(epoch["ranks"][0]["read_bytes"] for epoch in told["epochs"]) >= 3 * N * SIZE


def test_several_databases_are_read_as_one(run: Run, small: Path, tmp_path: Path) -> None:
    make(tmp_path / "s-2.lmdb")
    run("lmdbio-index", tmp_path / "s-2.lmdb", "--quiet").ok()
    for named in ((small, tmp_path / "s-2.lmdb"), (tmp_path,), (tmp_path / "s-*.lmdb",)):
        told = json.loads(out(run("lmdbio", "read", *named, "--json")))
        assert told["epochs"][0]["records"] == 2 * N


def test_the_timeline_is_a_trace_and_the_sleep_is_slept(run: Run, small: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    text = out(run("lmdbio", "read", small, "--batch-size", "50", "--compute", "0.05", "--timeline", trace, "--json"))
    events = json.loads(trace.read_text())["traceEvents"]
    assert sum(event["name"] == "next" for event in events) == 4
    assert json.loads(text)["epochs"][0]["seconds"] >= 4 * 0.05
    line = run("lmdbio", "read", small, "--timeline", tmp_path / "no" / "t").error("lmdbio read")
    assert "expected a directory that can be written" in line


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--order", "random"), "--order: expected sequential or block or global, found 'random'"),
        (("--compute", "-1"), "--compute: expected seconds, 0 or more, found '-1'"),
        (("--compute", "1e300"), "--compute: expected seconds, 0 or more, found '1e300'"),
        (("--batch-size", "0"), "--batch-size: expected a whole number from 1, found '0'"),
        (("--depth", "x"), "--depth: expected a whole number from 1, found 'x'"),
        (("--prefetch-bytes", "1MB"), "--prefetch-bytes: expected bytes or a size such as 16MiB"),
    ],
)
def test_bad_usage_is_one_line_and_status_2(run: Run, small: Path, options: tuple[str, str], words: str) -> None:
    done = run("lmdbio", "read", small, *options)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"lmdbio read: error: {words}")
    assert done.err.count("\n") == 1


def test_bad_input_is_one_line(run: Run, small: Path, tmp_path: Path) -> None:
    assert "found nothing" in run("lmdbio", "read", tmp_path / "none").error("lmdbio read")
    line = run("lmdbio", "read", small, "--order", "block", "--prefetch-bytes", "1K").error("lmdbio read")
    assert "prefetch_bytes: expected 1000000 or more" in line
    data = small / "data.mdb"
    os.truncate(data, data.stat().st_size - 8192)
    assert "lmdbio-index" in run("lmdbio", "read", small).error("lmdbio read")


def test_a_missing_extra_is_named_before_anything_is_read(run: Run, small: Path, tmp_path: Path) -> None:
    hide = "import importlib.util; importlib.util.find_spec = lambda name: None"
    line = run("lmdbio", "read", small, "--plot", tmp_path / "x.png", setup=hide).error("lmdbio read")
    assert line == "--plot: expected matplotlib, found none: pip install 'lmdbio[plot]'"


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="pip install 'lmdbio[plot]'")
def test_reads_and_waits_are_drawn(run: Run, small: Path, tmp_path: Path) -> None:
    run("lmdbio", "read", small, "--plot", tmp_path / "x.png", "--quiet").ok()
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_the_rate_of_reads_adds_up_to_their_bytes() -> None:
    spans = [
        Span("read", 1.0, 2.0, 1, {"bytes": 1000, "reads": 1}),
        Span("read", 1.5, 3.0, 2, {"bytes": 600, "reads": 3}),
        Span("next", 0.0, 4.0, 0, {}),
    ]
    edges, rates = read_rates(spans, begin=0.0, end=4.0)
    assert (rates * np.diff(edges)).sum() == pytest.approx(1600)
    assert rates[int(len(rates) * 0.45)] == pytest.approx(1400)
    assert rates[0] == rates[-1] == 0


def test_all_ranks_read_and_one_talks(small: Path, tmp_path: Path) -> None:
    command = ["read", small, "--order", "block", "--timeline", tmp_path / "t.json", "--json"]
    env = launch_environment()
    done = subprocess.run(
        [mpiexec(), "-n", "2", BIN / "lmdbio", *command], capture_output=True, env=env, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    (epoch,) = json.loads(done.stdout)["epochs"]
    assert epoch["records"] == N
    assert [rank["records"] for rank in epoch["ranks"]] == [N // 2] * 2
    for rank in (0, 1):
        trace = json.loads((tmp_path / f"t.json.{rank}").read_text())
        assert {event["pid"] for event in trace["traceEvents"]} == {rank}


def test_a_missing_mpi_is_one_line(run: Run, small: Path) -> None:
    hide = "import sys; sys.modules['mpi4py.MPI'] = None; sys.modules['mpi4py'] = None"
    line = run("lmdbio", "read", small, "--io", "collective", setup=hide).error("lmdbio read")
    assert "pip install 'lmdbio[mpich]'" in line
    line = run("lmdbio", "read", small, setup=hide, PMI_RANK="0", PMI_SIZE="2").error("lmdbio read")
    assert "pip install 'lmdbio[mpich]'" in line
