"""Threads are started as they are needed and waited for no longer than allowed."""

import threading
from time import monotonic

import pytest

from lmdbio.reader.crew import Crew


class Owner:
    """Has threads that run until they are told to end."""

    def __init__(self) -> None:
        self.crew = Crew()
        self.may_end = threading.Event()

    def start(self, n_threads: int) -> None:
        self.crew.start(n_threads, self.may_end.wait, self)

    def abandon(self) -> None:
        self.may_end.set()

    def join(self, deadline: float | None = None) -> None:
        self.crew.join(deadline)


def n_reading_threads() -> int:
    return sum(thread.name == "lmdbio-read" for thread in threading.enumerate())


def test_threads_are_started_as_they_are_needed() -> None:
    owner = Owner()
    assert not owner.crew
    counts = []
    for n_threads in (1, 1, 2, 8):
        owner.start(n_threads)
        counts.append(n_reading_threads())
    assert (counts, bool(owner.crew)) == ([1, 1, 2, 8], True)
    owner.abandon()
    owner.join()
    assert n_reading_threads() == 0


def test_waiting_ends_at_the_deadline() -> None:
    owner = Owner()
    owner.start(2)
    owner.join(monotonic() + 0.02)
    owner.join(monotonic() - 1)
    assert n_reading_threads() == 2
    owner.abandon()
    owner.join()


def test_after_a_thread_that_could_not_be_started_no_other_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []

    def refuse(self: threading.Thread) -> None:
        tries.append(1)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    owner = Owner()
    owner.start(4)
    owner.start(4)
    assert (len(tries), bool(owner.crew)) == (1, False)
