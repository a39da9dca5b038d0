import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.errors import TargetError
from lmdbio.layout.sink import DirectSink, GatherSink, WriteBuffers
from lmdbio.layout.target import BLOCK_SIZE, MAX_PARTS

START = 3 * BLOCK_SIZE


class FakeFile:
    """Keeps what is written, and the calls."""

    def __init__(self, *, fail_at: int | None = None) -> None:
        self.content = bytearray()
        self.calls: list[tuple[int, int]] = []
        self._fail_at = fail_at
        self._lock = threading.Lock()

    def write(self, offset: int, parts: list[memoryview]) -> None:
        with self._lock:
            data = b"".join(parts)
            if self._fail_at == len(self.calls):
                raise TargetError("x: no space left on device")
            if data:
                self.calls.append((offset, len(data)))
                self.content.extend(bytes(max(0, offset + len(data) - len(self.content))))
                self.content[offset : offset + len(data)] = data

    def write_direct(self, offset: int, block: memoryview) -> None:
        assert offset % BLOCK_SIZE == 0 and len(block) % BLOCK_SIZE == 0
        self.write(offset, [block])


# Sizes of parts; negative ones are skipped.
pieces = st.lists(
    st.one_of(st.integers(0, 20), st.integers(0, 3 * BLOCK_SIZE), st.integers(-5 * BLOCK_SIZE, -1), st.just(16)),
    max_size=30,
)


def expected_of(sizes: list[int], parts: list[bytes]) -> bytes:
    return b"".join(part if size >= 0 else bytes(-size) for size, part in zip(sizes, parts, strict=True))


def put(sink: DirectSink | GatherSink, sizes: list[int], parts: list[bytes]) -> None:
    for size, part in zip(sizes, parts, strict=True):
        if size < 0:
            sink.skip(-size)
        else:
            middle = size // 3
            sink.write([part[:middle], memoryview(part)[middle:]], size)
    sink.finish()


def random_parts(sizes: list[int]) -> list[bytes]:
    rng = random.Random(len(sizes))
    return [rng.randbytes(max(0, size)) for size in sizes]


@given(sizes=pieces)
def test_both_sinks_put_the_same_bytes_in_place(sizes: list[int]):
    parts = random_parts(sizes)
    expected = expected_of(sizes, parts)
    gathered, direct = FakeFile(), FakeFile()
    put(GatherSink(gathered, START), sizes, parts)
    pool = WriteBuffers(2, 2 * BLOCK_SIZE)
    with ThreadPoolExecutor(2) as executor:
        put(DirectSink(direct, START, pool=pool, executor=executor), sizes, parts)
    for file in (gathered, direct):
        found = bytes(file.content[START:]).ljust(len(expected), b"\0")
        assert found[: len(expected)] == expected
        assert not any(found[len(expected) :])


def test_parts_are_gathered_into_calls_as_large_as_the_system_takes():
    file = FakeFile()
    sink = GatherSink(file, 0)
    for _ in range(2 * MAX_PARTS + 1):
        sink.write([b"0123456789"], 10)
    sink.finish()
    assert file.calls == [(0, 10 * MAX_PARTS), (10 * MAX_PARTS, 10 * MAX_PARTS), (20 * MAX_PARTS, 10)]


def test_settled_parts_may_change():
    file = FakeFile()
    sink = GatherSink(file, 0)
    part = bytearray(b"before")
    sink.write([memoryview(part)], len(part))
    sink.settle()
    part[:] = b"after."
    sink.finish()
    assert bytes(file.content) == b"before"


def test_a_long_skip_is_not_written():
    with ThreadPoolExecutor(1) as executor:
        gathered, direct = FakeFile(), FakeFile()
        for file, sink in (
            (gathered, GatherSink(gathered, 0)),
            (direct, DirectSink(direct, 0, pool=WriteBuffers(1, 1 << 16), executor=executor)),
        ):
            sink.write([b"a" * 5000], 5000)
            sink.skip(100 << 20)
            sink.write([b"b" * 5000], 5000)
            sink.finish()
            assert sum(size for _, size in file.calls) < 30_000
            assert bytes(file.content[:5000]) == b"a" * 5000
            assert bytes(file.content[5000 + (100 << 20) :][:5000]) == b"b" * 5000


@pytest.mark.parametrize("fail_at", [0, 1, 5])
def test_a_failed_write_is_raised_and_its_buffers_come_back(fail_at: int):
    pool = WriteBuffers(2, BLOCK_SIZE)
    with ThreadPoolExecutor(2) as executor:
        sink = DirectSink(FakeFile(fail_at=fail_at), 0, pool=pool, executor=executor)
        with pytest.raises(TargetError, match="no space"):
            put(sink, [10 * BLOCK_SIZE + 7], [bytes(10 * BLOCK_SIZE + 7)])
        sink.abandon()
    taken = [pool.take() for _ in range(2)]  # would wait for ever for a buffer that was lost
    assert taken[0] is not taken[1]


def test_more_takers_than_buffers_wait_their_turn():
    pool = WriteBuffers(1, BLOCK_SIZE)
    file = FakeFile()
    with ThreadPoolExecutor(1) as executor, ThreadPoolExecutor(5) as takers:

        def fill(number: int) -> None:
            sink = DirectSink(file, number * 8 * BLOCK_SIZE, pool=pool, executor=executor)
            put(sink, [8 * BLOCK_SIZE], [bytes([number + 1]) * (8 * BLOCK_SIZE)])

        list(takers.map(fill, range(10)))
    assert bytes(file.content) == b"".join(bytes([number + 1]) * (8 * BLOCK_SIZE) for number in range(10))
