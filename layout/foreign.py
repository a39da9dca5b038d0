"""What a file is that is not a database of the format read here: a name for it, and what to do. Pure: no I/O.

Only the first bytes are looked at. Source of the offsets: the header is 12 bytes in 32-bit files of data version 1,
16 in 64-bit ones, 24 in data versions 2 and 3; the meta page's magic number and version follow it.
"""

import struct
from typing import Final

from lmdbio.errors import CorruptDatabaseError, FormatError
from lmdbio.layout.page import DATA_VERSION, HEADER_SIZE, MAGIC

_HEADER_32BIT: Final = 12
_HEADER_V2: Final = 24
_VERSION_DEVELOPMENT: Final = 2
_VERSION_1_0: Final = 3
_VERSION_DEVEL_BUILD: Final = 999

_DUMP_AND_LOAD: Final = "mdb_dump it with the programs that made it and mdb_load it with LMDB 0.9 on a 64-bit machine"

_SIGNATURES: Final = (
    (4, b"Standard Jet DB", "a Microsoft Access database (Jet)"),
    (4, b"Standard ACE DB", "a Microsoft Access database (ACE)"),
    (0, b"SQLite format 3\x00", "an SQLite database"),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (0, b"version https://git-lfs", "a Git LFS pointer: run git lfs pull"),
    (0, b"PK\x03\x04", "a zip archive: unpack it first"),
    (0, b"\x1f\x8b", "a gzip file: unpack it first"),
    (0, b"\x28\xb5\x2f\xfd", "a zstd file: unpack it first"),
    (0, b"BZh", "a bzip2 file: unpack it first"),
    (0, b"\xfd7zXZ\x00", "an xz file: unpack it first"),
    (257, b"ustar", "a tar archive: unpack it first"),
    (0, b"VERSION=3\nformat=", "the text output of mdb_dump: load it with mdb_load first"),
)
"""Offset, bytes and name of what people have given in place of a database."""

SNIFF_SIZE: Final = 512
"""Bytes from the start of the file that :func:`refusal` makes use of."""


def refusal(path: str, head: bytes) -> FormatError:
    """Return the error that says what a file is, given that its first meta page is none that can be used.

    Parameters
    ----------
    path
        The file, for the message.
    head
        Its first bytes, up to ``SNIFF_SIZE`` of them.
    """
    if not head:
        return FormatError(f"{path}: expected an LMDB database, found an empty file")
    for size in (HEADER_SIZE, _HEADER_32BIT, _HEADER_V2):
        for order in ("<", ">"):
            magic, version = _u32_pair(head, size, order)
            if magic == MAGIC:
                return _lmdb_refusal(path, size, order, version)
    if MAGIC in (_u32_pair(head, 0, "<")[0], _u32_pair(head, 0, ">")[0]):
        return FormatError(f"{path}: expected an LMDB data file, found an LMDB lock file: name the data file beside it")
    return FormatError(f"{path}: expected an LMDB database, found {_kind(head)}")


def _u32_pair(head: bytes, offset: int, order: str) -> tuple[int, int]:
    if len(head) < offset + 8:
        return 0, 0
    first, second = struct.unpack_from(f"{order}2I", head, offset)
    return first, second


def _lmdb_refusal(path: str, header_size: int, order: str, version: int) -> FormatError:
    expected = f"{path}: expected a 64-bit little-endian LMDB 0.9 database"
    if version == _VERSION_DEVEL_BUILD:
        return FormatError(f"{expected}, found one of an LMDB development build (data version 999): {_DUMP_AND_LOAD}")
    if version == _VERSION_1_0:
        return FormatError(f"{expected}, found one of LMDB 1.0 (data version 3): {_DUMP_AND_LOAD}")
    if version == _VERSION_DEVELOPMENT:
        return FormatError(
            f"{expected}, found one of LMDB before 1.0 (data version 2, as in lmdb-js): {_DUMP_AND_LOAD}"
        )
    if version != DATA_VERSION:
        return FormatError(f"{expected}, found data version {version}, which is not known")
    if (header_size, order) != (HEADER_SIZE, "<"):
        bits = "32-bit" if header_size == _HEADER_32BIT else "64-bit"
        endian = "big-endian" if order == ">" else "little-endian"
        return FormatError(f"{expected}, found a {bits} {endian} one: {_DUMP_AND_LOAD}")
    return CorruptDatabaseError(f"{path}: expected two meta pages, found both damaged: restore the file from a copy")


def _kind(head: bytes) -> str:
    for offset, signature, name in _SIGNATURES:
        if head.startswith(signature, offset):
            return name
    if not any(head):
        return "zero bytes: was the copy or download of it interrupted?"
    if all(byte in b"\t\n\r\f" or 32 <= byte < 127 for byte in head):
        return "text"
    return f"no LMDB magic number in its first {len(head)} bytes (another format, or encrypted)"
