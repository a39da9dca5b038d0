"""The processes that read together: what becomes of them when one fails."""

import traceback

from lmdbio.comm import Comm, abort
from lmdbio.errors import LmdbioError
from lmdbio.reader.settings import OnError


class Job:
    """All ranks of a reader.

    Parameters
    ----------
    comm, rank, world_size
        The ranks, this one, and how many there are.
    on_error
        As in :class:`lmdbio.reader.ParallelReader`.
    """

    def __init__(self, comm: Comm, *, rank: int, world_size: int, on_error: OnError) -> None:
        self._comm = comm
        self._rank = rank
        self._has_failed = False
        self.aborts = on_error == "abort" and world_size > 1
        """Whether an error of one process ends all."""

    def fail(self, error: BaseException) -> None:
        """End all processes of the job with one message; return where there is but one, or the caller sees to it."""
        if not self.aborts or self._has_failed or _is_peaceful(error):
            return
        self._has_failed = True
        # Errors of ours say all in one line; of others' the user needs the place.
        status, text = 1, str(error)
        if isinstance(error, SystemExit):
            if isinstance(error.code, int):
                status, text = error.code & 0xFF or 1, f"ended by sys.exit({error.code})"
        elif isinstance(error, KeyboardInterrupt):
            text = "interrupted"
        elif not isinstance(error, LmdbioError):
            text = "".join(traceback.format_exception(error)).rstrip()
        abort(self._comm, f"lmdbio: rank {self._rank}: {text}", status=status)


def _is_peaceful(error: BaseException) -> bool:
    """Return whether the exception is a way of ending in order."""
    return isinstance(error, GeneratorExit) or (isinstance(error, SystemExit) and not error.code)
