from pathlib import Path

import pytest

from tools.testbed import TestbedError, down, status
from tools.testbed import state as testbed_state
from tools.testbed.plan import Plan
from tools.testbed.processes import Process
from tools.testbed.state import STATE_FILE, State


@pytest.fixture
def there(tmp_path: Path) -> State:
    plan = Plan(
        folder=str(tmp_path),
        data=str(tmp_path / "data"),
        data_is_new=True,
        ports=[1, 2],
        n_nodes=2,
        read_delay_us=1000,
        error_rate=0.5,
        server="/usr/sbin/glusterfsd",
        client="/usr/sbin/glusterfs",
    )
    return State(plan, {"brick0": Process(1, 0)})


def test_what_is_written_is_read(tmp_path: Path, there: State) -> None:
    testbed_state.write(tmp_path, there)
    assert testbed_state.read(tmp_path) == there


def test_no_file_is_no_testbed(tmp_path: Path) -> None:
    assert testbed_state.read(tmp_path) is None
    assert status(tmp_path) is None
    assert not down(tmp_path / "missing")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": 1, "plan": {}, "processes": {}}', '{"version": 2}'])
def test_another_file_of_that_name_is_refused_and_left(tmp_path: Path, text: str) -> None:
    (tmp_path / STATE_FILE).write_text(text)
    with pytest.raises(TestbedError, match=f"{STATE_FILE}: expected"):
        down(tmp_path)
    assert (tmp_path / STATE_FILE).read_text() == text


def test_down_removes_what_is_the_testbeds_and_nothing_else(tmp_path: Path, there: State) -> None:
    testbed_state.write(tmp_path, there)
    for path in (*there.plan.brick_folders, *there.plan.mounts, tmp_path / "daemons"):
        path.mkdir(parents=True)
    (tmp_path / "mine").write_text("stays")
    (there.plan.mounts[0] / "also mine").write_text("stays")
    assert down(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["also mine", "mine", "mounts", "node0"]


def test_down_removes_a_state_that_was_not_finished(tmp_path: Path) -> None:
    (tmp_path / "bed").mkdir()
    (tmp_path / "bed" / (STATE_FILE + ".new")).write_text('{"version": 1, "pl')
    assert not down(tmp_path / "bed")
    assert not (tmp_path / "bed").exists()


def test_while_one_is_at_work_in_a_folder_another_is_refused(tmp_path: Path, there: State) -> None:
    testbed_state.write(tmp_path, there)
    with testbed_state.locked(tmp_path), pytest.raises(TestbedError, match="another up or down is at work here"):
        down(tmp_path)
    assert down(tmp_path)
