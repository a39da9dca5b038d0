"""How many threads read at the same time: few while files come from memory, all once reads have to wait."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from threading import Condition
from typing import Final

_CLOSE_AFTER: Final = 16
"""Turns in a row that found all in memory, after which few threads are let in again."""


class Gate:
    """Lets threads in by turns. More threads than cores that read from memory only get into each other's way.

    Parameters
    ----------
    most
        Threads that are let in at the same time once reads have had to wait.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._few = min(most, len(os.sched_getaffinity(0)))
        self._limit = self._few
        self._changed = Condition()
        self._n_inside = 0
        self._n_cached = 0

    def open(self) -> None:
        """Let all in: a read is about to wait. Cheap where that is known."""
        self._n_cached = 0
        if self._limit < self._most:
            with self._changed:
                self._limit = self._most
                self._changed.notify_all()

    @contextmanager
    def turn(self) -> Generator[None]:
        """Wait to be let in, and be inside."""
        with self._changed:
            self._changed.wait_for(lambda: self._n_inside < self._limit)
            self._n_inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._n_inside -= 1
                self._n_cached += 1
                if self._n_cached > _CLOSE_AFTER:
                    self._limit = self._few
                self._changed.notify()
