"""The command line: each command calls one library function and prints its result.

The entry points import the rest only when they run, so that importing this package costs nothing.
"""


def main() -> None:
    """Run ``lmdbio`` with its subcommands."""
    from lmdbio.cli.app import run

    run("lmdbio")


def main_convert() -> None:
    """Run ``lmdbio-convert``, the same as ``lmdbio convert``."""
    from lmdbio.cli.app import run

    run("lmdbio-convert")


def main_index() -> None:
    """Run ``lmdbio-index``, the same as ``lmdbio index``."""
    from lmdbio.cli.app import run

    run("lmdbio-index")
