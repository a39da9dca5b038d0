"""The processes of a contestant that work together: started, told what to do, ended; in time, or with a reason why not.

A rank says ``hello``, waits, and is told to ``convert`` or to ``open``. It says ``ready`` when it is open, and ``done``
after each ``epoch``; ``end`` ends it. At any time it may say ``failed``. Ranks are plain processes or mpiexec's; what
they say is the same.
"""

import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tools.compare import processes
from tools.compare.channel import Channel, ChannelClosed
from tools.launch import MPI_SETTINGS

ROOT: Final = Path(__file__).parents[2]
_LEAVE_S: Final = 20.0
_POLL_S: Final = 0.2
_TAIL_SIZE: Final = 2000


class RankFailure(Exception):  # noqa: N818  # a finding about a contestant, which the driver records
    """The ranks did not do what they were told; the message says why, in one line."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is started."""

    python: str
    """Interpreter of the contestant's environment."""
    arguments: Sequence[str]
    """Of every rank alike."""
    size: int
    """Ranks."""
    uses_mpi: bool
    n_nodes: int
    """Nodes that the ranks stand for; above 1, MPI takes them for being on as many."""
    timeout_s: float
    """For everything, from the start to the end of the last rank."""


class RankGroup:
    """The ranks of a job, running, as a context; all of them are gone after it.

    Parameters
    ----------
    job
        What to start.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._deadline = time.monotonic() + job.timeout_s
        self._channels: list[Channel] = []
        self._pids: list[int] = []
        self._started: list[subprocess.Popen[bytes]] = []
        self._folder = tempfile.TemporaryDirectory(prefix="compare-")
        self.versions: dict[str, str] = {}
        """What the contestant is made of, once rank 0 has said it; nothing if it was not asked to."""

    @property
    def folder(self) -> Path:
        """A folder of this group alone, gone with it."""
        return Path(self._folder.name)

    def __enter__(self) -> Self:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self.folder / "socket"))
            listener.listen(self._job.size)
            try:
                self._start()
                hellos = [self._accept(listener) for _ in range(self._job.size)]
            except BaseException:
                self._end()
                raise
        by_rank = sorted(zip((hello["rank"] for hello in hellos), range(len(hellos)), strict=True))
        self._channels = [self._channels[place] for _, place in by_rank]
        self.versions = hellos[by_rank[0][1]]["versions"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._leave()
        finally:
            self._end()

    def ask(self, say: str, answer: str, *, facts: Sequence[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
        """Tell all ranks something, each with facts of its own, and return their answers, by rank.

        Raises
        ------
        RankFailure
            If one of them fails, ends, or does not answer in time.
        """
        for rank, channel in enumerate(self._channels):
            try:
                channel.send(say, **(facts[rank] if facts else {}))
            except ChannelClosed:
                raise self._gone(rank) from None
        # By whoever speaks first: the first to fail has the reason, and the others may wait for it for ever.
        answers: dict[int, dict[str, Any]] = {}
        while len(answers) < len(self._channels):
            waiting = {self._channels[rank].connection: rank for rank in range(self._job.size) if rank not in answers}
            ready, _, _ = select.select(list(waiting), [], [], max(0.0, self._deadline - time.monotonic()))
            if not ready:
                raise self._late(f"{answer!r} of rank {min(waiting.values())} after {say!r}")
            for connection in ready:
                rank = waiting[connection]
                answers[rank] = self._hear(rank, answer)
        return [answers[rank] for rank in sorted(answers)]

    def _hear(self, rank: int, answer: str) -> dict[str, Any]:
        try:
            message = self._channels[rank].receive(until=self._deadline)
        except ChannelClosed:
            raise self._gone(rank) from None
        except TimeoutError:
            raise self._late(f"the rest of what rank {rank} says") from None
        if message["say"] != answer:
            raise RankFailure(f"rank {rank}: {message.get('reason', message['say'])}")
        return message

    def _start(self) -> None:
        job = self._job
        command = [job.python, "-m", "tools.compare.worker", "--socket", str(self.folder / "socket")]
        command += ["--size", str(job.size), *job.arguments]
        environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
        if job.uses_mpi:
            environment |= MPI_SETTINGS
            if job.n_nodes > 1:
                environment["MPIR_CVAR_NUM_CLIQUES"] = str(job.n_nodes)
            launcher = Path(job.python).with_name("mpiexec")
            commands = [[str(launcher) if launcher.exists() else "mpiexec", "-n", str(job.size), *command]]
        else:
            commands = [[*command, "--rank", str(rank)] for rank in range(job.size)]
        with open(self.folder / "errors", "wb") as errors:
            for one in commands:
                self._started.append(
                    subprocess.Popen(
                        one,
                        cwd=ROOT,
                        env=environment,
                        stdin=subprocess.DEVNULL,
                        stdout=errors,
                        stderr=errors,
                        start_new_session=True,
                    )
                )

    def _accept(self, listener: socket.socket) -> dict[str, Any]:
        listener.settimeout(_POLL_S)
        while True:
            try:
                connection, _ = listener.accept()
                break
            except TimeoutError:
                if any(process.poll() is not None for process in self._started):
                    raise RankFailure(f"a rank ended before it began: {self._tail()}") from None
                if time.monotonic() > self._deadline:
                    raise self._late("a rank's hello") from None
        self._channels.append(Channel(connection))
        hello = self._hear(len(self._channels) - 1, "hello")
        self._pids.append(hello["pid"])
        return hello

    def _leave(self) -> None:
        """Let the ranks end by themselves; one that cannot is ended, which is no fault of what it has read."""
        for channel in self._channels:
            with suppress(ChannelClosed):
                channel.send("end")
        deadline = time.monotonic() + _LEAVE_S
        for process in self._started:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                print(f"compare: {self._job.arguments}: had to be ended", file=sys.stderr)

    def _end(self) -> None:
        """End whatever is left of the group, and forget it."""
        running = [process.pid for process in self._started if process.poll() is None]
        # Ranks of mpiexec are its grandchildren: known by what they said, should it have died before them.
        known = [pid for pid in self._pids if _is_worker(pid)]
        processes.end(running + known)
        for process in self._started:
            process.wait()
        for channel in self._channels:
            channel.close()
        self._folder.cleanup()

    def _gone(self, rank: int) -> RankFailure:
        return RankFailure(f"rank {rank} ended without a word: {self._tail()}")

    def _late(self, what: str) -> RankFailure:
        return RankFailure(f"expected {what} within {self._job.timeout_s:.0f} s, found none")

    def _tail(self) -> str:
        text = (self.folder / "errors").read_text(errors="replace")[-_TAIL_SIZE:].strip()
        return text.splitlines()[-1] if text else "it printed nothing"


def _is_worker(pid: int) -> bool:
    """Return whether the process is still the rank that it was, and not another with its number."""
    with suppress(OSError):
        return b"tools.compare.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
