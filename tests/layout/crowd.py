"""Threads that are watched: which are inside of something, once each of them is inside or waits to be let in."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import ModuleType

import pytest

_PATIENCE_S = 30


class Crowd:
    """Threads that come in where a module's code lets them, and stay.

    Parameters
    ----------
    patch
        What replaces the condition that the module's code waits for; make the crowd before that code's objects.
    module
        The module.
    """

    def __init__(self, patch: pytest.MonkeyPatch, module: ModuleType) -> None:
        self.inside: list[int] = []
        """Numbers of the threads that have come in, in the order in which they did."""
        settled = self._settled = threading.Semaphore(0)

        class Telling(threading.Condition):
            def wait(self, timeout: float | None = None) -> bool:
                settled.release()
                assert super().wait(_PATIENCE_S), "expected to be let in"
                return True

        patch.setattr(module, "Condition", Telling)

    @contextmanager
    def send(self, tasks: Sequence[Callable[[Callable[[], None]], None]]) -> Iterator[None]:
        """Start one thread for each task, which calls what it is given once it is inside, and wait for all to settle.

        When the block ends they go on, until all are through.
        """
        leave = threading.Event()
        self.inside = []

        def come_in(number: int) -> None:
            self.inside.append(number)
            self._settled.release()
            assert leave.wait(_PATIENCE_S)

        with ThreadPoolExecutor(max(1, len(tasks))) as pool:
            futures = [pool.submit(task, lambda number=number: come_in(number)) for number, task in enumerate(tasks)]
            try:
                self.settle(len(tasks))
                yield
            finally:
                leave.set()
            for future in futures:
                future.result(_PATIENCE_S)
        while self._settled.acquire(blocking=False):
            pass

    def settle(self, n_threads: int) -> None:
        """Return once so many more threads have come in or begun to wait."""
        for _ in range(n_threads):
            assert self._settled.acquire(timeout=_PATIENCE_S), "expected a thread to come in or wait"
