"""Virtual environments: one for each set of pinned requirements, made when it is first needed, kept in the cache."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

COMMON: Final = ("numpy==2.4.6", "pillow==13.0.0", "xxhash==4.1.0")
"""What every rank needs."""
PLOT: Final = ("matplotlib==3.11.2",)
"""What the charts need."""
_DONE: Final = "done"


def cache_folder() -> Path:
    """Return where everything is kept that a later run can use again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lmdbio-compare"


def python_of(requirements: Sequence[str], *, cache: Path) -> str:
    """Return the interpreter of an environment with these requirements, made if it is not there.

    Without requirements it is the interpreter at hand.

    Raises
    ------
    RuntimeError
        If they cannot be installed.
    """
    if not requirements:
        return sys.executable
    pins = pins_of(requirements)
    folder = cache / "environments" / name_of(pins)
    python = folder / "bin" / "python"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / _DONE).exists():
            print(f"compare: making an environment for {', '.join(requirements)}", file=sys.stderr, flush=True)
            _make(folder, python, pins)
    return str(python)


def pins_of(requirements: Sequence[str]) -> list[str]:
    """Return all pins of an environment: a contestant's own come before the common ones of the same package."""
    named = {_package(pin): pin for pin in (*COMMON, *requirements)}
    return sorted(named.values())


def name_of(pins: Sequence[str]) -> str:
    """Return the name of an environment: another for other pins, or another Python."""
    return hashlib.sha256("\n".join([sys.version, *pins]).encode()).hexdigest()[:16]


def _package(pin: str) -> str:
    return pin.partition("==")[0].partition("[")[0].strip().lower()


def _make(folder: Path, python: Path, pins: Sequence[str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *pins]
    for command in ([sys.executable, "-m", "venv", str(folder)], install):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["nothing said"])[-1]
            raise RuntimeError(f"{' '.join(pins)}: expected an environment, found: {last}")
    (folder / _DONE).write_text("\n".join(pins) + "\n")
