"""Threads that read ahead, and their end: before the interpreter freezes them wherever they are."""

import atexit
import logging
import os
import sys
from collections.abc import Callable
from threading import Thread
from time import monotonic
from typing import Final, Protocol
from weakref import WeakSet

_EXIT_WAIT_S: Final = 5.0
"""Seconds that the interpreter's end waits for reads in flight."""
_log = logging.getLogger("lmdbio.reader")


class CrewOwner(Protocol):
    """Who has threads."""

    def abandon(self) -> None:
        """Let the threads end by themselves; does not wait."""

    def join(self, deadline: float | None = None) -> None:
        """Wait until the threads have ended, or until a time by the monotonic clock."""


class Crew:
    """Some threads that all do the same, started as they are needed."""

    def __init__(self) -> None:
        self._most = sys.maxsize  # until the system refuses one
        self._threads: list[Thread] = []

    def __bool__(self) -> bool:
        return bool(self._threads)

    def start(self, n_threads: int, run: Callable[[], None], owner: CrewOwner) -> None:
        """Start threads until there are so many, or as many as the system lets: the consumer reads, too.

        Parameters
        ----------
        run
            A thread's life.
        owner
            Abandoned before the interpreter ends. It is not kept alive.
        """
        n_threads = min(n_threads, self._most)
        while len(self._threads) < n_threads:
            thread = Thread(target=run, name="lmdbio-read", daemon=True)
            try:
                thread.start()
            except RuntimeError as exc:
                self._most = len(self._threads)
                _log.warning("reading with %d threads, expected %d: %s", self._most, n_threads, exc)
                return
            self._threads.append(thread)
            _live.add(owner)

    def join(self, deadline: float | None = None) -> None:
        """Wait until the threads have ended, or until a time by the monotonic clock."""
        for thread in list(self._threads):
            thread.join(None if deadline is None else max(0.0, deadline - monotonic()))


_live: WeakSet[CrewOwner] = WeakSet()  # all that have threads


def _end_all() -> None:
    """End all threads, but never wait long for a file system."""
    deadline = monotonic() + _EXIT_WAIT_S
    ending = list(_live)
    for owner in ending:
        owner.abandon()
    for owner in ending:
        owner.join(deadline)


atexit.register(_end_all)
os.register_at_fork(after_in_child=_live.clear)  # threads are not inherited, locks in any state are
