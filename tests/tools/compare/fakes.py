"""Contestants that do what they should not, for tests of those who watch them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from tools.compare.contestant import Epoch, Ranks, Source, Way

_WAYS = (Way("sequential", "sequential", "none"), Way("sequential, MPI", "sequential", "none", uses_mpi=True))


@dataclass(frozen=True)
class Fake:
    """Keeps all values in one file; reads them with one fault, or none."""

    name: str
    fault: str = ""
    requirements: tuple[str, ...] = ()
    ways: tuple[Way, ...] = _WAYS

    def convert(self, source: Source, target: Path) -> None:
        if self.fault == "cannot store":
            raise OSError("no room")
        target.mkdir()
        values = [record.value for record in source]
        if self.fault == "stores too little":
            values = values[1:]
        (target / "values").write_text("\n".join(value.hex() for value in values))

    def open(self, target: Path, way: Way, ranks: Ranks) -> AbstractContextManager[Epoch]:
        values = [bytes.fromhex(line) for line in (target / "values").read_text().split()]
        mine = values[ranks.rank :: ranks.size]
        if ranks.rank == 0:
            mine = self._with_fault(mine, target)

        def epoch(_: int) -> Iterator[list[bytes]]:
            for first in range(0, len(mine), ranks.batch_size):
                yield mine[first : first + ranks.batch_size]
            if ranks.rank == 0:
                self._act(target)

        return nullcontext(epoch)

    def _with_fault(self, values: list[bytes], target: Path) -> list[bytes]:
        if self.fault == "skips":
            return values[:-1]
        if self.fault == "swaps":
            return [*values[:-1], values[0]]
        if self.fault == "alters":
            return [values[0][:-1] + bytes([values[0][-1] ^ 1]), *values[1:]]
        if self.fault == "repeats":
            return [*values, values[0]]
        return values

    def _act(self, target: Path) -> None:
        if self.fault == "hangs":
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            (target / "pids").write_text(f"{os.getpid()} {child.pid}")
            time.sleep(600)
        if self.fault == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "raises":
            raise ValueError("expected sense, found none")


HONEST = Fake("honest")
SKIPS = Fake("skips", "skips")
SWAPS = Fake("swaps", "swaps")
ALTERS = Fake("alters", "alters")
REPEATS = Fake("repeats", "repeats")
HANGS = Fake("hangs", "hangs")
DIES = Fake("dies", "dies")
RAISES = Fake("raises", "raises")
CANNOT_STORE = Fake("cannot store", "cannot store")
STORES_TOO_LITTLE = Fake("stores too little", "stores too little")
