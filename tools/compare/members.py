"""Who takes part: contestants, the ways in which they read, and the environments that they run in."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from tools.compare.contestant import Contestant, Way
from tools.compare.contestants import load
from tools.compare.environments import python_of


@dataclass(slots=True)
class Member:
    """A contestant that takes part."""

    name: str
    """What it is loaded by."""
    contestant: Contestant
    ways: tuple[Way, ...]
    """How it reads in this comparison."""
    python: str

    @property
    def store(self) -> str:
        """Name of its folder."""
        return self.contestant.name.replace("/", "-")


def chosen_ways(contestant: Contestant, patterns: Sequence[str]) -> tuple[Way, ...]:
    """Return the ways of a contestant whose names match one of the patterns."""
    return tuple(way for way in contestant.ways if any(fnmatch(way.name, pattern) for pattern in patterns))


def check_ways(contestants: Sequence[Contestant], patterns: Sequence[str]) -> None:
    """Refuse a pattern that no way of these contestants matches.

    Raises
    ------
    ValueError
        If there is one.
    """
    names = list(dict.fromkeys(way.name for contestant in contestants for way in contestant.ways))
    for pattern in patterns:
        if not any(fnmatch(name, pattern) for name in names):
            whose = ", ".join(contestant.name for contestant in contestants)
            raise ValueError(f"ways: expected some of {shlex.join(names)}, which {whose} have, found {pattern!r}")


def join(names: Iterable[str], ways: Sequence[str], *, cache: Path) -> tuple[list[Member], list[str]]:
    """Return who takes part, each with its environment, and why others do not."""
    members, notes = [], []
    for name in names:
        contestant = load(name)
        try:
            python = python_of(contestant.requirements, cache=cache)
        except RuntimeError as exc:
            notes.append(f"{name}: left out: {exc}")
            continue
        members.append(Member(name, contestant, chosen_ways(contestant, ways), python))
    return members, notes
