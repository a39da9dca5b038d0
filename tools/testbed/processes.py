"""Daemons known by their exact command lines, and by pid together with start time, so that no stranger is ended."""

import contextlib
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")


class Process(NamedTuple):
    """A process that cannot be mistaken for a later one of the same number."""

    pid: int
    start_time: int
    """Clock ticks from the system's start to the process's."""


def launch(argv: Sequence[str], *, environment: Mapping[str, str], timeout_s: float) -> bool:
    """Run a command that puts itself into the background; return if it did so in time."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # not a pipe, whose end would never come
            stderr=subprocess.DEVNULL,
            timeout=timeout_s,
            check=False,
            cwd="/",
            env=environment,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def output(argv: Sequence[str], *, timeout_s: float) -> str | None:
    """Return what a command prints, None if it fails or takes too long.

    A command that hangs in the kernel cannot even be killed: it is left to end when what it waits for does.
    """
    answer: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                timeout=timeout_s,
                check=False,
                cwd="/",
            )
            answer.put(None if done.returncode else done.stdout)
        except subprocess.TimeoutExpired:
            answer.put(None)

    threading.Thread(target=run, daemon=True).start()
    try:
        return answer.get(timeout=timeout_s)
    except queue.Empty:
        return None


def find(argv: Sequence[str]) -> list[Process]:
    """Return the living processes that were started by exactly this command line."""
    wanted = b"".join(os.fsencode(word) + b"\0" for word in argv)
    found = []
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):  # it may end while we look
                if (entry / "cmdline").read_bytes() == wanted and (process := identify(int(entry.name))):
                    found.append(process)
    return found


def identify(pid: int) -> Process | None:
    """Return the process that has this number now; None where there is none, or only one that waits to be reaped."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()  # the name, in brackets, may hold anything
    return None if state in "ZX" else Process(pid, int(fields[18]))


def is_alive(process: Process) -> bool:
    """Return if this very process still runs."""
    return identify(process.pid) == process


def end(processes: Iterable[Process], *, patience_s: float) -> list[Process]:
    """Ask the processes to end, then make them; return those that are there still."""
    left = [process for process in processes if is_alive(process)]
    for number, wait_s in ((signal.SIGTERM, patience_s), (signal.SIGKILL, 5.0)):
        for process in left:
            if is_alive(process):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, number)
        deadline = time.monotonic() + wait_s
        while left and time.monotonic() < deadline:
            time.sleep(0.01)
            left = [process for process in left if is_alive(process)]
    return left
