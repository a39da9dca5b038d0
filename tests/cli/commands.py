"""The installed commands as subprocesses: how they are started, and what they come to."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

BIN = Path(sys.executable).parent
_LAUNCHER_MARKS = ("PMI_", "PMIX_", "OMPI_", "SLURM_")

# Root may read and write everything; without these two capabilities it obeys modes like anybody.
_OBEY_MODES = """
import ctypes, os, sys
prctl = ctypes.CDLL(None, use_errno=True).prctl
if os.geteuid() == 0 and any(prctl(24, capability, 0, 0, 0) for capability in (1, 2)):
    sys.exit("cannot drop capabilities")
os.execv(sys.argv[1], sys.argv[1:])
"""

# Forks a process for each request, which is what starting the command would be, but for a second of imports each time.
_SERVER = """
import contextlib, gc, io, json, os, signal, sys, time
import typer
import lmdbio.cli.app, lmdbio.convert.conversion, lmdbio.layout.build, lmdbio.reader.measure, lmdbio.reader.verify
command = typer.main.get_command(lmdbio.cli.app.application("lmdbio"))
with contextlib.redirect_stderr(io.StringIO()):
    for words in ("convert folder /none", "index", "info", "get /none", "verify", "bench"):
        command([*words.split(), "/none"], standalone_mode=False)
gc.collect()
gc.freeze()
gc.disable()
requests, answers = sys.stdin, os.dup(1)
os.dup2(2, 1)
for line in iter(requests.readline, ""):
    request = json.loads(line)
    child = os.fork()
    if child == 0:
        break
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.write(answers, b"%d\\n" % status)
else:
    sys.exit(0)
os.close(answers)
for descriptor, path in enumerate((os.devnull, request["out"], request["err"])):
    opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.dup2(opened, descriptor)
    os.close(opened)
os.chdir(request["place"])
os.environ.update(request["environment"])
sys.argv = request["command"]
exec(request["setup"])
lmdbio.cli.app.run(request["command"][0])
"""


@dataclass(frozen=True)
class Done:
    """What a command came to."""

    status: int
    out: str
    err: str

    def error(self, program: str) -> str:
        """Return the one line of a command that failed as it should, without its head."""
        assert self.status == 1, (self.status, self.err)
        assert self.out == ""
        head = f"{program}: error: "
        assert self.err.startswith(head), self.err
        assert self.err.count("\n") == 1, self.err
        assert self.err.endswith("\n"), self.err
        assert "Traceback" not in self.err
        return self.err[len(head) : -1]

    def ok(self) -> str:
        """Return the output of a command that ended well."""
        assert self.status == 0, (self.status, self.out, self.err)
        assert self.err == ""
        return self.out


class Run(Protocol):
    """Runs a command in an empty directory.

    ``obey_modes``: as somebody who is not above permissions; ``setup``: Python that goes before it in its process.
    """

    def __call__(
        self,
        program: str,
        *args: str | bytes | Path,
        obey_modes: bool = False,
        setup: str = "",
        **environment: str,
    ) -> Done: ...


class MakeFolder(Protocol):
    """Makes a directory of class folders: by path below it, how many bytes the file has; ten images unless given."""

    def __call__(self, files: Mapping[str, int] | Mapping[bytes, int] | None = None, name: str = "source") -> Path: ...


class Server:
    """A process that has imported all that the commands need, and forks one process for each."""

    def __init__(self) -> None:
        # One thread: a process of several would not be safe to fork.
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_environment() | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            text=True,
        )

    def run(self, place: Path, command: Sequence[str], *, setup: str, environment: dict[str, str]) -> Done:
        """Run a command in a directory; ``setup`` is Python that goes before it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
            request = {
                "place": str(place), "command": command, "setup": setup, "environment": environment,
                "out": out.name, "err": err.name,
            }  # fmt: skip
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            status = int(self._process.stdout.readline())
            return Done(status, _text(out.read()), _text(err.read()))

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def start(place: Path, command: Sequence[str], *, obey_modes: bool, environment: dict[str, str]) -> Done:
    """Run an installed command, from its start, in a directory."""
    words = [str(BIN / command[0]), *command[1:]]
    if obey_modes:
        words = [sys.executable, "-c", _OBEY_MODES, *words]
    done = subprocess.run(
        words, capture_output=True, cwd=place, env=_environment() | environment, timeout=120, check=False
    )
    if obey_modes and b"cannot drop capabilities" in done.stderr:
        pytest.skip("root that may not drop its own capabilities")
    return Done(done.returncode, _text(done.stdout), _text(done.stderr))


def _text(output: bytes) -> str:
    return output.decode("utf-8", "backslashreplace")


def _environment() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if not name.startswith(_LAUNCHER_MARKS)}
