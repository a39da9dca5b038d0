"""The data file as all ranks have it open together through MPI-IO; MPI's errors become ours here."""

import contextlib
import logging
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from lmdbio.comm import Comm
from lmdbio.errors import ReadError
from lmdbio.reader.request import Request

if TYPE_CHECKING:
    from mpi4py import MPI

_Said = TypeVar("_Said")
_HINTS: Final = {"romio_ds_read": "disable"}
_MOST_PIECE: Final = 1 << 30  # ROMIO without data sieving takes no piece of 2 GiB
_log = logging.getLogger("lmdbio.reader")


class MpiFile:
    """Collective. A data file open for collective reads.

    Each rank may name another path of the same file: MPICH opens each rank's own path on that rank. But a rank's bytes
    may be read through another rank's path, that of an aggregator.

    Parameters
    ----------
    path
        The file.
    comm
        The ranks that read: an mpi4py communicator, or a stand-in of one process.
    hints
        MPI's own names and values, the same on every rank; MPI passes over those that it does not know. ROMIO's data
        sieving is off unless they say otherwise: near records are merged into ranges already, and where ranges are far
        apart it reads what lies between in vain.

    Raises
    ------
    ValueError
        If there are several ranks, but no MPI between them.
    ReadError
        If MPI cannot open the file.
    """

    def __init__(self, path: str, comm: Comm, hints: Mapping[str, str]) -> None:
        from mpi4py import MPI

        self.path = path
        self._is_lost = False
        self._comm = _intracomm(comm).Dup()  # so that nobody else's messages are taken for ours
        info = MPI.Info.Create()
        try:
            for name, value in (_HINTS | dict(hints)).items():
                info.Set(name, value)
            with _translated(path, 0, 0):
                self._file = MPI.File.Open(self._comm, path, MPI.MODE_RDONLY, info)
        except BaseException:
            self._comm.Free()
            raise
        finally:
            info.Free()
        self._note_hints(hints)

    def read(self, request: Request, buffer: NDArray[np.uint8]) -> None:
        """Collective. Fill the buffer's beginning with the ranges asked for, other ones on every rank, or none.

        MPI does not say so where the file ends before the ranges do: the buffer's content is arbitrary there.

        Raises
        ------
        ReadError
            If MPI reports an error; the others may wait for this rank in MPI for ever then, see :attr:`is_alone`.
        """
        from mpi4py import MPI

        begin = int(request.offsets[0]) if request.size else 0
        with _translated(self.path, begin, request.end - begin):
            if len(request.offsets) > 1:
                offsets, lengths = request.pieces(_MOST_PIECE)
                view = MPI.BYTE.Create_hindexed(lengths.tolist(), offsets.tolist())
                try:
                    view.Commit()
                    self._file.Set_view(0, MPI.BYTE, view)
                finally:
                    view.Free()
            else:
                self._file.Set_view(begin, MPI.BYTE, MPI.BYTE)
            self._file.Read_at_all(0, [buffer, request.size, MPI.BYTE])

    def highest(self, number: int) -> int:
        """Collective. Return the highest of the numbers that the ranks give."""
        from mpi4py import MPI

        numbers = np.array([number], np.int32)
        self._comm.Allreduce(MPI.IN_PLACE, numbers, MPI.MAX)
        return int(numbers[0])

    def allgather(self, said: _Said) -> list[_Said]:
        """Collective. Return the small objects that the ranks give."""
        return self._comm.allgather(said)

    @property
    def is_alone(self) -> bool:
        """Whether no rank reads for another, so that an error of one leaves the others unharmed."""
        if self._comm.Get_size() == 1:
            return True
        info = self._file.Get_info()
        try:
            return info.Get("romio_cb_read") == "disable"
        finally:
            info.Free()

    def lose(self) -> None:
        """Give the handle up, where the other ranks cannot be expected to close it with this one."""
        self._is_lost = True

    def close(self) -> None:
        """Collective. Close the file; a second call does nothing, nor does any once it was lost."""
        if self._is_lost:
            return
        self._is_lost = True
        self._file.Close()
        self._comm.Free()

    def _note_hints(self, hints: Mapping[str, str]) -> None:
        """Log which hints MPI has not taken as they were given."""
        if not hints or self._comm.Get_rank():
            return
        info = self._file.Get_info()
        try:
            for name, value in hints.items():
                taken = info.Get(name)
                if taken != value:
                    _log.info("%s: hint %s: asked for %r, MPI uses %r", self.path, name, value, taken)
        finally:
            info.Free()


def _intracomm(comm: Comm) -> "MPI.Intracomm":
    from mpi4py import MPI

    if isinstance(comm, MPI.Intracomm):
        return comm
    if comm.Get_size() == 1:
        return MPI.COMM_SELF
    raise ValueError("io: expected an mpi4py communicator for 'collective', found ranks without one: pass comm=")


@contextlib.contextmanager
def _translated(path: str, offset: int, length: int) -> Generator[None]:
    """Make an error of MPI one of reading this range."""
    from mpi4py import MPI

    try:
        yield
    except MPI.Exception as exc:
        lines = [line.strip() for line in exc.Get_error_string().splitlines() if line.strip()]
        raise ReadError(path, offset, length, f"found an error of MPI-IO: {lines[-1] if lines else exc}") from exc
