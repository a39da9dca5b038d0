"""Servers' reads that fail now and then: a small library, compiled on the spot, that the bricks are started with.

GlusterFS's own debug/error-gen heeds its option error-no only where the rate cannot be chosen. Where it can, readers
get errors of all kinds, some of which the system hides (EINTR) or programs take for a refusal (EINVAL).
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tools.testbed.state import TestbedError

_SOURCE: Final = Path(__file__).with_name("read_errors.c")


def build_library(path: Path, *, error_rate: float) -> dict[str, str]:
    """Write the library to the path; return the environment in which it fails this share of a program's reads.

    Raises
    ------
    TestbedError
        If there is no compiler, or it fails.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        raise TestbedError("cc: not found, and errors need it; apt-get install gcc libc6-dev")
    argv = [compiler, "-shared", "-fPIC", "-O2", f"-DERROR_RATE={error_rate!r}", "-o", os.fspath(path), str(_SOURCE)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise TestbedError(f"{_SOURCE}: expected to be compiled, found {done.stderr.strip().splitlines()[:1]}")
    return {**os.environ, "LD_PRELOAD": os.fspath(path)}
