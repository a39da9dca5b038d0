import errno
import mmap
import os
import resource
from pathlib import Path

import pytest

from lmdbio.errors import TargetError
from lmdbio.layout.target import BLOCK_SIZE, MAX_PARTS, TargetFile


def block(content: bytes) -> memoryview:
    buffer = mmap.mmap(-1, BLOCK_SIZE)
    buffer.write(content.ljust(BLOCK_SIZE, b"\0"))
    return memoryview(buffer)


def test_buffers_go_end_to_end_to_their_offset(tmp_path: Path):
    file = TargetFile(tmp_path / "x", direct=False)
    parts = [bytes([number % 256]) * (number % 5) for number in range(3 * MAX_PARTS)]
    file.write(10, list(map(memoryview, parts)))
    file.close()
    assert (tmp_path / "x").read_bytes() == bytes(10) + b"".join(parts)


def test_a_call_that_writes_only_a_part_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    real = os.pwritev

    def grudging(fd: int, parts: list[memoryview], offset: int) -> int:
        return real(fd, [parts[0][:3]], offset)

    monkeypatch.setattr(os, "pwritev", grudging)
    file = TargetFile(tmp_path / "x", direct=False)
    file.write(0, [memoryview(b"ab"), memoryview(b""), memoryview(b"cdefgh"), memoryview(b"i")])
    file.close()
    assert (tmp_path / "x").read_bytes() == b"abcdefghi"


def test_direct_writes_go_past_the_page_cache_where_the_system_lets_them(tmp_path: Path):
    file = TargetFile(tmp_path / "x", direct=True)
    if not file.is_direct:
        pytest.skip("this file system takes no direct writes")
    file.write_direct(BLOCK_SIZE, block(b"direct"))
    assert file.is_direct
    file.close()
    assert (tmp_path / "x").read_bytes()[BLOCK_SIZE:] == b"direct".ljust(BLOCK_SIZE, b"\0")


@pytest.mark.parametrize("refusal", [errno.EINVAL, errno.EOPNOTSUPP])
def test_a_refused_direct_write_is_done_buffered_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: int
):
    file = TargetFile(tmp_path / "x", direct=True)
    if not file.is_direct:
        pytest.skip("this file system takes no direct writes")
    real = os.pwritev
    calls = []

    def refusing(fd: int, parts: list[memoryview], offset: int) -> int:
        calls.append(fd)
        if len(calls) == 1:
            raise OSError(refusal, os.strerror(refusal))
        return real(fd, parts, offset)

    monkeypatch.setattr(os, "pwritev", refusing)
    file.write_direct(0, block(b"one"))
    assert not file.is_direct
    file.write_direct(BLOCK_SIZE, block(b"two"))
    file.close()
    assert len(calls) == 3 and calls[0] != calls[1] == calls[2]
    content = (tmp_path / "x").read_bytes()
    assert content[:3] + content[BLOCK_SIZE : BLOCK_SIZE + 3] == b"onetwo"


def test_a_file_that_exists_or_has_no_directory_is_an_error_that_says_what_to_do(tmp_path: Path):
    (tmp_path / "x").touch()
    with pytest.raises(TargetError, match=r"x: expected no file, found one: remove it"):
        TargetFile(tmp_path / "x", direct=None)
    with pytest.raises(TargetError, match=r"none: expected the directory .*none, found none: make it first") as raised:
        TargetFile(tmp_path / "none" / "none: expected"[:4], direct=None)
    assert isinstance(raised.value, OSError)


def test_a_file_beyond_the_limit_of_the_process_is_an_error(tmp_path: Path):
    file = TargetFile(tmp_path / "x", direct=False)
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, old[1]))
    try:
        with pytest.raises(TargetError, match=r"x: cannot write: file too large: "):
            file.resize(1 << 20)
        with pytest.raises(TargetError, match=r"x: cannot write: file too large: "):
            file.write(0, [memoryview(bytes(1 << 17))])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        file.close()


def test_closing_twice_closes_once(tmp_path: Path):
    file = TargetFile(tmp_path / "x", direct=True)
    file.close()
    file.close()
