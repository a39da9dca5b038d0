"""What the command lines of the tools share: options that are checked, errors in one line, an end when told to."""

import argparse
import math
import os
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NoReturn

import typer

from lmdbio.cli.sizes import parse_size

_BAD_USAGE: Final = 2


class Parser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong with an option, without the usage of all others."""

    def error(self, message: str) -> NoReturn:
        """End the process."""
        refuse(self.prog.rpartition(".")[2], message)


def refuse(name: str, message: object) -> NoReturn:
    """End the process of a command that cannot do what is asked for, with a line that says why."""
    print(f"{name}: {message}", file=sys.stderr)
    raise SystemExit(_BAD_USAGE)


def whole(least: int) -> Callable[[str], int]:
    """Return what reads a whole number that is not less.

    >>> whole(1)("12")
    12
    """

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise argparse.ArgumentTypeError(f"expected a whole number, {least} or more, found {text!r}")
        return number

    return parse


def seconds(text: str) -> float:
    """Return a time that is not 0."""
    found = _number(text)
    if not 0 < found < math.inf:
        raise argparse.ArgumentTypeError(f"expected seconds, more than 0, found {text!r}")
    return found


def seconds_or_none(text: str) -> float:
    """Return a time, which may be 0."""
    found = _number(text)
    if not 0 <= found < math.inf:
        raise argparse.ArgumentTypeError(f"expected seconds, 0 or more, found {text!r}")
    return found


def size(text: str) -> int:
    """Return bytes, which may be 0.

    >>> size("0"), size("4GiB"), size("4e9")
    (0, 4294967296, 4000000000)
    """
    found = _number(text)
    if 0 <= found < math.inf:
        return int(found)
    try:
        return parse_size(text)
    except typer.BadParameter as exc:
        raise argparse.ArgumentTypeError(exc.message) from exc


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def words(values: Iterable[object]) -> str:
    """Return values as they are typed.

    >>> words([1, 2, 4])
    '1 2 4'
    """
    return " ".join(map(str, values))


def make_folders(folders: dict[str, Path]) -> None:
    """Make folders, given by the option that each comes from.

    Raises
    ------
    ValueError
        If one cannot be made, or written to.
    """
    for option, folder in folders.items():
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise ValueError(f"{option}: expected a folder that can be made, found {folder}: {exc.strerror}") from exc
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ValueError(f"{option}: expected a folder to write to, found {folder}, which may not be written to")


def carry_out(command: Callable[[], None], *, name: str) -> int:
    """Run a command and return its exit status; when it is told to end, what it began is undone first."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        command()
        sys.stdout.flush()
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except BrokenPipeError:  # whoever reads has enough; what is left in the buffer goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    return 0
