import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator

import pytest

from tools.testbed import processes
from tools.testbed.processes import Process

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    code = f"import time; time.sleep(60)  # {uuid.uuid4()}"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        deadline = time.monotonic() + 5
        while not processes.find(process.args) and time.monotonic() < deadline:
            time.sleep(0.01)
        yield process
        process.kill()


def test_a_process_is_found_by_its_exact_command_line(sleeper: subprocess.Popen[bytes]) -> None:
    assert processes.find(sleeper.args) == [processes.identify(sleeper.pid)]
    assert processes.find(sleeper.args[:-1]) == []
    assert processes.find([*sleeper.args, ""]) == []


def test_a_later_process_of_the_same_pid_is_not_ended(sleeper: subprocess.Popen[bytes]) -> None:
    here = processes.identify(sleeper.pid)
    earlier = Process(here.pid, here.start_time - 1)
    assert processes.is_alive(here)
    assert not processes.is_alive(earlier)
    assert processes.end([earlier], patience_s=0.1) == []
    assert sleeper.poll() is None


def test_a_process_that_waits_to_be_reaped_has_ended(sleeper: subprocess.Popen[bytes]) -> None:
    here = processes.identify(sleeper.pid)
    assert processes.end([here], patience_s=5) == []
    assert not processes.is_alive(here)


def test_a_process_that_does_not_listen_is_made_to_end(sleeper: subprocess.Popen[bytes]) -> None:
    here = processes.identify(sleeper.pid)
    os.kill(here.pid, signal.SIGSTOP)
    assert processes.end([here], patience_s=0.05) == []
    assert sleeper.wait(5) < 0


def test_a_command_says_what_it_prints_unless_it_fails_or_takes_too_long() -> None:
    assert processes.output(["echo", "yes"], timeout_s=5) == "yes\n"
    assert processes.output(["false"], timeout_s=5) is None
    assert processes.output(["sleep", "60"], timeout_s=0.1) is None
