"""``lmdbio index`` and ``lmdbio-index``: the sidecar index of a database that exists."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lmdbio.cli.failure import CommandError
from lmdbio.cli.launch import require_one_process
from lmdbio.cli.options import Database, Json, PartitionSize, Quiet, Version
from lmdbio.cli.progress import Progress
from lmdbio.cli.sizes import format_size
from lmdbio.cli.text import plural, print_json, print_line
from lmdbio.errors import FormatError, MissingIndexError, NewerFormatError

if TYPE_CHECKING:
    from lmdbio.layout.index import Index
    from lmdbio.layout.path import DatabasePath


def index(
    db: Database,
    check: Annotated[
        bool, typer.Option("--check", help="Only see whether the index fits the database; exit status 1 if not.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write the index here, not beside the data file.", show_default=False
        ),
    ] = None,
    partition_size: PartitionSize = None,
    checksum: Annotated[
        bool, typer.Option("--checksum/--no-checksum", help="Read every value too, and store its checksum.")
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
    version: Version = False,  # noqa: ARG001  # its callback has done the work
) -> None:
    """Build the index of a database, or build it again; the database is not touched.

    Tree pages are read, and no values (unless with --checksum). Over an old index, what the database itself does not
    know is carried over by key: labels, class names, where in its value an image lies, how it was made.
    """
    from lmdbio.cli.values import datum_hint
    from lmdbio.layout.build import build_index
    from lmdbio.layout.index import Index
    from lmdbio.layout.path import resolve

    path = resolve(db, output)
    n_records = _count_records(path)
    if check:
        _report(Index.open(db, output), path.index, None, quiet=quiet, json=json)
        return
    require_one_process()
    _require_writable(path.index)
    started = time.monotonic()
    with Progress(quiet=quiet) as progress:
        progress.begin("checksums" if checksum else "index", n_records)
        built = build_index(
            db,
            partition_size=partition_size,
            checksum=checksum,
            previous=_previous(db, output),
            progress=progress,
        )
    built.save(path.index)
    seconds = time.monotonic() - started
    _report(built, path.index, seconds, quiet=quiet, json=json, hint=datum_hint(path.data, built))


def _require_writable(target: Path) -> None:
    """Know before the work begins that its result will have a place."""
    folder = target.parent
    if not folder.is_dir():
        raise CommandError(f"{target}: expected a directory to write the index in, found none: make {folder} first")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CommandError(
            f"{folder}: expected a directory that can be written, found a read-only one: "
            "name a place for the index with --output FILE (and give it to readers as index=)"
        )


def _count_records(path: "DatabasePath") -> int:
    from lmdbio.layout.file import DataFile
    from lmdbio.layout.meta import read_meta

    with DataFile(path.data) as file:
        return read_meta(file).main.entries


def _previous(db: Path, output: Path | None) -> "Index | None":
    """Return the index that stands there, whatever state of the database it describes, for what it alone knows."""
    from lmdbio.layout.index import Index

    try:
        return Index.open(db, output, check=False)
    except NewerFormatError:
        raise  # what it holds beyond this version would be lost
    except (MissingIndexError, FormatError):  # an unreadable one has nothing to give and is replaced
        return None


def _report(index: "Index", path: Path, seconds: float | None, *, quiet: bool, json: bool, hint: str = "") -> None:
    size = path.stat().st_size
    facts: dict[str, Any] = {
        "index": os.fspath(path),
        "state": "ok",
        "records": len(index),
        "partitions": len(index.partitions) - 1,
        "bytes": size,
    }
    if hint:
        facts["note"] = hint
    if seconds is not None:
        facts["seconds"] = round(seconds, 3)
    if json:
        print_json(facts)
    elif not quiet:
        what = "fits the database" if seconds is None else f"written in {seconds:.1f} s"
        print_line(
            f"{path}: {what}: {plural(len(index), 'record')}, {plural(facts['partitions'], 'partition')}, "
            f"{format_size(size)}"
        )
        if hint:
            print_line(f"note: {hint}")
