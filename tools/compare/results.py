"""What was measured: every run, the machine, the versions, the settings; as JSON."""

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tools.compare.questions import Question

_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Run:
    """What became of one contestant's work in one round, by one epoch."""

    question: str
    """Its name."""
    round: int
    contestant: str
    way: str
    """How it read; empty where it stored."""
    shuffle: str
    """How well it shuffles, in a few words."""
    epoch: int = 0
    seconds: float | None = None
    """From the first rank's start to the last rank's end; None for a failure."""
    open_s: float | None = None
    """What opening took before, on the slowest rank."""
    n_records: int = 0
    """Records of the data set; those given again count once."""
    n_bytes: int = 0
    """Bytes of the data set's values."""
    n_repeated: int = 0
    """Values that were given again."""
    cpu_s: float | None = None
    """Processor time of all ranks and what they started."""
    peak_memory: int | None = None
    """Most bytes that all ranks held, summed."""
    failure: str | None = None
    """Why it does not count."""

    @property
    def row(self) -> tuple[str, str]:
        """Contestant and way."""
        return self.contestant, self.way


@dataclass(slots=True)
class Results:
    """Everything of one comparison."""

    settings: dict[str, Any]
    machine: dict[str, Any]
    questions: list[Question]
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    """By contestant."""
    runs: list[Run] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What was left out, and why."""

    def save(self, path: Path) -> None:
        """Write all of it, in place of what was there."""
        fields = {
            "format": _FORMAT,
            "settings": self.settings,
            "machine": self.machine,
            "versions": self.versions,
            "questions": [asdict(question) | {"name": question.name} for question in self.questions],
            "notes": self.notes,
            "runs": [asdict(run) for run in self.runs],
        }
        partial = path.with_name(path.name + ".partial")
        partial.write_text(json.dumps(fields, indent=1) + "\n")
        partial.replace(path)

    def fail(self, contestant: str, *, work: str, reason: str) -> None:
        """Strike all runs of a contestant at one kind of work."""
        names = {question.name for question in self.questions if question.work == work}
        self.runs = [
            replace(run, failure=run.failure or reason)
            if run.contestant == contestant and run.question in names
            else run
            for run in self.runs
        ]

    @classmethod
    def load(cls, path: Path) -> "Results":
        """Return what :meth:`save` wrote.

        Raises
        ------
        ValueError
            If it is of another format, or damaged.
        """
        fields = read_json(path)
        if fields.get("format") != _FORMAT:
            raise ValueError(f"{path}: expected results of format {_FORMAT}, found {fields.get('format')}")
        try:
            questions = [
                Question(**{name: value for name, value in one.items() if name != "name"})
                for one in fields["questions"]
            ]
            runs = [Run(**run) for run in fields["runs"]]
            return cls(fields["settings"], fields["machine"], questions, fields["versions"], runs, fields["notes"])
        except (KeyError, TypeError) as exc:
            raise ValueError(f"{path}: expected the results of a comparison, found others: {exc}") from exc


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises
    ------
    ValueError
        If there is none.
    """
    try:
        fields = json.loads(path.read_text())
    except ValueError as exc:
        raise ValueError(f"{path}: expected JSON, found a damaged file: {exc}") from exc
    if not isinstance(fields, dict):
        raise ValueError(f"{path}: expected a JSON object, found {type(fields).__name__}")
    return fields


def describe_machine(folders: Iterable[Path]) -> dict[str, Any]:
    """Return what the figures depend on: processor, cores, memory, kernel, and the file system of each folder."""
    return {
        "processor": _first(Path("/proc/cpuinfo"), "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "file_systems": {str(folder): describe_folder(folder) for folder in folders},
    }


def describe_folder(folder: Path) -> dict[str, Any]:
    """Return the type of a folder's file system, and how far the system reads ahead there."""
    found = subprocess.run(["stat", "-f", "-c", "%T", str(folder)], capture_output=True, text=True, check=True)
    device = os.stat(folder).st_dev
    read_ahead = Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb")
    size = int(read_ahead.read_text()) << 10 if read_ahead.exists() else None
    return {"type": found.stdout.strip(), "read_ahead": size}


def _first(path: Path, name: str) -> str:
    lines: Sequence[str] = path.read_text().splitlines() if path.exists() else ()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), platform.machine())
