"""``lmdbio get``: one record's bytes, by key or number."""

import logging
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lmdbio.cli.failure import CommandError
from lmdbio.cli.options import Database, IndexFile
from lmdbio.layout.printable import printable

if TYPE_CHECKING:
    from lmdbio.reader import Dataset, Record

_NUMBER = re.compile("0|[1-9][0-9]*", re.ASCII)


def get(
    db: Database,
    record: Annotated[
        str, typer.Argument(metavar="KEY|NUMBER", help="A decimal number, or else a key.", show_default=False)
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file.", show_default=False)
    ] = None,
    key: Annotated[bool, typer.Option("--key", help="Take it as a key, even if it looks like a number.")] = False,
    value: Annotated[bool, typer.Option("--value", help="Write LMDB's value, not the data within it.")] = False,
    index: IndexFile = None,
) -> None:
    """Write one record's data (the image within a Datum, else the value) to standard output or a file."""
    from lmdbio.reader import Dataset

    # That an index was built in memory matters to what starts often; here it would hide the one line of an error.
    logging.getLogger("lmdbio").setLevel(logging.ERROR)
    with Dataset(db, index=index) as dataset:
        found = _look_up(dataset, record, is_key=key or _NUMBER.fullmatch(record) is None, db=db)
        content = bytes(found.value if value else found.data)
    if output is not None:
        _write(output, content)
        return
    if sys.stdout.isatty() and not _is_text(content):
        raise CommandError(f"{len(content)} bytes of binary data would go to the terminal: name a file with -o FILE")
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def _write(output: Path, content: bytes) -> None:
    if output.is_dir():
        raise CommandError(f"{output}: expected a file to write, found a directory: name a file in it")
    if not output.parent.is_dir():
        raise CommandError(f"{output}: expected the directory {output.parent}, found none: mkdir -p it first")
    output.write_bytes(content)


def _look_up(dataset: "Dataset", text: str, *, is_key: bool, db: Path) -> "Record":
    if is_key:
        key = os.fsencode(text)
        try:
            return dataset[key]
        except KeyError:
            example = f"; keys there look like {printable(dataset.index.keys[0])}" if len(dataset) else ""
            raise CommandError(f"{db}: expected a record with key {printable(key)}, found none{example}") from None
    try:
        return dataset[int(text)]
    except IndexError:
        raise CommandError(
            f"{db}: expected a number below {len(dataset)} (or --key, if it is a key), found {text}"
        ) from None


def _is_text(content: bytes) -> bool:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return False
    return all(character.isprintable() or character.isspace() for character in text)
