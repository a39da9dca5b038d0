import os
import subprocess
import sys

from tools.compare import processes

_BUSY = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"


def test_the_time_of_a_child_that_has_ended_counts_as_that_of_one_that_lives() -> None:
    before = processes.cpu_s(os.getpid())
    subprocess.run([sys.executable, "-c", _BUSY], check=True)
    assert processes.cpu_s(os.getpid()) - before >= 0.28
    with subprocess.Popen([sys.executable, "-c", _BUSY + "\nprint(flush=True); input()"], stdin=-1, stdout=-1) as child:
        assert child.stdout is not None
        child.stdout.readline()
        before_end = processes.cpu_s(os.getpid())
        assert before_end - before >= 0.56
        child.communicate(b"\n")
    assert processes.cpu_s(os.getpid()) >= before_end


def test_ending_a_process_ends_what_it_started() -> None:
    script = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert set(processes.family(parent.pid)) == {parent.pid, child}
        processes.end([parent.pid])
        assert not processes._runs(parent.pid)
        assert not processes._runs(child)
