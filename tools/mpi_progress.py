"""Does a nonblocking collective read make progress while its caller does something else? One answer for one MPI.

All ranks read a file together, block by block in turn: once blocking, and once started without blocking, left alone
while every rank sleeps for half as long again as the blocking read took, then waited for. What start and wait take then
is what the caller still pays. Rounds are interleaved, medians count, and a round's time is that of its slowest rank.

    mpiexec -n 4 python -m tools.mpi_progress FILE
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tools import page_cache

if TYPE_CHECKING:
    from mpi4py import MPI

_BLOCK_SIZE: Final = 1 << 20
_HIDDEN: Final = 0.5  # of a read's time: from here on it pays to read ahead


@dataclass(frozen=True, slots=True)
class Progress:
    """Medians of the rounds for one state of the page cache."""

    state: str
    """``cold`` or ``warm``."""
    n_ranks: int
    n_bytes: int
    """Of all ranks together."""
    blocking_s: float
    """What a blocking read takes."""
    start_s: float
    """What starting a nonblocking read takes."""
    wait_s: float
    """What is left to wait for after the sleep."""

    @property
    def hidden(self) -> float:
        """Which part of the blocking read's time the sleep has hidden, 0 to 1."""
        return max(0.0, 1 - (self.start_s + self.wait_s) / self.blocking_s)

    def meaning(self) -> str:
        """Return what the numbers say, in one line."""
        if self.hidden >= _HIDDEN:
            return (
                f"{self.state}: the read goes on while the caller sleeps: reading ahead hides {self.hidden:.0%} of it"
            )
        doer = "starting it" if self.start_s >= self.wait_s else "waiting for it"
        return f"{self.state}: no progress while the caller sleeps: {doer} does the reading, as a blocking read does"


class Reads:
    """Collective. A file of which all ranks read the beginning together, every rank its own blocks of it.

    Parameters
    ----------
    path
        The file, at least a block for each rank.
    comm
        The ranks.
    n_bytes
        Bytes that all ranks read together, at most.
    """

    def __init__(self, path: str, comm: "MPI.Intracomm", n_bytes: int) -> None:
        from mpi4py import MPI

        self._path, self._comm = path, comm
        rank, n_ranks = comm.Get_rank(), comm.Get_size()
        self._file = MPI.File.Open(comm, path, MPI.MODE_RDONLY)
        n_blocks = min(n_bytes, self._file.Get_size()) // (_BLOCK_SIZE * n_ranks)
        if not n_blocks:
            self._file.Close()
            raise SystemExit(
                f"{path}: expected at least {_BLOCK_SIZE * n_ranks} bytes for {n_ranks} ranks: name a larger file"
            )
        view = MPI.BYTE.Create_vector(n_blocks, _BLOCK_SIZE, _BLOCK_SIZE * n_ranks)
        try:
            view.Commit()
            self._file.Set_view(rank * _BLOCK_SIZE, MPI.BYTE, view)
        finally:
            view.Free()
        self._buffer = np.zeros(n_blocks * _BLOCK_SIZE, np.uint8)  # its pages exist before the clock runs
        self.n_bytes = self._buffer.nbytes * n_ranks

    def blocking(self, state: str) -> tuple[float, ...]:
        """Collective. Return the seconds that a blocking read takes."""
        self._prepare(state)
        return self._slowest(_timed(lambda: self._file.Read_at_all(0, self._buffer)))

    def nonblocking(self, state: str, sleep_s: float) -> tuple[float, ...]:
        """Collective. Return the seconds of a nonblocking read's start, and of the wait after a sleep."""
        self._prepare(state)
        begun = time.perf_counter()
        request = self._file.Iread_at_all(0, self._buffer)
        start_s = time.perf_counter() - begun
        time.sleep(sleep_s)
        return self._slowest(start_s, _timed(request.Wait))

    def close(self) -> None:
        """Collective. Close the file."""
        self._file.Close()

    def _prepare(self, state: str) -> None:
        if self._comm.Get_rank() == 0:
            if state == "warm":
                page_cache.fill(self._path)
            else:
                page_cache.drop(self._path)
        self._comm.Barrier()

    def _slowest(self, *seconds: float) -> tuple[float, ...]:
        return tuple(map(max, zip(*self._comm.allgather(seconds), strict=True)))


def measure(reads: Reads, state: str, *, n_ranks: int, rounds: int) -> Progress:
    """Collective. Return the medians of interleaved rounds, after one that does not count."""
    (sleep_s,) = reads.blocking(state)
    times = [(*reads.blocking(state), *reads.nonblocking(state, 1.5 * sleep_s)) for _ in range(rounds)]
    blocking_s, start_s, wait_s = (median(column) for column in zip(*times, strict=True))
    return Progress(state, n_ranks, reads.n_bytes, blocking_s, start_s, wait_s)


def _timed(call: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def report(found: list[Progress], library: str) -> list[str]:
    """Return the lines for people."""
    lines = [
        f"{library}, {found[0].n_ranks} ranks, {found[0].n_bytes / 1e6:,.0f} MB",
        "state   blocking     start      wait",
    ]
    lines += [f"{one.state:5} {one.blocking_s:9.3f} s {one.start_s:7.3f} s {one.wait_s:7.3f} s" for one in found]
    return lines + [one.meaning() for one in found]


def main() -> None:
    """Measure on all ranks; rank 0 prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="any file, the larger the better; it is only read")
    parser.add_argument("--bytes", type=int, default=512 << 20, help="to read, at most (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--states", nargs="+", choices=["cold", "warm"], default=["cold", "warm"])
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    options = parser.parse_args()
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    library = MPI.Get_library_version().split("\n")[0].strip().replace("\t", " ")
    reads = Reads(options.file, comm, options.bytes)
    try:
        found = [measure(reads, state, n_ranks=comm.Get_size(), rounds=options.rounds) for state in options.states]
    finally:
        reads.close()
    if comm.Get_rank():
        return
    if options.json:
        rows = [asdict(one) | {"hidden": one.hidden, "meaning": one.meaning()} for one in found]
        print(json.dumps({"library": library, "states": rows}))
    else:
        print("\n".join(report(found, library)))


if __name__ == "__main__":
    main()
