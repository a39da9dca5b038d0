"""FUSE mounts: whether they are there, whether they answer, and how they are taken away even where they hang."""

import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tools.testbed import processes

_MOUNTINFO: Final = Path("/proc/self/mountinfo")

_ASK: Final = 'ls "$0" > /dev/null && cat "$0"/.meta/graphs/active/client*/private'
"""Lists the files, which asks every brick, then prints each connection's state."""


def is_mounted(path: Path) -> bool:
    """Return if something is mounted on the path; a mount that hangs is not touched."""
    return str(path) in (_unescape(line.split()[4]) for line in _MOUNTINFO.read_text().splitlines())


def answers(paths: Sequence[Path], *, n_bricks: int, timeout_s: float) -> list[bool]:
    """Return, for each mount, if within the time it lists its files and says that it is connected to every brick."""
    deadline = time.monotonic() + timeout_s

    def ask(path: Path) -> bool:
        while (left_s := deadline - time.monotonic()) > 0:
            if is_mounted(path) and _n_connected(path, left_s) == n_bricks:
                return True
            time.sleep(0.02)
        return False

    with ThreadPoolExecutor(len(paths)) as pool:
        return list(pool.map(ask, paths))


def unmount(path: Path, *, timeout_s: float) -> bool:
    """Take away what is mounted on the path, if it goes in time and nobody uses it; return if nothing is there now."""
    return _umount(path, [], timeout_s)


def detach(path: Path, *, timeout_s: float) -> bool:
    """Take away all that is mounted on the path, used or hanging; return if nothing is there now."""
    return _umount(path, ["--lazy"], timeout_s)


def _umount(path: Path, options: Sequence[str], timeout_s: float) -> bool:
    argv = ["umount", "--no-canonicalize", *options, str(path)]
    while is_mounted(path) and processes.output(argv, timeout_s=timeout_s) is not None:
        pass  # one mount may lie on another
    return not is_mounted(path)


def _n_connected(path: Path, timeout_s: float) -> int:
    text = processes.output(["sh", "-c", _ASK, str(path)], timeout_s=timeout_s) or ""
    return len(re.findall(r"^connected = 1$", text, re.MULTILINE))


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
