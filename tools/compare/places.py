"""Where stores lie: a folder of this machine, or a distributed file system with a mount for each node."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

N_NODES: Final = 4
READ_DELAY_US: Final = 1000
"""Of each read of the testbed's servers, in microseconds."""
_N_BRICKS: Final = 2


@dataclass(frozen=True, slots=True)
class Roots:
    """The same folder, as each node sees it."""

    nodes: Sequence[Path]

    def folders(self, store: str, *, n_ranks: int) -> list[Path]:
        """Return where each rank finds a store; ranks beyond the last node share the nodes in turn."""
        return [self.nodes[rank % len(self.nodes)] / store for rank in range(n_ranks)]

    def put(self, folder: Path) -> None:
        """Copy a store in, through the first node, and sync."""
        target = self.nodes[0] / folder.name
        if folder.resolve() != target.resolve():
            subprocess.run(["cp", "-r", str(folder), str(target)], check=True)
            os.sync()

    def remove(self, store: str) -> None:
        """Remove a store."""
        shutil.rmtree(self.nodes[0] / store, ignore_errors=True)


def local(folder: Path) -> Roots:
    """Return a folder of this machine."""
    folder.mkdir(parents=True, exist_ok=True)
    return Roots([folder])


@contextmanager
def testbed(folder: Path) -> Iterator[Roots]:
    """Bring up a distributed file system of two servers and four nodes below a folder; it is gone after it."""
    from tools.testbed import Testbed

    with Testbed(bricks=_N_BRICKS, nodes=N_NODES, read_delay_us=READ_DELAY_US, folder=folder) as up:
        yield Roots([Path(mount) for mount in up.mounts])


def check_testbed(folder: Path) -> None:
    """Bring the distributed file system up and down once, which takes a second, before anything is made for it.

    Raises
    ------
    ValueError
        If this machine cannot have it.
    """
    from tools.testbed import TestbedError

    try:
        with testbed(folder):
            pass
    except TestbedError as exc:
        raise ValueError(f"--place testbed: {exc}") from exc
