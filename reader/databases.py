"""Which databases an argument names: one, a list, a glob, or a directory of such as differ by a number."""

import glob
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from lmdbio.errors import MissingDatabaseError
from lmdbio.layout.path import DATA_NAME, INDEX_SUFFIX, LOCK_NAMES, PathLike, resolve

Databases: TypeAlias = PathLike | Sequence[PathLike]
"""One database, or several that are read as one: a list of them, a glob, or a directory of databases."""
_SUFFIXES: Final = (".lmdb", ".mdb")


@dataclass(frozen=True, slots=True)
class DatabaseFiles:
    """The files that make up what is read."""

    names: tuple[PathLike, ...]
    """What the databases were called, in the order in which records are numbered."""
    data: tuple[str, ...]
    """Absolute path of each data file."""
    indexes: tuple[str | None, ...]
    """Absolute path of each sidecar that was named."""

    def __len__(self) -> int:
        return len(self.data)


def find_databases(database: Databases, index: PathLike | Sequence[PathLike] | None = None) -> DatabaseFiles:
    """Return the files of the database, or databases, that an argument names.

    Databases of a glob or a directory are taken in the order of their names, digits counted as numbers.

    Parameters
    ----------
    database
        A database, a list of databases, a glob, or a directory of databases (``*.lmdb``, ``*.mdb`` or directories with
        a ``data.mdb``) whose names differ by nothing but numbers.
    index
        The sidecar, or one for each database, where they do not stand beside the data files.

    Raises
    ------
    MissingDatabaseError
        If something that is named is not there, or nothing is.
    ValueError
        If a database is named twice, names in a directory differ by more than numbers, or sidecars are not as many as
        databases.
    """
    if isinstance(database, str | os.PathLike):
        named = _expand(database)
    else:
        named = [one for part in database for one in _expand(part)]
        if not named:
            raise MissingDatabaseError("database: expected one or more, found an empty list")
    data = [os.path.abspath(resolve(one).data) for one in named]
    seen: set[str] = set()
    for path in data:
        real = os.path.realpath(path)
        if real in seen:
            raise ValueError(f"{path}: expected each database once, found it named twice")
        seen.add(real)
    return DatabaseFiles(tuple(named), tuple(data), _sidecars(index, n_databases=len(data)))


def _sidecars(index: PathLike | Sequence[PathLike] | None, *, n_databases: int) -> tuple[str | None, ...]:
    if index is None:
        return (None,) * n_databases
    named: Iterable[PathLike] = [index] if isinstance(index, str | os.PathLike) else index
    indexes = tuple(os.path.abspath(one) for one in named)
    if len(indexes) != n_databases:
        raise ValueError(f"index: expected one for each of {n_databases} databases, found {len(indexes)}")
    return indexes


def _expand(named: PathLike) -> list[PathLike]:
    """Return the databases that one name stands for."""
    path = Path(named)
    if not path.exists() and glob.has_magic(os.fspath(named)):
        found = [one for one in glob.glob(os.fspath(named)) if not _is_beside(one)]
        if not found:
            raise MissingDatabaseError(f"{named}: expected databases by this pattern, found none")
        return sorted(found, key=_natural)
    if path.is_dir() and not (path / DATA_NAME).exists():
        found = [os.fspath(one) for one in path.iterdir() if _is_database(one)]
        if len({_without_numbers(one) for one in found}) == 1:
            return sorted(found, key=_natural)
    return [named]  # what is wrong with it, the resolver of one database says best


def _is_database(path: Path) -> bool:
    if path.is_dir():
        return (path / DATA_NAME).is_file()
    return path.suffix in _SUFFIXES and not _is_beside(os.fspath(path))


def _is_beside(path: str) -> bool:
    """Return whether this is a sidecar or a lock file."""
    return path.endswith((INDEX_SUFFIX, "-lock")) or os.path.basename(path) in LOCK_NAMES


def _natural(path: PathLike) -> tuple[list[tuple[int, str]], str]:
    """Return what sorts names by their numbers, ``shard-2`` before ``shard-10``; then as they are written."""
    name = os.fspath(path)
    parts = [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name) if part]
    return parts, name


def _without_numbers(path: str) -> str:
    return re.sub(r"\d+", "#", os.path.basename(path))
