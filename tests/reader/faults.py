"""A file system that misbehaves as told, beneath all that reads files: short reads, errors, delays, by a seed."""

import errno
import os
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pytest


class Faults:
    """Stands between the reader and the system's positioned reads; a context manager.

    Parameters
    ----------
    seed
        Of what happens when.
    short
        Share of the reads that bring fewer bytes than were asked for, one at least; what lies behind them in the buffer
        is written over.
    failing
        Share of the reads that end with one of ``codes``.
    codes
        Error numbers.
    slow
        Share of the reads that take ``delay_s`` longer.
    delay_s
        Seconds.
    """

    def __init__(
        self,
        seed: int,
        *,
        short: float = 0.0,
        failing: float = 0.0,
        codes: Sequence[int] = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT),
        slow: float = 0.0,
        delay_s: float = 0.0,
    ) -> None:
        self._rng = np.random.default_rng(seed)
        self._short = short
        self._failing = failing
        self._codes = codes
        self._slow = slow
        self._delay_s = delay_s
        self._lock = threading.Lock()
        self._patch = pytest.MonkeyPatch()
        self.injected: Counter[str] = Counter()
        """How often what was done."""

    def __enter__(self) -> Self:
        preadv = os.preadv

        def misbehave(fd: int, buffers: Sequence[Any], offset: int, flags: int = 0) -> int:
            with self._lock:
                failing, short, slow, at = self._rng.random(4).tolist()
                code = int(self._rng.choice(self._codes))
                failing, short, slow = failing < self._failing, short < self._short, slow < self._slow
                self.injected += Counter({"slow": slow, errno.errorcode[code]: failing})
            if slow:
                time.sleep(self._delay_s)
            if failing:
                raise OSError(code, os.strerror(code))
            count = preadv(fd, buffers, offset, flags)
            if not short or count < 2:
                return count
            brought = 1 + int(at * (count - 1))
            (buffer,) = buffers  # the reader fills one at a time
            memoryview(buffer)[brought:count] = b"\xee" * (count - brought)
            with self._lock:
                self.injected["short"] += 1
            return brought

        self._patch.setattr(os, "preadv", misbehave)
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.undo()
