"""The command line: each command calls one library function and prints its result.

The entry points import the rest only when they run, so that importing this package costs nothing.
"""

import signal


def main() -> None:
    """Run ``lmdbio`` with its subcommands."""
    _run("lmdbio")


def main_convert() -> None:
    """Run ``lmdbio-convert``, the same as ``lmdbio convert``."""
    _run("lmdbio-convert")


def main_index() -> None:
    """Run ``lmdbio-index``, the same as ``lmdbio index``."""
    _run("lmdbio-index")


def _run(program: str) -> None:
    """Run a program; Ctrl-C before its work begins or after it is done shows no traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored, as in a shell's background
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a command takes it back when it begins
    try:
        from lmdbio.cli.app import run

        run(program)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
