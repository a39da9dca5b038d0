"""The typer applications behind the entry points, and what becomes of an error."""

import errno
import functools
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn, ParamSpec

import typer

from lmdbio.cli.bench import bench
from lmdbio.cli.convert import convert
from lmdbio.cli.get import get
from lmdbio.cli.index import index
from lmdbio.cli.info import info
from lmdbio.cli.launch import find_launch
from lmdbio.cli.options import Version
from lmdbio.cli.read import read
from lmdbio.cli.text import print_error
from lmdbio.cli.usage import UsageError, describe
from lmdbio.cli.verify import verify
from lmdbio.errors import LmdbioError

_COMMANDS: dict[str, Callable[..., None]] = {
    "convert": convert,
    "index": index,
    "info": info,
    "get": get,
    "verify": verify,
    "bench": bench,
    "read": read,
}
_RANK_0_ALONE = {"lmdbio info", "lmdbio get"}  # these answer one person; every rank would say the same
_BAD_USAGE = 2
_INTERRUPTED = 130  # 128 + SIGINT, as shells count
_PIPE_CLOSED = 141  # 128 + SIGPIPE

_USERS_ERRNOS = frozenset(
    {
        errno.ENOENT, errno.EACCES, errno.EPERM, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENOTEMPTY,
        errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP, errno.EXDEV,
        errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENFILE, errno.ETXTBSY, errno.EBUSY,
    }
)  # fmt: skip
"""What a file system answers when the caller or the machine is at fault; other numbers (EBADF, EINVAL) are bugs."""

P = ParamSpec("P")


def run(program: str) -> NoReturn:
    """Run one of the three programs with the process's arguments, and end the process."""
    _prepare_streams()
    has_commands = "-" not in program
    args = sys.argv[1:] or (["--help"] if has_commands else [])
    try:
        status = application(program)(args, prog_name=program, standalone_mode=False)
    except UsageError as exc:
        command = f"{program} {args[0]}" if has_commands and args[0] in _COMMANDS else program
        _tell(command, describe(exc, command))
        sys.exit(_BAD_USAGE)
    sys.exit(status or 0)


def _prepare_streams() -> None:
    """Give the process a standard output and error that take anything."""
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        if stream is None:  # closed by who started us; the next file opened must not take its number
            null = os.open(os.devnull, os.O_WRONLY)
            if null != descriptor:
                os.dup2(null, descriptor)
            stream = open(descriptor, "w", closefd=False)  # noqa: SIM115  # lasts as long as the process
            setattr(sys, name, stream)
        if hasattr(stream, "reconfigure"):  # a name that the terminal cannot show must not end the run
            stream.reconfigure(errors="backslashreplace")


def application(program: str) -> typer.Typer:
    """Return the application of ``lmdbio``, ``lmdbio-convert`` or ``lmdbio-index``."""
    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    prefix, _, only = program.partition("-")
    for name in [only] if only else list(_COMMANDS):
        app.command(name)(_handled(_COMMANDS[name], program if only else f"{prefix} {name}"))
    if not only:
        app.callback()(_group)
    return app


def _group(version: Version = False) -> None:
    """Convert data sets into laid-out LMDB databases, index existing ones, and look into both."""


def _handled(command: Callable[P, None], program: str) -> Callable[P, None]:
    """Return the command with its errors turned into one line and an exit status."""

    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> None:
        if program in _RANK_0_ALONE and find_launch().rank > 0:
            return
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except BrokenPipeError:
            _drop_output()
            raise typer.Exit(_PIPE_CLOSED) from None
        except KeyboardInterrupt:
            _tell(program, "interrupted")
            raise typer.Exit(_INTERRUPTED) from None
        except LmdbioError as exc:
            _tell(program, str(exc))
            raise typer.Exit(1) from None
        except OSError as exc:
            if exc.errno not in _USERS_ERRNOS:
                raise
            _drop_output()
            _tell(program, _describe(exc))
            raise typer.Exit(1) from None

    return wrapper


def _drop_output() -> None:
    """Let go of output that nobody takes (its reader has gone, its disk is full): it must not fail again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _tell(program: str, message: str) -> None:
    if find_launch().rank == 0:
        print_error(program, message)


def _describe(error: OSError) -> str:
    names = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
    return ": ".join([" -> ".join(names), error.strerror or "error"]) if names else error.strerror or str(error)
