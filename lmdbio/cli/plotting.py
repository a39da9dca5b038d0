"""What commands that draw have in common: whether they can, known before the work begins."""

import importlib.util
import os
from pathlib import Path
from typing import Final

import typer

from lmdbio.cli.failure import CommandError

_SUFFIXES: Final = (".png", ".svg", ".pdf")


def require_plotting(plot: Path) -> None:
    """Refuse a picture that cannot be drawn, or has no place.

    Raises
    ------
    CommandError
        If matplotlib is not installed, or the folder cannot be written.
    typer.BadParameter
        If the name ends in no format that is known.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise CommandError("--plot: expected matplotlib, found none: pip install 'lmdbio[plot]'")
    if plot.suffix.lower() not in _SUFFIXES:
        raise typer.BadParameter(f"--plot: expected a name in {', '.join(_SUFFIXES)}, found {str(plot)!r}")
    require_folder(plot)


def require_folder(path: Path) -> None:
    """Refuse a file whose folder is not there or cannot be written."""
    folder = path.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise CommandError(f"{path}: expected a directory that can be written, found none at {folder}")
