"""Text that is safe to print: one line, any terminal, whatever bytes a file name holds."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from lmdbio.layout.printable import printable


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Return a count with its noun.

    >>> plural(1, "record"), plural(1200, "record"), plural(2, "class", "classes")
    ('1 record', '1,200 records', '2 classes')
    """
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def print_line(text: str) -> None:
    """Print one line on standard output."""
    print(printable(text))


def print_error(program: str, message: str) -> None:
    """Print one line on standard error: the program, then what is wrong."""
    print(f"{program}: error: {printable(message)}", file=sys.stderr, flush=True)


def print_table(rows: Iterable[Sequence[str]]) -> None:
    """Print pairs of a name and what it is, the second column aligned."""
    pairs = [(name, text) for name, text in rows]
    width = max((len(name) for name, _ in pairs), default=0)
    for name, text in pairs:
        print_line(f"{name:<{width}}  {text}".rstrip())


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object in ASCII; paths that are not UTF-8 keep Python's surrogate escapes."""
    print(json.dumps(value, indent=2, default=_plain))


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return printable(value)
    if hasattr(value, "tolist"):  # numpy's scalars and arrays
        return value.tolist()
    return str(value)
