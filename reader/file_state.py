"""What the kernel tells of an open file that Python does not ask for: its file system, direct reads, what is cached.

Linux only; elsewhere, and where the kernel is too old, the answer is that nothing is known.
"""

import ctypes
import mmap
import os
import sys
from functools import cache
from typing import Final

_NAMES: Final = {
    0x00C36400: "ceph",
    0x01021997: "9p",
    0x01161970: "gfs2",
    0x0BD00BD0: "lustre",
    0x19830326: "beegfs",
    0x20030528: "orangefs",
    0x47504653: "gpfs",
    0x517B: "smb",
    0x5346414F: "afs",
    0x65735546: "fuse",
    0x6969: "nfs",
    0x6B414653: "afs",
    0x7461636F: "ocfs2",
    0xAAD7AAEA: "panfs",
    0xBEEFDEAD: "snfs",
    0xFE534D42: "smb",
    0xFF534D42: "cifs",
}
"""By type number of statfs(2), the file systems whose bytes come from another machine, or, FUSE, from another process
that may well fetch them there."""
_AT_EMPTY_PATH: Final = 0x1000
_STATX_DIOALIGN: Final = 0x2000
_STATX_MASK: Final = slice(0, 4)
_STATX_MEMORY_ALIGN: Final = slice(152, 156)
_STATX_OFFSET_ALIGN: Final = slice(156, 160)
_CACHESTAT: Final = 451
"""Number of the system call, the same on every architecture but alpha; glibc has no function for it."""
_RESULT_SIZE: Final = 256
"""No less than struct statfs and struct statx take."""
_N_SAMPLES: Final = 64
_SAMPLE_SIZE: Final = 1 << 20
DEFAULT_ALIGN: Final = 4096
"""What direct reads must be multiples of where the kernel does not tell: more than any common disk asks for."""


def network_file_system(fd: int) -> str | None:
    """Return the name of the file's file system if it is one of a network, or FUSE; None if not, or unknown."""
    result = (ctypes.c_uint8 * _RESULT_SIZE)()
    if not _is_linux() or _libc().fstatfs(fd, result):
        return None
    kind = int.from_bytes(bytes(result[: ctypes.sizeof(ctypes.c_long)]), sys.byteorder)
    return _NAMES.get(kind & 0xFFFFFFFF)


def direct_align(fd: int) -> int:
    """Return the multiple that offset, length and memory of direct reads must be of, a power of two; 0: no such reads.

    Where the file system does not tell it is ``DEFAULT_ALIGN``, and trying shows whether it reads directly at all.
    """
    result = (ctypes.c_uint8 * _RESULT_SIZE)()
    if not _has("statx") or _libc().statx(fd, b"", _AT_EMPTY_PATH, _STATX_DIOALIGN, result):
        return DEFAULT_ALIGN
    mask, memory, offset = (
        int.from_bytes(bytes(result[part]), sys.byteorder)
        for part in (_STATX_MASK, _STATX_MEMORY_ALIGN, _STATX_OFFSET_ALIGN)
    )
    return max(memory, offset) if mask & _STATX_DIOALIGN else DEFAULT_ALIGN


def is_cached(fd: int, offset: int, length: int) -> bool | None:
    """Return whether all pages of a range are in the page cache; None where the kernel does not tell.

    A read that may not wait would tell, too, but it makes the kernel read ahead. Newer kernels answer only those who
    own the file or may write to it.
    """
    n_cached = _cached_pages(fd, offset, length)
    return None if n_cached is None else n_cached == _page_count(offset, length)


def cached_share(fd: int, size: int) -> float | None:
    """Return about what part of a file of ``size`` bytes is in the page cache; None where the kernel does not tell.

    Looked at are samples at even distances: counting all pages of a large file that is in memory takes long.
    """
    step = max(_SAMPLE_SIZE, size // _N_SAMPLES)
    samples = [(offset, min(_SAMPLE_SIZE, size - offset)) for offset in range(0, size, step)]
    cached = [_cached_pages(fd, *sample) for sample in samples]
    if not samples or None in cached:
        return None
    return sum(filter(None, cached)) / sum(_page_count(*sample) for sample in samples)


def _cached_pages(fd: int, offset: int, length: int) -> int | None:
    """Return how many pages of a range are in the page cache; None where the kernel does not tell."""
    if not _is_linux():
        return None
    wanted = (ctypes.c_uint64 * 2)(offset, length)
    counts = (ctypes.c_uint64 * 5)()  # cached, dirty, in write-back, evicted, lately evicted
    if _libc().syscall(ctypes.c_long(_CACHESTAT), ctypes.c_uint(fd), wanted, counts, ctypes.c_uint(0)):
        return None
    return int(counts[0])


def _page_count(offset: int, length: int) -> int:
    return (offset + length - 1) // mmap.PAGESIZE - offset // mmap.PAGESIZE + 1


def memory_address(buffer: memoryview) -> int:
    """Return where a writable, not empty buffer begins."""
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@cache
def _has(function: str) -> bool:
    return _is_linux() and hasattr(_libc(), function)


def _is_linux() -> bool:
    return sys.platform == "linux" and hasattr(os, "O_DIRECT")
