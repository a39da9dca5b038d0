"""FUSE mounts: whether they are there, whether they answer, and how they are taken away even where they hang."""

import os
import re
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path

_MOUNTINFO = Path("/proc/self/mountinfo")


def is_mounted(path: Path) -> bool:
    """Return if something is mounted on the path; a mount that hangs is not touched."""
    return str(path) in (_unescape(line.split()[4]) for line in _MOUNTINFO.read_text().splitlines())


def answers(paths: Sequence[Path], *, n_bricks: int, timeout_s: float) -> list[bool]:
    """Return, for each mount, if within the time it lists its files and says that it is connected to every brick."""
    deadline = time.monotonic() + timeout_s
    heard = [threading.Event() for _ in paths]

    def ask(path: Path, event: threading.Event) -> None:
        while not (is_mounted(path) and _is_connected(path, n_bricks)) and time.monotonic() < deadline:
            time.sleep(0.02)
        if time.monotonic() < deadline:
            event.set()

    for path, event in zip(paths, heard, strict=True):
        threading.Thread(target=ask, args=(path, event), daemon=True).start()  # it may hang until the client is gone
    return [event.wait(max(0, deadline - time.monotonic())) for event in heard]


def unmount(path: Path, *, timeout_s: float) -> bool:
    """Take away what is mounted on the path, if it goes in time and nobody uses it; return if nothing is there now."""
    return _umount(path, [], timeout_s)


def detach(path: Path, *, timeout_s: float) -> bool:
    """Take away all that is mounted on the path, used or hanging; return if nothing is there now."""
    return _umount(path, ["--lazy"], timeout_s)


def _umount(path: Path, options: list[str], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while is_mounted(path) and time.monotonic() < deadline:
        process = subprocess.Popen(
            ["umount", "--no-canonicalize", *options, str(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            if process.wait(max(0.1, deadline - time.monotonic())):
                break
        except subprocess.TimeoutExpired:
            process.kill()
            break
    return not is_mounted(path)


def _is_connected(path: Path, n_bricks: int) -> bool:
    clients = [path / ".meta/graphs/active" / f"client{brick}" / "private" for brick in range(n_bricks)]
    try:
        os.listdir(path)
        return all(re.search(r"^connected = 1$", client.read_text(), re.MULTILINE) for client in clients)
    except OSError:
        return False


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
