import struct

import pytest

from lmdbio.errors import CorruptDatabaseError, FormatError
from lmdbio.layout.foreign import SNIFF_SIZE, refusal
from lmdbio.layout.page import MAGIC


def other_lmdb(offset: int, order: str, version: int) -> bytes:
    """Return the start of a meta page whose header has another size or byte order."""
    return bytes(offset) + struct.pack(f"{order}2I", MAGIC, version) + bytes(8192)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"", "found an empty file"),
        (other_lmdb(12, "<", 1), "found a 32-bit little-endian one"),
        (other_lmdb(12, ">", 1), "found a 32-bit big-endian one"),
        (other_lmdb(16, ">", 1), "found a 64-bit big-endian one"),
        (other_lmdb(24, "<", 2), "found one of LMDB before 1.0 (data version 2"),
        (other_lmdb(24, "<", 3), "found one of LMDB 1.0 (data version 3)"),
        (other_lmdb(16, "<", 999), "development build (data version 999)"),
        (other_lmdb(24, "<", 999), "development build (data version 999)"),
        (other_lmdb(16, "<", 17), "found data version 17"),
        (b"\x00\x01\x00\x00Standard Jet DB\x00" + bytes(4096), "found a Microsoft Access database (Jet)"),
        (b"\x00\x01\x00\x00Standard ACE DB\x00" + bytes(4096), "found a Microsoft Access database (ACE)"),
        (b"SQLite format 3\x00" + bytes(4096), "found an SQLite database"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "found a Git LFS pointer"),
        (b"VERSION=3\nformat=bytevalue\n", "found the text output of mdb_dump"),
        (b"train/0001.jpg 3\n" * 100, "found text"),
        (b"x", "found text"),
        (bytes(16384), "found zero bytes"),
        (bytes(range(256)) * 64, "found no LMDB magic number"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_that_is_no_such_database_is_refused_by_name(content, name):
    error = refusal("x.mdb", content[:SNIFF_SIZE])
    assert type(error) is FormatError
    assert str(error).startswith("x.mdb: expected ")
    assert name in str(error)
    assert "\n" not in str(error)


def test_a_database_of_the_right_kind_is_called_damaged():
    assert type(refusal("x.mdb", other_lmdb(16, "<", 1))) is CorruptDatabaseError
