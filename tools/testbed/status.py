"""What is up of a testbed: which daemons live, which mounts answer. Changes nothing."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tools.testbed import mounts, state
from tools.testbed.state import DEFAULT_FOLDER

_ANSWER_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Status:
    """A testbed as it is now."""

    folder: str
    read_delay_us: int
    error_rate: float
    ports: list[int]
    """Where each brick listens, or listened."""
    mounts: list[str]
    """Each node's mount."""
    answers: list[bool]
    """Whether each mount lists its files and has a connection to every brick."""
    processes: dict[str, int | None]
    """Pid of each daemon; None where it has ended, or was not started."""

    @property
    def is_whole(self) -> bool:
        """Whether every daemon lives and every mount answers."""
        return all(self.answers) and None not in self.processes.values()

    def to_json(self) -> dict[str, Any]:
        """Return all of it as what JSON can hold."""
        return asdict(self) | {"is_whole": self.is_whole}

    def __str__(self) -> str:
        whole = "whole" if self.is_whole else "not whole"
        lines = [
            f"{self.folder}: {whole}, reads wait {self.read_delay_us} us, {100 * self.error_rate:g} % of them fail"
        ]
        lines += [f"  {name}: {f'pid {pid}' if pid else 'ended'}" for name, pid in self.processes.items()]
        for path, answers in zip(self.mounts, self.answers, strict=True):
            lines.append(f"  {path}: {'answers' if answers else 'does not answer'}")
        return "\n".join(lines)


def status(folder: str | os.PathLike[str] = DEFAULT_FOLDER) -> Status | None:
    """Return how the testbed in a folder does, None where there is none."""
    there = state.read(Path(folder).resolve())
    if there is None:
        return None
    plan = there.plan
    living = state.living(there)
    return Status(
        folder=plan.folder,
        read_delay_us=plan.read_delay_us,
        error_rate=plan.error_rate,
        ports=plan.ports,
        mounts=[str(mount) for mount in plan.mounts],
        answers=mounts.answers(plan.mounts, n_bricks=len(plan.ports), timeout_s=_ANSWER_S),
        processes={name: those[0].pid if those else None for name, those in living.items()},
    )
