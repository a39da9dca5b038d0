"""What no contestant can beat by far: parallel dd over one file of all bytes, and ``cp -r`` with a sync."""

import itertools
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tools.compare.contestant import Source
from tools.compare.ranks import ROOT, RankFailure

FLAT: Final = "dd"
"""Name of the store that holds all values of a data set end to end in one file."""
DEPTH: Final = 8
"""Reads in flight of each of lmdbio's ranks."""
_FILE: Final = "values"
_PROCESSES: Final = (1, 4, 8, 16)
_BLOCK_SIZES: Final = (1 << 20, 4 << 20)
_EQUAL_BLOCK_SIZE: Final = 2 << 20
"""Bytes of a read of lmdbio."""
_N_FINALISTS: Final = 2


@dataclass(frozen=True, slots=True)
class DdWay:
    """One way to read a file with several dd at once, each a part of it."""

    processes: int
    block_size: int
    direct: bool
    equal: bool = False
    """Whether it was chosen for having as many reads in flight as lmdbio, not for being fast."""

    @property
    def name(self) -> str:
        """Short name of the way."""
        how = "direct" if self.direct else "buffered"
        return f"{'equal depth, ' if self.equal else ''}{self.processes} x {self.block_size >> 20} MiB {how}"


def store_flat(source: Source, folder: Path) -> None:
    """Write all values of a source end to end."""
    folder.mkdir(parents=True)
    with open(folder / _FILE, "wb") as file:
        for record in source:
            file.write(record.value)


def trial_ways(*, cold: bool) -> list[DdWay]:
    """Return the ways that are tried; O_DIRECT makes nothing of a warm cache."""
    directs = (False, True) if cold else (False,)
    return [DdWay(*way) for way in itertools.product(_PROCESSES, _BLOCK_SIZES, directs)]


def equal_ways(*, n_ranks: int, cold: bool) -> list[DdWay]:
    """Return the ways with as many reads in flight as lmdbio's ranks have together."""
    directs = (False, True) if cold else (False,)
    return [DdWay(DEPTH * n_ranks, _EQUAL_BLOCK_SIZE, direct, equal=True) for direct in directs]


def choose(ways: Sequence[DdWay], read: Callable[[DdWay], float]) -> list[DdWay]:
    """Return the fastest ways of one trial each.

    Parameters
    ----------
    ways
        What to try.
    read
        Returns the seconds of one.
    """
    return sorted(ways, key=read)[:_N_FINALISTS]


def run_dd(folders: Sequence[Path], way: DdWay, *, timeout_s: float) -> dict[str, Any]:
    """Read the flat file, and return the facts as a rank does.

    Parameters
    ----------
    folders
        Where the file lies, seen from each node; the processes are dealt to them.
    way
        How.
    timeout_s
        For all.

    Raises
    ------
    RankFailure
        If one of them fails or does not end in time.
    """
    n_blocks = -(-(folders[0] / _FILE).stat().st_size // way.block_size)
    bounds = [n_blocks * part // way.processes for part in range(way.processes + 1)]
    commands = [
        [
            "dd",
            f"if={folders[place % len(folders)] / _FILE}",
            "of=/dev/null",
            f"bs={way.block_size}",
            f"skip={first}",
            f"count={end - first}",
            "status=none",
            *(["iflag=direct"] if way.direct else []),
        ]
        for place, (first, end) in enumerate(itertools.pairwise(bounds))
        if end > first
    ]
    return run_commands(commands, timeout_s=timeout_s)


def run_cp(source: Path, target: Path, *, timeout_s: float) -> dict[str, Any]:
    """Copy a folder and sync the file system, and return the facts as a rank does."""
    script = 'cp -r "$1" "$2" && sync -f "$2"'
    return run_commands([["sh", "-c", script, "sh", str(source), str(target)]], timeout_s=timeout_s)


def run_commands(commands: Sequence[Sequence[str]], *, timeout_s: float) -> dict[str, Any]:
    """Run commands at the same time, and return when the first began and the last ended, and their processor time.

    Raises
    ------
    RankFailure
        If one of them fails or does not end in time.
    """
    before = os.times()
    start = time.monotonic()
    running = [subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE) for command in commands]
    try:
        for process in running:
            _, errors = process.communicate(timeout=max(0.0, start + timeout_s - time.monotonic()))
            if process.returncode:
                raise RankFailure(errors.decode(errors="replace").strip() or f"status {process.returncode}")
        end = time.monotonic()
    except subprocess.TimeoutExpired:
        raise RankFailure(f"expected it to end within {timeout_s:.0f} s, found it running") from None
    finally:
        for process in running:
            process.kill()
            process.wait()
    after = os.times()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return {"start": start, "end": end, "cpu_s": cpu_s, "peak_memory": None}
