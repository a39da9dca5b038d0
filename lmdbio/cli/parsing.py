"""What an option's text stands for where it is a number or one of a few words; what else it is, is refused in one line.

typer's own refusals leave out what was found. Pure: no I/O.
"""

import enum
from collections.abc import Callable
from typing import Final, TypeVar

import typer

_MOST: Final = 1 << 30
"""More than there are records in a batch, rounds, or reads in flight."""
_MOST_SECONDS: Final = 1e9
"""More than a process lives; systems take no sleep of any length."""
_Word = TypeVar("_Word", bound=enum.StrEnum)


def whole_number(text: str | int) -> int:
    """Return the whole number that a text is.

    >>> whole_number("-3")
    -3
    """
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"expected a whole number, found {text!r}") from None


def positive_number(text: str | int) -> int:
    """Return the whole number from 1 that a text is."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if not 1 <= number <= _MOST:
        raise typer.BadParameter(f"expected a whole number from 1, found {str(text)!r}")
    return number


def seconds_from_1(text: str | float) -> float:
    """Return the seconds, of which a part may be given, that a text is: 1 or more, and not without end."""
    return _seconds(text, least=1)


def seconds_from_0(text: str | float) -> float:
    """Return the seconds, of which a part may be given, that a text is: 0 or more, and not without end."""
    return _seconds(text, least=0)


def _seconds(text: str | float, *, least: int) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not least <= seconds <= _MOST_SECONDS:
        raise typer.BadParameter(f"expected seconds, {least} or more, found {str(text)!r}")
    return seconds


def word_of(words: type[_Word]) -> Callable[[str], _Word]:
    """Return what takes the words of an enumeration, and no other."""

    def parse(text: str) -> _Word:
        try:
            return words(text)
        except ValueError:
            raise typer.BadParameter(f"expected {' or '.join(words)}, found {str(text)!r}") from None

    return parse
