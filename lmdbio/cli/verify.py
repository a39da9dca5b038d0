"""``lmdbio verify``: whether every record lies where the index says and is what was written."""

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lmdbio.cli.failure import CommandError
from lmdbio.cli.launch import communicator, find_launch
from lmdbio.cli.options import Database, IndexFile, Json, Quiet
from lmdbio.cli.progress import Progress
from lmdbio.cli.sizes import format_rate, format_size
from lmdbio.cli.text import plural, print_json, print_line, print_table
from lmdbio.layout.printable import printable

if TYPE_CHECKING:
    from lmdbio.reader.verify import CrossCheck, Finding

_SHOWN = 20


def verify(
    db: Database,
    cross_check: Annotated[
        bool, typer.Option("--cross-check", help="Ask stock LMDB for every record too, and compare.")
    ] = False,
    index: IndexFile = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Read every record by its extent and compare it with its stored checksum.

    The index's extents are compared with the database's own tree as well. Exit status 1 if anything differs. Under
    mpiexec the ranks share the work.
    """
    from lmdbio.reader.verify import cross_check as check

    started = time.monotonic()
    with Progress(quiet=quiet) as progress:
        found = check(
            db,
            index,
            stock=cross_check,
            comm=communicator(),
            planned=lambda total: progress.begin("verify", total),
            progress=progress,
        )
    seconds = time.monotonic() - started
    if find_launch().rank == 0:
        if json:
            print_json(_as_json(found, seconds, cross_check=cross_check))
        elif not quiet or found.n_findings:
            _print(found, seconds, cross_check=cross_check)
    if found.n_findings:
        raise CommandError(f"{db}: {plural(found.n_findings, 'difference')}, the first: {_describe(found.findings[0])}")


def _print(found: "CrossCheck", seconds: float, *, cross_check: bool) -> None:
    for finding in found.findings[:_SHOWN]:
        print_line(_describe(finding))
    if found.n_findings > _SHOWN:
        print_line(f"and {found.n_findings - _SHOWN:,} more")
    print_table(
        [
            ("records", f"{found.n_records:,}"),
            ("bytes", format_size(found.n_bytes)),
            ("time", f"{seconds:.1f} s, {format_rate(found.n_bytes, seconds)}"),
            ("checksums", "compared" if found.has_checksums else "none stored (lmdbio-index --checksum stores them)"),
            ("stock LMDB", "compared" if cross_check else "not asked (--cross-check asks it)"),
            ("differences", f"{found.n_findings:,}" if found.n_findings else "none"),
        ]
    )


def _describe(finding: "Finding") -> str:
    if finding.number is None or finding.key is None:
        return f"{finding.difference}: {finding.detail}"
    return f"record {finding.number} (key {printable(finding.key)}): {finding.difference}: {finding.detail}"


def _as_json(found: "CrossCheck", seconds: float, *, cross_check: bool) -> dict[str, Any]:
    return {**asdict(found), "cross_check": cross_check, "seconds": round(seconds, 3)}
