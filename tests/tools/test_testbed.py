import json
import mmap
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tools import page_cache
from tools.testbed import Testbed, TestbedError, down, mounts, processes, state, status
from tools.testbed.__main__ import microseconds
from tools.testbed.plan import Plan
from tools.testbed.state import State

_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin:/sbin"))

needs_glusterfs = pytest.mark.skipif(
    os.geteuid() != 0
    or not os.path.exists("/dev/fuse")
    or not all(shutil.which(program, path=_PATH) for program in ("glusterfsd", "glusterfs")),
    reason="needs root, /dev/fuse, glusterfsd and glusterfs",
)


def _listening(port: int) -> bool:
    return any(
        line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
    )


def _assert_gone(plan: Plan) -> None:
    assert not any(mounts.is_mounted(mount) for mount in plan.mounts)
    assert not any(processes.find(daemon.argv) for daemon in plan.daemons)
    assert not Path(plan.folder).exists()
    deadline = time.monotonic() + 10
    while any(_listening(port) for port in plan.ports):  # a process that ends gives its memory up before its sockets
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _command(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.testbed", *map(str, words)], capture_output=True, text=True, check=False
    )


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "testbed"
    yield path
    down(path)


@needs_glusterfs
def test_a_file_written_through_one_mount_is_whole_in_the_others_at_once(folder: Path) -> None:
    with Testbed(bricks=2, nodes=3, read_delay_us=100, folder=folder) as testbed:
        assert testbed.mounts == [testbed.mount_of(node) for node in range(3)]
        plan = state.read(folder).plan
        for size in (1, 4097, 20_000_001):  # the last has two stripes
            written = np.random.default_rng(size).bytes(size)
            with open(testbed.mount_of(0) / "file", "wb") as file:
                file.write(written)
            for mount in testbed.mounts:
                assert os.path.getsize(mount / "file") == size
                assert (mount / "file").read_bytes() == written
    _assert_gone(plan)


@needs_glusterfs
def test_stripes_lie_on_every_brick_and_are_read_past_the_cache(folder: Path) -> None:
    with Testbed(bricks=2, nodes=1, read_delay_us=0, folder=folder) as testbed:
        path = testbed.mount_of(0) / "file"
        with open(path, "wb") as file:
            for stripe in range(40):
                file.seek(stripe << 24)
                file.write(stripe.to_bytes(4096, "little"))
        assert all(any((brick / ".shard").iterdir()) for brick in state.read(folder).plan.brick_folders)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
        with mmap.mmap(-1, 4096) as buffer:
            assert page_cache.drop(path)
            for stripe in (39, 0, 17):
                assert os.preadv(descriptor, [buffer], stripe << 24) == 4096
                assert int.from_bytes(buffer, "little") == stripe
        os.close(descriptor)
        assert page_cache.cached_share(path) == 0


@needs_glusterfs
def test_a_mount_keeps_what_it_read_until_another_node_writes_the_file_anew(folder: Path) -> None:
    with Testbed(bricks=1, nodes=2, read_delay_us=0, folder=folder) as testbed:
        writer, reader = (mount / "file" for mount in testbed.mounts)
        for number in range(5):  # of one size, so that only the time tells
            writer.write_bytes(bytes([number]) * 100_000)
            assert reader.read_bytes() == bytes([number]) * 100_000
            assert page_cache.cached_share(reader) == 1


@needs_glusterfs
def test_a_read_waits_as_long_as_asked(folder: Path) -> None:
    with Testbed(bricks=1, nodes=1, read_delay_us=300_000, folder=folder) as testbed:
        (testbed.mount_of(0) / "file").write_bytes(b"x")
        start = time.monotonic()
        assert (testbed.mount_of(0) / "file").read_bytes() == b"x"
        assert time.monotonic() - start >= 0.3


@needs_glusterfs
def test_down_leaves_nothing_whichever_process_was_killed_and_whatever_was_not_written_down(folder: Path) -> None:
    testbed = Testbed(bricks=1, nodes=2, read_delay_us=0, folder=folder)
    for name, number in (("brick0", signal.SIGKILL), ("node1", signal.SIGKILL), ("node0", signal.SIGSTOP)):
        testbed.up()
        there = state.read(folder)
        os.kill(there.processes[name].pid, number)
        state.write(folder, State(there.plan, {}))  # as if whoever started them had been killed at once
        with pytest.raises(TestbedError, match=r"expected no testbed, found one with [23] of 3 processes alive"):
            testbed.up()
        assert down(folder)
        _assert_gone(there.plan)
    assert not down(folder)


@needs_glusterfs
def test_kept_data_serve_the_next_testbed_of_as_many_bricks(folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Testbed(bricks=1, nodes=1, read_delay_us=0, folder=folder, data=data, keep_data=True) as testbed:
        (testbed.mount_of(0) / "file").write_bytes(b"kept")
    with pytest.raises(TestbedError, match="expected no bricks, or 2 kept ones, found brick0"):
        Testbed(bricks=2, nodes=1, read_delay_us=0, folder=folder, data=data).up()
    assert not folder.exists()
    with Testbed(bricks=1, nodes=1, read_delay_us=0, folder=folder, data=data) as testbed:
        assert (testbed.mount_of(0) / "file").read_bytes() == b"kept"
    assert not data.exists()


@needs_glusterfs
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_share_of_reads_asked_for_fails_with_eio(folder: Path) -> None:
    with Testbed(bricks=1, nodes=1, read_delay_us=0, error_rate=1.0, folder=folder) as testbed:
        (testbed.mount_of(0) / "file").write_bytes(b"x")
        with pytest.raises(OSError, match="Input/output error"):
            (testbed.mount_of(0) / "file").read_bytes()


@needs_glusterfs
def test_a_daemon_that_does_not_start_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[Plan] = []
    monkeypatch.setattr("tools.testbed.testbed._make_folders", plans.append)
    folder.mkdir()
    (folder / "daemons").mkdir()  # but no folder for the brick
    with pytest.raises(TestbedError, match=r"brick0: .* to start, found that it did not: .*brick0' doesn't exist"):
        Testbed(bricks=1, nodes=1, folder=folder).up()
    _assert_gone(plans[0])


@needs_glusterfs
def test_the_command_brings_up_tells_and_takes_down(folder: Path) -> None:
    up = _command("up", "--bricks", 1, "--nodes", 2, "--read-delay", "500us", "--folder", folder)
    assert up.returncode == 0, up.stderr
    told = json.loads(_command("status", "--json", "--folder", folder).stdout)
    assert told["mounts"] == up.stdout.split()
    assert told["is_whole"]
    assert told["answers"] == [True, True]
    assert told["read_delay_us"] == 500
    assert sorted(told["processes"]) == ["brick0", "node0", "node1"]
    os.kill(told["processes"]["node1"], signal.SIGKILL)
    assert status(folder).answers == [True, False]
    assert _command("down", "--folder", folder).returncode == 0
    assert _command("status", "--folder", folder).returncode == 1
    assert not folder.exists()


def test_one_line_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    testbed = Testbed(folder=tmp_path / "testbed")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(TestbedError, match="expected to be run by root"):
        testbed.up()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name, path: None)
    monkeypatch.setattr(Path, "exists", lambda path: True)
    with pytest.raises(TestbedError, match="not found; apt-get install glusterfs-server glusterfs-client fuse3"):
        testbed.up()
    assert not os.path.lexists(tmp_path / "testbed")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"bricks": 0}, "at least 1 brick"), ({"read_delay_us": -1}, "0 or more"), ({"error_rate": 2.0}, "from 0 to 1")],
)
def test_a_senseless_testbed_is_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Testbed(**wrong)


def test_a_node_that_is_not_there_has_no_mount() -> None:
    with pytest.raises(ValueError, match="node: expected 0 or more and less than 0, found 0"):
        Testbed().mount_of(0)


@pytest.mark.parametrize(
    ("text", "expected"), [("1ms", 1000), ("500us", 500), ("1.5ms", 1500), ("2s", 2000000), ("0", 0)]
)
def test_a_duration_has_a_unit(text: str, expected: int) -> None:
    assert microseconds(text) == expected
