"""The command line: each command calls one library function and prints its result.

The entry points import the rest only when they run, so that importing this package costs nothing.
"""

import os
import signal
from typing import NoReturn

_INTERRUPTED = 130  # 128 + SIGINT, as shells count


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
    """Run a program; Ctrl-C before, in and after its work is one line at most, and never a traceback."""

    def end(*_: object) -> NoReturn:
        # At once: an exception in the midst of an import may be taken for another one.
        try:
            os.write(2, f"{program}: error: interrupted\n".encode())
        finally:
            os._exit(_INTERRUPTED)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored, as in a shell's background
        signal.signal(signal.SIGINT, end)  # a command takes it back when it begins
    try:
        from lmdbio.cli.app import run

        run(program)
    except KeyboardInterrupt:
        end()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
