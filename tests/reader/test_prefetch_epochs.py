"""Reading ahead goes on from one epoch to the next, and no further."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.errors import ReadError
from lmdbio.layout.pool import BufferPool
from lmdbio.reader.meter import Meter
from lmdbio.reader.prefetch import Prefetcher
from lmdbio.reader.unit import Unit
from tests.reader.prefetching import CONTENT, N_UNITS, SIZE, drain, make_unit, n_reading_threads, units, whole
from tests.reader.sources import FakeSource


def make_for_epochs(source: FakeSource, epochs: Iterator[Iterator[Unit]], **options: Any) -> Prefetcher:
    settings: dict[str, Any] = {
        "depth_of": lambda _: 4,
        "prefetch_bytes": 8 * SIZE,
        "window": 4 * SIZE,
        "least_window": 0,
        "on_wait": lambda: None,
        "meter": Meter(),
    } | options
    return Prefetcher(epochs, source=source, pool=BufferPool(keep=1 << 22), **settings)


def n_read(source: FakeSource, *, at_least: int) -> int:
    """Return the bytes read so far, once they are so many or do not become so many."""
    for _ in range(100):
        if sum(length for _, length in source.waits) >= at_least:
            break
        time.sleep(0.01)
    time.sleep(0.05)
    return sum(length for _, length in source.waits)


@given(
    st.lists(st.lists(st.integers(0, N_UNITS - 1), max_size=5), max_size=5),
    st.sampled_from(["cached", "cold", "unknown"]),
    st.sampled_from([0, 1 << 18]),
)
def test_one_epoch_follows_the_other(numbers: list[list[int]], state: str, least_window: int) -> None:
    cached = {"cached": lambda _: True, "cold": lambda _: False, "unknown": None}[state]
    epochs = ((make_unit(i, number * SIZE, SIZE) for i, number in enumerate(epoch)) for epoch in numbers)
    prefetcher = make_for_epochs(FakeSource(CONTENT, cached=cached), epochs, least_window=least_window)
    read = [drain(prefetcher)]
    while prefetcher.next_epoch():
        assert prefetcher.peek() is None or prefetcher.peek().first_step == 0
        read.append(drain(prefetcher))
    assert read == [[whole()[number] for number in epoch] for epoch in (numbers or [[]])]
    prefetcher.close()
    assert n_reading_threads() == 0


def test_the_next_epoch_is_read_ahead_within_the_window_and_no_epoch_after_it() -> None:
    source = FakeSource(CONTENT)
    planned = []

    def epochs(size: int) -> Iterator[Iterator[Unit]]:
        for number in range(10):
            planned.append(number)
            yield (make_unit(step, step * size, size) for step in range(2))

    prefetcher = make_for_epochs(source, epochs(SIZE))
    drain(prefetcher)
    assert n_read(source, at_least=4 * SIZE) == 4 * SIZE  # both epochs'
    assert planned == [0, 1, 2]  # of which the last is begun, not planned any further
    assert prefetcher.next_epoch()
    assert len(drain(prefetcher)) == 2
    assert n_read(source, at_least=6 * SIZE) == 6 * SIZE
    prefetcher.close()

    source = FakeSource(CONTENT)
    prefetcher = make_for_epochs(source, epochs(4 * SIZE), window=5 * SIZE, prefetch_bytes=5 * SIZE)
    drain(prefetcher)
    assert n_read(source, at_least=12 * SIZE) == 12 * SIZE
    prefetcher.close()


def test_an_error_of_the_next_epoch_is_not_this_ones() -> None:
    def epochs(*, is_planned: bool) -> Iterator[Iterator[Unit]]:
        yield units(2)
        if not is_planned:
            raise ReadError("fake", 1, 2, "lost")
        yield (unit for unit in [make_unit(0, 5 * SIZE, SIZE)])

    source = FakeSource(CONTENT, broken=5 * SIZE + 100)
    prefetcher = make_for_epochs(source, epochs(is_planned=True))
    assert len(drain(prefetcher)) == 2
    assert prefetcher.next_epoch()
    with pytest.raises(ReadError):
        drain(prefetcher)
    prefetcher.close()
    prefetcher = make_for_epochs(FakeSource(CONTENT), epochs(is_planned=False))
    assert len(drain(prefetcher)) == 2
    assert prefetcher.peek() is None
    assert prefetcher.next_epoch()
    with pytest.raises(ReadError, match="lost"):
        prefetcher.peek()
    prefetcher.close()
