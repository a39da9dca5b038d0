"""The state file of a testbed: its plan, written before anything is begun, and the processes that came of it."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.testbed.plan import Plan
from tools.testbed.processes import Process, find, is_alive

DEFAULT_FOLDER: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "lmdbio-testbed")
"""Where a testbed lives unless told otherwise: on disk, for its bricks hold data sets."""

STATE_FILE: Final = "testbed.json"

_UNFINISHED: Final = STATE_FILE + ".new"
_VERSION: Final = 1


class TestbedError(RuntimeError):
    """What keeps a testbed from being there, in one line."""

    __test__ = False  # pytest takes the name for a test's


@dataclass(frozen=True, slots=True)
class State:
    """What is known of a testbed that is up, half up, or half down."""

    plan: Plan
    processes: dict[str, Process]
    """By daemon; one that is not named may run all the same, if whoever started it was killed just then."""


def read(folder: Path) -> State | None:
    """Return what the folder's state file says, None where there is no testbed.

    Raises
    ------
    TestbedError
        If the file is not one of ours.
    """
    path = folder / STATE_FILE
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    try:
        fields = json.loads(text)
        if fields["version"] != _VERSION:
            raise TestbedError(f"{path}: expected version {_VERSION}, found {fields['version']}")
        processes = {name: Process(*process) for name, process in fields["processes"].items()}
        return State(Plan.from_json(fields["plan"]), processes)
    except (ValueError, KeyError, TypeError) as exc:
        raise TestbedError(f"{path}: expected the state of a testbed, found something else ({exc})") from exc


def write(folder: Path, state: State) -> None:
    """Put the state file in place of the one before, whole."""
    fields = {"version": _VERSION, "plan": state.plan.to_json(), "processes": state.processes}
    temporary = folder / _UNFINISHED
    temporary.write_text(json.dumps(fields, indent=1) + "\n")
    temporary.replace(folder / STATE_FILE)


def remove(folder: Path) -> None:
    """Remove the state file, and one that was not finished."""
    for name in (STATE_FILE, _UNFINISHED):
        (folder / name).unlink(missing_ok=True)


def living(there: State) -> dict[str, list[Process]]:
    """Return the processes of each daemon, those included that were started but not yet written down."""
    found = {daemon.name: set(find(daemon.argv)) for daemon in there.plan.daemons}
    for name, process in there.processes.items():
        if is_alive(process):
            found[name].add(process)
    return {name: sorted(those) for name, those in found.items()}


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep every other `up` and `down` away from the folder.

    Raises
    ------
    TestbedError
        If another is at work there.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not _lock(descriptor) or not _is_at(folder, descriptor):
            raise TestbedError(f"{folder}: another up or down is at work here; try again when it is done")
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(folder: Path, descriptor: int) -> bool:
    """Return if the locked folder is still the one of that name: a `down` removes it."""
    return folder.exists() and os.path.samestat(os.fstat(descriptor), folder.stat())
