"""A process and all that it started, as /proc shows them: processor time, memory, and how to end them. Linux only."""

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Final

_DEATH_S: Final = 10.0
"""What a killed process may take to end: one that waits for a device does not hear."""
_POLL_S: Final = 0.02
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_CPU_FIELDS: Final = slice(11, 15)
"""utime, stime, cutime and cstime, counted from after the name in /proc/PID/stat."""


def family(pid: int) -> list[int]:
    """Return a process and its living descendants."""
    found, left = [], [pid]
    while left:
        one = left.pop()
        found.append(one)
        for children in Path(f"/proc/{one}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                left += map(int, children.read_text().split())
    return found


def cpu_s(pid: int) -> float:
    """Return the processor time of a process and its descendants, living or ended, in seconds."""
    ticks = 0
    for one in family(pid):
        with contextlib.suppress(OSError):  # it ended just now: its parent has its time
            stat = Path(f"/proc/{one}/stat").read_text()
            ticks += sum(map(int, stat.rpartition(")")[2].split()[_CPU_FIELDS]))
    return ticks / _TICKS


def peak_memory(pid: int) -> int:
    """Return the most bytes that a process and its living descendants held, summed; shared pages count in each."""
    n_bytes = 0
    for one in family(pid):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{one}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    n_bytes += int(line.split()[1]) << 10
    return n_bytes


def end(pids: list[int]) -> None:
    """Kill these processes and all that they started; return when none of them runs."""
    doomed = [one for pid in pids for one in family(pid)]
    for one in doomed:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
    deadline = time.monotonic() + _DEATH_S
    while any(map(_runs, doomed)) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _runs(pid: int) -> bool:
    """Return whether a process is there and no zombie."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
