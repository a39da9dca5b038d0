import itertools

import numpy as np
import pytest
import xxhash

from lmdbio.errors import SourceError
from lmdbio.layout.keys import Keys
from lmdbio.layout.plan import plan_database
from lmdbio.layout.region_writer import RegionWriter, as_bytes
from lmdbio.layout.target import Part


class CountingSink:
    """Keeps nothing, and knows the most bytes that it had to hold at a time."""

    def __init__(self) -> None:
        self.size = self.held = self.most_held = 0

    def write(self, parts: list[Part], size: int) -> None:
        assert size == sum(map(len, parts))
        self.size += size
        self.held += size
        self.most_held = max(self.most_held, self.held)

    def skip(self, size: int) -> None:
        self.size += size
        self.held = 0

    def settle(self) -> None:
        self.held = 0


def write_into(sink: CountingSink, lengths: list[int], values: list[object], **options: object) -> np.ndarray:
    keys = Keys.from_list(b"%08d" % number for number in range(len(lengths)))
    plan = plan_database(keys, np.array(lengths, np.int64), **options)
    checksums = np.zeros(len(lengths), np.uint64)
    written = np.ones(len(lengths), np.bool_)
    RegionWriter(plan, "x", written, checksums).write(0, values, sink)
    assert sink.size == plan.region_bytes(0)
    return checksums


def test_a_lazy_value_of_a_gigabyte_is_held_one_part_at_a_time():
    part = bytes(1 << 20)
    sink = CountingSink()
    write_into(sink, [1 << 30], [(part for _ in range(1024))], n_partitions=1)
    assert sink.most_held <= (1 << 20) + 16


def test_checksums_do_not_depend_on_how_a_value_is_parted():
    ways = [[b"abcdef" * 1000], [b"abc", b"def" + b"abcdef" * 999], iter([b"abcdef"] * 1000), [b"abcdef"] * 1000]
    assert len(set(write_into(CountingSink(), [6000] * 4, ways, n_partitions=1).tolist())) == 1


def test_a_short_lazy_value_is_checked_and_copied_part_by_part():
    buffer = bytearray(b"x")

    def again():
        for byte in b"abc":
            buffer[0] = byte
            yield buffer

    assert (
        write_into(CountingSink(), [3, 3], [again(), [b"abc"]], n_partitions=1).tolist()
        == [xxhash.xxh3_64_intdigest(b"abc")] * 2
    )
    with pytest.raises(SourceError, match="expected a value of 3 bytes, found more"):
        write_into(CountingSink(), [3], [itertools.repeat(b"ab")])


def test_leaves_of_many_inline_values_are_packed_in_pieces():
    sink = CountingSink()
    write_into(sink, [1500] * 3000, ([bytes(1500)] for _ in range(3000)), n_partitions=1)
    assert sink.size == 1500 * 4096


@pytest.mark.parametrize(
    ("part", "content"),
    [
        (b"ab", b"ab"),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"xaby")[1:3], b"ab"),
        (np.array([1, 2], "<u2"), b"\1\0\2\0"),
        (np.zeros((0, 3)), b""),
        (np.frombuffer(b"abcd", np.uint8).reshape(2, 2), b"abcd"),
    ],
)
def test_every_contiguous_buffer_is_bytes(part: object, content: bytes):
    found = memoryview(as_bytes(part))
    assert (found.format, found.ndim, found.tobytes()) == ("B", 1, content)


@pytest.mark.parametrize("part", [5, "text", np.arange(10)[::2]])
def test_what_is_no_contiguous_buffer_is_refused(part: object):
    with pytest.raises(TypeError):
        as_bytes(part)
