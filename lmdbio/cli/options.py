"""The options and arguments that several commands share: one spelling, one help text."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from lmdbio import __version__
from lmdbio.cli.parsing import positive_number
from lmdbio.cli.sizes import parse_size


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"lmdbio {__version__}")
        raise typer.Exit


Database: TypeAlias = Annotated[
    Path,
    typer.Argument(
        metavar="DB", help="The database: its directory or its data file.", show_default=False, readable=False
    ),
]
IndexFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--index", metavar="FILE", help="The index, where it does not lie beside the data file.", readable=False
    ),
]
Version: TypeAlias = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
BatchSize: TypeAlias = Annotated[
    int, typer.Option("--batch-size", metavar="N", parser=positive_number, help="Records of a step on each rank.")
]
PartitionSize: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--partition-size",
        metavar="SIZE",
        parser=parse_size,
        help="Bytes of a partition, such as 16MiB (the default).",
        show_default=False,
    ),
]
