"""The memory in which what was read could stay: what the machine has free, and what the process's groups may take."""

import os
from pathlib import Path

_ROOT = Path("/")


def available_memory(*, root: Path = _ROOT) -> int:
    """Return the bytes that this process and the page cache of what it reads may take at most.

    The least of what the machine has available and the limits of the process's control groups (both versions), which
    batch systems and containers set.

    Parameters
    ----------
    root
        Where ``proc`` and ``sys`` are.
    """
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    facts = [line.split() for line in _lines(root / "proc/meminfo")]
    limits += [int(size) << 10 for name, size, *_ in facts if name == "MemAvailable:"]
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, group = line.split(":", 2)
        if not controllers:
            limits += _group_limits(root / "sys/fs/cgroup", group, "memory.max")
        elif "memory" in controllers.split(","):
            limits += _group_limits(root / "sys/fs/cgroup/memory", group, "memory.limit_in_bytes")
    return min(limits)


def _group_limits(folder: Path, group: str, name: str) -> list[int]:
    """Return the limits of a group and all above it; in a container those that can be seen."""
    parts = [part for part in group.split("/") if part and part != ".."]
    folders = [folder.joinpath(*parts[:depth]) for depth in range(len(parts) + 1)]
    return [int(line) for path in folders for line in _lines(path / name) if line.isdecimal()]


def _lines(path: Path) -> list[str]:
    """Return the file's lines; none where it is not there or not for us."""
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
