"""Bytes reach other ranks in pieces that MPI can count."""

from typing import Any

import numpy as np

from lmdbio.comm import SingleProcess
from lmdbio.layout.broadcast import broadcast_bytes


class Recorder(SingleProcess):
    """A communicator that keeps the sizes of what it was asked to send."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def Bcast(self, buf: Any, root: int = 0) -> None:
        self.sizes.append(len(buf))


def test_bytes_go_out_in_pieces() -> None:
    comm = Recorder()
    held = np.arange(25, dtype=np.uint8)
    assert broadcast_bytes(comm, held, piece=10) is held
    assert comm.sizes == [10, 10, 5]


def test_no_bytes_are_no_pieces() -> None:
    comm = Recorder()
    assert len(broadcast_bytes(comm, np.zeros(0, np.uint8))) == 0
    assert comm.sizes == []
