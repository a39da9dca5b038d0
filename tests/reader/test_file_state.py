"""What the kernel tells of a file agrees with what can be seen, and not being told is no error."""

import ctypes
import mmap
import os
from pathlib import Path

import pytest

from lmdbio.reader import file_state
from lmdbio.reader.file_state import cached_share, direct_align, is_cached, memory_address, network_file_system
from tests.reader.direct_reads import skip_unless_direct


class Kernel:
    """A C library whose calls answer as told."""

    def __init__(self, *, kind: int = 0, mask: int = 0, memory: int = 0, offset: int = 0, fails: bool = False) -> None:
        self._kind, self._mask, self._memory, self._offset, self._fails = kind, mask, memory, offset, fails

    def fstatfs(self, fd: int, result: ctypes.Array[ctypes.c_uint8]) -> int:
        ctypes.memmove(result, ctypes.byref(ctypes.c_long(self._kind)), ctypes.sizeof(ctypes.c_long))
        return -self._fails

    def statx(self, fd: int, path: bytes, flags: int, mask: int, result: ctypes.Array[ctypes.c_uint8]) -> int:
        for place, value in ((0, self._mask), (152, self._memory), (156, self._offset)):
            ctypes.memmove(ctypes.byref(result, place), ctypes.byref(ctypes.c_uint32(value)), 4)
        return -self._fails

    def syscall(self, *args: object) -> int:
        return -self._fails


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch):
    def set_answer(**told: int) -> None:
        monkeypatch.setattr(file_state, "_libc", lambda: Kernel(**told))
        monkeypatch.setattr(file_state, "_has", lambda function: True)

    return set_answer


@pytest.mark.parametrize(
    ("kind", "name"), [(0x65735546, "fuse"), (0xFE534D42, "smb"), (0x6969, "nfs"), (0xEF53, None), (0x01021994, None)]
)
def test_file_systems_of_a_network_are_known_by_their_number(answer, kind: int, name: str | None) -> None:
    answer(kind=kind)
    assert network_file_system(0) == name
    answer(kind=kind - (1 << 32))  # as a signed number
    assert network_file_system(0) == name
    answer(kind=kind, fails=True)
    assert network_file_system(0) is None


@pytest.mark.parametrize(
    ("told", "align"),
    [
        ({"mask": 0x2000, "memory": 4, "offset": 512}, 512),
        ({"mask": 0x2000, "memory": 512, "offset": 4096}, 4096),
        ({"mask": 0x2000, "memory": 0, "offset": 0}, 0),
        ({"mask": 0x17FF, "memory": 0, "offset": 0}, 4096),
        ({"mask": 0x2000, "memory": 512, "offset": 512, "fails": True}, 4096),
    ],
)
def test_the_alignment_is_the_larger_of_memory_and_offset_or_a_safe_one(answer, told, align: int) -> None:
    answer(**told)
    assert direct_align(0) == align


def test_the_alignment_that_is_told_is_enough(tmp_path: Path) -> None:
    skip_unless_direct(tmp_path)
    path = tmp_path / "file"
    path.write_bytes(os.urandom(1 << 16))
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    align = direct_align(fd)
    memory = memoryview(mmap.mmap(-1, 1 << 16))
    assert align
    assert os.preadv(fd, [memory[align : 2 * align]], align) == align
    assert memory[align : 2 * align] == path.read_bytes()[align : 2 * align]
    os.close(fd)


def test_what_is_in_the_page_cache_is_told_of_every_range(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(3 * mmap.PAGESIZE + 100))
    with path.open("rb", buffering=0) as file:
        fd = file.fileno()
        if is_cached(fd, 0, 1) is None:
            pytest.skip("the kernel does not tell what is in the page cache")
        assert is_cached(fd, 0, 3 * mmap.PAGESIZE + 100)
        assert is_cached(fd, mmap.PAGESIZE - 1, 2)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        if is_cached(fd, 0, mmap.PAGESIZE):
            pytest.skip("the file system is memory")
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        file.seek(mmap.PAGESIZE)
        file.read(mmap.PAGESIZE)
        assert is_cached(fd, mmap.PAGESIZE, mmap.PAGESIZE)
        assert is_cached(fd, 3 * mmap.PAGESIZE, 100) is False
        assert is_cached(fd, mmap.PAGESIZE, 2 * mmap.PAGESIZE + 100) is False


def test_the_share_of_a_file_in_the_page_cache_is_told_from_samples(tmp_path: Path) -> None:
    path = tmp_path / "file"
    size = (128 << 20) + 100
    path.write_bytes(b"")
    os.truncate(path, size)
    with path.open("rb", buffering=0) as file:
        fd = file.fileno()
        share = cached_share(fd, size)
        if share is None:
            pytest.skip("the kernel does not tell what is in the page cache")
        assert share == 0
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        file.readinto(bytearray(size // 4))
        assert cached_share(fd, size) == pytest.approx(0.25, abs=0.02)
        file.readinto(bytearray(size))
        assert cached_share(fd, size) == 1
        assert cached_share(fd, 0) is None


def test_a_kernel_that_does_not_tell_is_no_error(answer) -> None:
    answer(fails=True)
    assert is_cached(0, 0, 100) is None
    assert cached_share(0, 100) is None


def test_an_address_is_where_the_bytes_are() -> None:
    memory = bytearray(b"abcdef")
    assert ctypes.string_at(memory_address(memoryview(memory)[2:]), 3) == b"cde"
