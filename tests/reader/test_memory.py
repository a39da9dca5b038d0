"""The memory that a process may use is the least of what the machine has and its groups' limits."""

import os
from pathlib import Path

import pytest

from lmdbio.reader.memory import available_memory

PHYSICAL = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def lay(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, PHYSICAL),
        ({"proc/meminfo": "MemTotal: 99 kB\nMemFree: 1 kB\nMemAvailable: 64 kB\n"}, 64 << 10),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n"}, PHYSICAL),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "5000\n"}, 5000),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/memory.max": "5000\n",
                "sys/fs/cgroup/a/memory.max": "4000\n",
                "sys/fs/cgroup/c/memory.max": "3000\n",
            },
            4000,
        ),
        (
            {
                "proc/self/cgroup": "5:cpu,cpuacct:/a\n4:memory:/job:1/step\n",
                "sys/fs/cgroup/memory/job:1/memory.limit_in_bytes": "7000\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{1 << 63}\n",
            },
            7000,
        ),
        # within a container the group's name is the host's, and its limit stands at the top
        (
            {
                "proc/self/cgroup": "4:memory:/docker/abc\n0::/../x\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "6000\n",
            },
            6000,
        ),
        ({"proc/meminfo": "MemAvailable: 1 kB\n", "proc/self/cgroup": "0::/\n"}, 1024),
    ],
)
def test_the_least_limit_counts(tmp_path: Path, files: dict[str, str], expected: int) -> None:
    assert available_memory(root=lay(tmp_path, files)) == expected


def test_this_machine_has_some() -> None:
    assert 0 < available_memory() <= PHYSICAL
