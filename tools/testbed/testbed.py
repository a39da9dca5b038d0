"""A testbed brought up and taken down: folders, then servers, then clients; and the other way round."""

import contextlib
import itertools
import os
import re
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tools.testbed import mounts, processes, state
from tools.testbed.errors import build_library
from tools.testbed.plan import Daemon, Plan
from tools.testbed.processes import Process
from tools.testbed.state import DEFAULT_FOLDER, State, TestbedError

_INSTALL: Final = "apt-get install glusterfs-server glusterfs-client fuse3"
_SYSTEM_PATH: Final = "/usr/local/sbin:/usr/sbin:/sbin"
_LOGGED_ERROR: Final = re.compile(r"\] [CE] (?:\[[^]]*\] )+(.*)")
"""A line of a daemon's log: its time, how bad it is (critical, error), where in the source, and what happened."""

_START_S: Final = 8.0
_UNMOUNT_S: Final = 3.0
_PATIENCE_S: Final = 2.0


class Testbed:
    """A distributed file system on this machine, up within the `with` block.

    Parameters
    ----------
    bricks
        How many servers there are; a file's stripes are spread over them.
    nodes
        How many clients, each with a mount and a cache of its own.
    read_delay_us
        What each read of a server costs at least, in microseconds.
    error_rate
        Share of the servers' reads, 0 to 1, that fail with EIO; this needs a C compiler.
    folder
        Where it lives; there is one testbed in a folder at a time.
    data
        Where the bricks' files lie, if not in the folder.
    keep_data
        Leave the bricks' files behind, for another testbed of as many bricks.
    """

    __test__ = False  # pytest takes the name for a test's

    def __init__(
        self,
        *,
        bricks: int = 2,
        nodes: int = 4,
        read_delay_us: int = 1000,
        error_rate: float = 0.0,
        folder: str | os.PathLike[str] = DEFAULT_FOLDER,
        data: str | os.PathLike[str] | None = None,
        keep_data: bool = False,
    ) -> None:
        if bricks < 1 or nodes < 1:
            raise ValueError(f"expected at least 1 brick and 1 node, found {bricks} and {nodes}")
        if read_delay_us < 0:
            raise ValueError(f"read_delay_us: expected 0 or more, found {read_delay_us}")
        if not 0 <= error_rate <= 1:
            raise ValueError(f"error_rate: expected a share from 0 to 1, found {error_rate}")
        self._n_bricks = bricks
        self._n_nodes = nodes
        self._read_delay_us = read_delay_us
        self._error_rate = error_rate
        self._folder = Path(folder).resolve()
        self._data = self._folder / "data" if data is None else Path(data).resolve()
        self._keep_data = keep_data
        self._mounts: list[Path] = []

    @property
    def mounts(self) -> list[Path]:
        """Each node's mount, while the testbed is up."""
        return list(self._mounts)

    def mount_of(self, node: int) -> Path:
        """Return the mount of a node, numbered from 0, while the testbed is up."""
        if not 0 <= node < len(self._mounts):
            raise ValueError(f"node: expected 0 or more and less than {len(self._mounts)}, found {node}")
        return self._mounts[node]

    def up(self) -> None:
        """Bring it up; return when every mount answers. Where that fails nothing is left of it.

        Raises
        ------
        TestbedError
            If there is one in the folder already, if something is missing, or if a daemon does not start.
        """
        server, client = _programs()
        self._folder.mkdir(parents=True, exist_ok=True)
        with state.locked(self._folder):
            try:
                if (there := state.read(self._folder)) is not None:
                    raise TestbedError(_refusal(there))
                self._mounts = _begin(self._plan(server, client))
            except BaseException:
                _remove_if_empty(self._folder)
                raise

    def _plan(self, server: str, client: str) -> Plan:
        return Plan(
            folder=str(self._folder),
            data=str(self._data),
            data_is_new=_is_new(self._data, self._n_bricks),
            ports=_free_ports(self._n_bricks),
            n_nodes=self._n_nodes,
            read_delay_us=self._read_delay_us,
            error_rate=self._error_rate,
            server=server,
            client=client,
        )

    def down(self) -> None:
        """Take it down."""
        self._mounts = []
        down(self._folder, keep_data=self._keep_data)

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.down()


def down(folder: str | os.PathLike[str] = DEFAULT_FOLDER, *, keep_data: bool = False) -> bool:
    """Take down what is up in a folder, whole or not; return if there was anything.

    Raises
    ------
    TestbedError
        If something does not go, or another is at work in the folder.
    """
    path = Path(folder).resolve()
    if not path.is_dir():
        return False
    with state.locked(path):
        there = state.read(path)
        if there is not None:
            _undo(there, keep_data=keep_data)
        else:  # whoever was to write the state was killed at it
            state.remove(path)
            _remove_if_empty(path)
        return there is not None


def _programs() -> tuple[str, str]:
    if os.geteuid():
        raise TestbedError("expected to be run by root, who may mount; found another user")
    if not Path("/dev/fuse").exists():
        raise TestbedError("/dev/fuse: not found; load the kernel's module fuse, or give the device to this container")
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), _SYSTEM_PATH))
    found = [shutil.which(name, path=path) for name in ("glusterfsd", "glusterfs")]
    if None in found:
        raise TestbedError(f"glusterfsd or glusterfs: not found; {_INSTALL}")
    return found[0], found[1]


def _refusal(there: State) -> str:
    plan = there.plan
    n_alive = sum(map(bool, state.living(there).values()))
    return (
        f"{plan.folder}: expected no testbed, found one with {n_alive} of {len(plan.daemons)} processes alive; "
        f"end it with python -m tools.testbed down --folder {plan.folder}"
    )


def _is_new(data: Path, n_bricks: int) -> bool:
    """Return if the bricks' folders are yet to be made; kept ones must be as many as there are to be bricks."""
    kept = sorted(path.name for path in data.glob("brick*"))
    wanted = [f"brick{brick}" for brick in range(n_bricks)]
    if kept and kept != wanted:
        raise TestbedError(f"{data}: expected no bricks, or {n_bricks} kept ones, found {', '.join(kept)}")
    return not kept


def _free_ports(n_ports: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n_ports)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _begin(plan: Plan) -> list[Path]:
    """Do what the plan says, whole or not at all; return the mounts."""
    try:
        _make_folders(plan)
        _start_all(plan)
        _await_answers(plan)
    except BaseException:
        _undo(State(plan, {}), keep_data=not plan.data_is_new)
        raise
    return plan.mounts


def _make_folders(plan: Plan) -> None:
    folder = Path(plan.folder)
    state.write(folder, State(plan, {}))
    for path in (folder / "daemons", *plan.brick_folders, *plan.mounts):
        path.mkdir(parents=True, exist_ok=True)


def _start_all(plan: Plan) -> None:
    plain = dict(os.environ)
    failing = build_library(plan.error_library, error_rate=plan.error_rate) if plan.error_rate else plain
    running: dict[str, Process] = {}
    for daemon in plan.daemons:
        running[daemon.name] = _start(daemon, failing if daemon.name.startswith("brick") else plain)
        state.write(Path(plan.folder), State(plan, running))


def _await_answers(plan: Plan) -> None:
    answers = mounts.answers(plan.mounts, n_bricks=len(plan.ports), timeout_s=_START_S)
    for daemon, mount, answer in zip(plan.clients, plan.mounts, answers, strict=True):
        if not answer:
            raise TestbedError(f"{mount}: expected an answer within {_START_S:g} s, found none{_complaint(daemon)}")


def _start(daemon: Daemon, environment: Mapping[str, str]) -> Process:
    daemon.volume_file.write_text(daemon.volume)
    started = processes.launch(daemon.argv, environment=environment, timeout_s=_START_S)
    if started and (found := processes.find(daemon.argv)):
        return found[0]
    raise TestbedError(f"{daemon.name}: expected {daemon.argv[0]} to start, found that it did not{_complaint(daemon)}")


def _complaint(daemon: Daemon) -> str:
    """Return the first error in a daemon's log, if it has one."""
    try:
        match = _LOGGED_ERROR.search(daemon.log.read_text(errors="replace"))
    except OSError:
        return ""
    return f": {match[1].strip()}" if match else ""


def _undo(there: State, *, keep_data: bool) -> None:
    plan = there.plan
    for mount in plan.mounts:
        mounts.unmount(mount, timeout_s=_UNMOUNT_S)
    those = itertools.chain.from_iterable(state.living(there).values())
    if left := processes.end(those, patience_s=_PATIENCE_S):
        raise TestbedError(f"{plan.folder}: expected all processes to end, found {[process.pid for process in left]}")
    for mount in plan.mounts:
        if not mounts.detach(mount, timeout_s=_UNMOUNT_S):
            raise TestbedError(f"{mount}: expected to be unmounted, found that it is not")
    _remove_files(plan, keep_data=keep_data)


def _remove_files(plan: Plan, *, keep_data: bool) -> None:
    """Remove what is the testbed's, the state file last: until then another `down` can go on from here."""
    folder = Path(plan.folder)
    for path in (folder / "daemons", *([] if keep_data else plan.brick_folders)):
        if path.exists():
            shutil.rmtree(path)
    for path in (*plan.mounts, folder / "mounts", Path(plan.data)):
        _remove_if_empty(path)  # never more: a mount that came back must not lose its files
    state.remove(folder)
    _remove_if_empty(folder)


def _remove_if_empty(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.rmdir()
