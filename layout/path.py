"""Where a database's files are: every form in which people name a database, resolved in one place."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from lmdbio.errors import MissingDatabaseError

DATA_NAME = "data.mdb"
LOCK_NAMES = ("lock.mdb",)
INDEX_SUFFIX = ".index"

PathLike: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class DatabasePath:
    """The files of one database."""

    data: Path
    """The data file."""
    index: Path
    """The sidecar index; it need not exist."""


def resolve(database: PathLike, index: PathLike | None = None) -> DatabasePath:
    """Return the files of a database named as ``x.lmdb``, ``x.lmdb/``, ``x.lmdb/data.mdb`` or a single file.

    Raises
    ------
    MissingDatabaseError
        If nothing stands there, or a directory without a data file.
    """
    path = Path(database)
    if path.is_dir():
        data = path / DATA_NAME
        if not data.is_file():
            raise MissingDatabaseError(_no_data_message(path))
    elif path.exists():
        data = path
    else:
        raise MissingDatabaseError(
            f"{path}: expected a database (a directory with {DATA_NAME}, or a file), found nothing"
        )
    return DatabasePath(data, Path(index) if index is not None else data.with_name(data.name + INDEX_SUFFIX))


def _no_data_message(path: Path) -> str:
    message = f"{path}: expected an LMDB database directory with {DATA_NAME}, found none"
    splits = sorted(entry.parent.name for entry in path.glob(f"*/{DATA_NAME}"))
    if splits:
        return f"{message}; did you mean {path / splits[0]}?"
    return message
