"""A buffer is used again, the last one returned first, and never while anything refers to it."""

import gc
import threading

import numpy as np
import pytest

from lmdbio.layout.pool import BufferPool


def address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def test_a_buffer_is_a_writable_array_of_the_size_asked_for() -> None:
    buffer = BufferPool(keep=1 << 20).take(1000)
    assert (buffer.shape, buffer.dtype, buffer.flags.writeable) == ((1000,), np.uint8, True)
    assert address(buffer) % 4096 == 0
    assert BufferPool(keep=0).take(0).shape == (0,)


def test_the_buffer_returned_last_is_lent_first() -> None:
    pool = BufferPool(keep=1 << 20)
    first, second = pool.take(5000), pool.take(5000)
    places = address(first), address(second)
    del first
    del second
    again, then = pool.take(6000), pool.take(5000)
    assert (address(again), address(then)) == places[::-1]


@pytest.mark.parametrize(
    "derive",
    [
        lambda buffer: buffer[10:20],
        lambda buffer: buffer[:100].reshape(10, 10)[::2],
        lambda buffer: buffer.view("<u4")[3:],
        lambda buffer: buffer.data[10:20],
        lambda buffer: memoryview(buffer)[10:20].toreadonly(),
        lambda buffer: np.frombuffer(buffer.data[16:32], "<f4"),
        lambda buffer: np.lib.stride_tricks.as_strided(buffer[5:], (3, 2), (7, 1)),
    ],
)
def test_any_view_keeps_its_buffer_from_being_used_again(derive) -> None:
    pool = BufferPool(keep=1 << 20)
    buffer = pool.take(1 << 16)
    place = address(buffer)
    buffer[:] = 1
    view = derive(buffer)
    del buffer
    gc.collect()
    other = pool.take(1 << 16)
    assert address(other) != place
    other[:] = 2
    assert set(view.tobytes()) == {1}
    del view
    assert address(pool.take(1 << 16)) == place


def test_unused_buffers_are_kept_up_to_a_limit() -> None:
    pool = BufferPool(keep=3 << 16)
    held = [pool.take(1 << 16) for _ in range(8)]
    assert pool.free_size == 0
    held.clear()
    assert pool.free_size == 3 << 16
    pool.clear()
    assert pool.free_size == 0


def test_a_much_too_large_buffer_is_left_for_larger_needs() -> None:
    pool = BufferPool(keep=1 << 24)
    large = pool.take(1 << 22)
    place = address(large)
    del large
    assert address(pool.take(4096)) != place
    assert address(pool.take(1 << 21)) == place


def test_threads_never_share_a_buffer() -> None:
    pool = BufferPool(keep=1 << 20)
    mixed: list[int] = []

    def work(number: int) -> None:
        for _ in range(300):
            buffer = pool.take(4096)
            buffer[:] = number
            if not (buffer == number).all():
                mixed.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not mixed


def test_a_buffer_outlives_its_pool() -> None:
    buffer = BufferPool(keep=0).take(4096)
    buffer[:] = 7
    gc.collect()
    assert set(buffer.tolist()) == {7}
