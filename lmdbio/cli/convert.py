"""``lmdbio convert`` and ``lmdbio-convert``: a data set in, a laid-out database and its index out."""

import enum
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lmdbio.cli.failure import CommandError
from lmdbio.cli.launch import require_one_process
from lmdbio.cli.options import Json, PartitionSize, Quiet, Version
from lmdbio.cli.parsing import positive_number, whole_number, word_of
from lmdbio.cli.progress import Progress
from lmdbio.cli.sizes import binary_namesake, format_rate, format_size, parse_size
from lmdbio.cli.text import plural, print_json, print_line, print_table

if TYPE_CHECKING:
    from lmdbio.convert.report import DatabaseReport, Report

_SKIPPED_SHOWN = 20
_MISNAMED_SHOWN = 3


class Kind(enum.StrEnum):
    """What lies in SRC."""

    IMAGENET = "imagenet"
    FOLDER = "folder"


class Order(enum.StrEnum):
    """In which order records lie in the file."""

    SHUFFLE = "shuffle"
    STRATIFIED = "stratified"
    SOURCE = "source"


class Value(enum.StrEnum):
    """What a value holds."""

    DATUM = "datum"
    RAW = "raw"


class Key(enum.StrEnum):
    """What a key says."""

    NUMBER = "number"
    PATH = "path"


class OnError(enum.StrEnum):
    """What becomes of a conversion that meets a bad input."""

    RAISE = "raise"
    SKIP = "skip"


def _parse_kind(text: str) -> Kind:
    try:
        return Kind(text)
    except ValueError:
        kinds = " or ".join(Kind)
        raise typer.BadParameter(f"expected {kinds}, found {text!r}; as in: lmdbio-convert folder SRC DST") from None


def convert(
    kind: Annotated[
        Kind, typer.Argument(metavar="KIND", parser=_parse_kind, help="imagenet or folder.", show_default=False)
    ],
    src: Annotated[
        Path, typer.Argument(metavar="SRC", help="The data set's directory.", show_default=False, readable=False)
    ],
    dst: Annotated[
        Path, typer.Argument(metavar="DST", help="The directory to make.", show_default=False, readable=False)
    ],
    order: Annotated[
        Order,
        typer.Option(
            metavar="WORD",
            parser=word_of(Order),
            help="shuffle: seeded, of all records; stratified: each class spread evenly; source: as found.",
        ),
    ] = Order.SHUFFLE,
    seed: Annotated[int, typer.Option(metavar="N", parser=whole_number, help="Seed of the order.")] = 0,
    partition_size: PartitionSize = None,
    partitions: Annotated[
        int | None,
        typer.Option(metavar="K", parser=positive_number, help="Cut into K partitions of about equal bytes instead."),
    ] = None,
    align: Annotated[
        int | None,
        typer.Option(
            metavar="SIZE",
            parser=parse_size,
            help="Begin partitions at multiples of this; 1MiB by default, a page where that would waste over 3 %.",
        ),
    ] = None,
    value: Annotated[
        Value,
        typer.Option(
            metavar="WORD",
            parser=word_of(Value),
            help="datum: Caffe's, with image and label; raw: the file's bytes alone.",
        ),
    ] = Value.DATUM,
    key: Annotated[
        Key,
        typer.Option(
            metavar="WORD",
            parser=word_of(Key),
            help="number: <record number>_<path>, so that key order is the file's order; path: the path alone.",
        ),
    ] = Key.NUMBER,
    checksum: Annotated[
        bool, typer.Option("--checksum/--no-checksum", help="Store each record's checksum in the index.")
    ] = True,
    workers: Annotated[
        int | None, typer.Option(metavar="N", parser=positive_number, help="Threads that read files; 16 by default.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what stands at DST.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be written and whether it fits; write nothing.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            metavar="N", parser=positive_number, help="Take this many inputs of each database, evenly spread over all."
        ),
    ] = None,
    on_error: Annotated[
        OnError,
        typer.Option(
            metavar="WORD", parser=word_of(OnError), help="raise: end at the first bad input; skip: leave it out."
        ),
    ] = OnError.RAISE,
    quiet: Quiet = False,
    json: Json = False,
    version: Version = False,  # noqa: ARG001  # its callback has done the work
) -> None:
    """Make a database and its index from a data set.

    \b
    KIND is one of
      imagenet  train/<wnid>/*.JPEG and val/<wnid>/*.JPEG, either or both:
                DST gets train.lmdb and val.lmdb
      folder    a directory of class folders with images: DST is the database

    Files pass through unchanged. DST appears when it is whole. Sizes take KiB, MiB, GiB; a bare number is bytes. With
    --on-error skip, bad inputs (unreadable, empty, no image) are listed at the end and the exit status is 1.
    """  # noqa: D301  # the escape is a backspace, which keeps the help's lines as they are
    from lmdbio.convert import convert as make

    require_one_process()
    _check_usage(align=align, partition_size=partition_size, n_partitions=partitions)
    with Progress(quiet=quiet) as progress:
        report = make(
            src,
            dst,
            kind=kind.value,
            order=order.value,
            seed=seed,
            partition_size=partition_size,
            n_partitions=partitions,
            align=align,
            value=value.value,
            key=key.value,
            checksum=checksum,
            workers=workers,
            overwrite=overwrite,
            dry_run=dry_run,
            limit=limit,
            on_error=on_error.value,
            progress=progress,
            planned=lambda plans: progress.begin("convert", plans.records),
        )
    if json:
        print_json(report.to_json())
    elif not quiet:
        _print(report)
    if report.skipped:
        first = report.skipped[0]
        raise CommandError(
            f"{dst}: {plural(len(report.skipped), 'input')} left out, the first: {first.path}: {first.reason}"
        )


def _check_usage(*, align: int | None, partition_size: int | None, n_partitions: int | None) -> None:
    """Refuse what no database could be laid out by, before the source is looked at."""
    from lmdbio.convert.options import PAGE_SIZE
    from lmdbio.layout.region_plan import Goal

    def fault(align: int | None, partition_size: int | None) -> str | None:
        try:
            Goal.make(page_size=PAGE_SIZE, align=align, partition_size=partition_size, n_partitions=None)
        except ValueError as exc:
            return str(exc)
        return None

    if partition_size is not None and n_partitions is not None:
        raise typer.BadParameter("--partition-size, --partitions: expected one of the two, found both")
    _check_size("--align", align, lambda size: fault(size, None))
    _check_size("--partition-size", partition_size, lambda size: fault(align, size))


def _check_size(option: str, size: int | None, fault: Callable[[int | None], str | None]) -> None:
    """Refuse a size that has a fault, and ask after its namesake in binary units where that has none."""
    found = fault(size)
    if found is not None:
        meant = binary_namesake(size or 0)
        hint = f": did you mean {meant}?" if meant and fault(parse_size(meant)) is None else ""
        raise typer.BadParameter(f"{option}: {found}{hint}")


def _print(report: "Report") -> None:
    print_table(row for database in report.databases for row in _rows(database, dry_run=report.dry_run))
    if not report.dry_run:
        rate = format_rate(report.input_bytes, report.seconds)
        print_line(
            f"{plural(report.records, 'record')}, {format_size(report.input_bytes)} in {report.seconds:.1f} s, {rate}"
        )
    if report.other_folders:
        print_line(f"passed over beside the splits: {', '.join(f'{name}/' for name in report.other_folders)}")
    for bad in report.skipped[:_SKIPPED_SHOWN]:
        print_line(f"left out: {bad.path}: {bad.reason}")
    if len(report.skipped) > _SKIPPED_SHOWN:
        print_line(f"left out: {len(report.skipped) - _SKIPPED_SHOWN:,} more (--json lists all)")


def _rows(database: "DatabaseReport", *, dry_run: bool) -> list[tuple[str, str]]:
    empty = f", {database.empty_classes:,} of them empty" if database.empty_classes else ""
    size = f", of up to {format_size(database.partition_size)} each" if database.partition_size else ""
    fell_back = " (1 MiB would cost more than 3 % of the file)" if database.align_fell_back else ""
    holes = f", {format_size(database.hole_bytes)} of them unused for alignment" if database.hole_bytes else ""
    rows = [
        ("would write" if dry_run else "database", database.path),
        ("index", database.index),
        ("records", f"{database.records:,} of {format_size(database.input_bytes)}"),
        ("classes", f"{database.classes:,}{empty}"),
        ("partitions", f"{database.partitions:,}{size}, aligned to {format_size(database.align)}{fell_back}"),
        ("file", f"{format_size(database.file_size)}{holes}"),
        ("free space", format_size(database.free_space) if dry_run else ""),
        (
            "keys cut",
            f"{database.keys_cut:,} at 511 bytes; their numbers keep them unique" if database.keys_cut else "",
        ),
        ("inline", _few(database.inline_records, "record", "small enough to lie in the tree's leaves")),
        ("case", _few(database.case_collisions, "key", "equal to another save for the case of letters")),
        ("passed over", ", ".join(f"{count:,} {what}" for what, count in database.ignored.items())),
        ("misnamed", _misnamed(database)),
    ]
    return [(name, text) for name, text in rows if text]


def _misnamed(database: "DatabaseReport") -> str:
    kinds = ", ".join(f"{count:,} {what}" for what, count in database.misnamed.items())
    shown = ", ".join(database.misnamed_paths[:_MISNAMED_SHOWN])
    more = ", …" if sum(database.misnamed.values()) > _MISNAMED_SHOWN else ""
    return f"{kinds}: {shown}{more}" if kinds else ""


def _few(count: int, noun: str, what: str) -> str:
    return f"{plural(count, noun)} {what}" if count else ""
