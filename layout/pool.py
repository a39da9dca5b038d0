"""Buffers that are used again: the one returned last first, so that it is still in the processor's cache.

A buffer is lent as an array. It comes back by itself when nothing refers to it any more: neither the array, nor a view
of it, nor a memoryview, however they were derived. So a view that someone holds is never written over.
"""

import contextlib
import mmap
from collections import deque
from threading import Lock
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_HUGE_PAGE: Final = 2 << 20
_MOST_SPARE: Final = 4
"""How many times larger than need be a buffer may be that is used again: rather that than one out of the cache."""


class BufferPool:
    """Page-aligned anonymous memory, lent and taken back. Safe to share between threads.

    Parameters
    ----------
    keep
        Bytes of unused buffers that are kept for later, at most.
    """

    def __init__(self, *, keep: int) -> None:
        self._keep = keep
        self._lock = Lock()
        self._free: list[NDArray[np.uint8]] = []  # the one returned last stands last
        self._free_size = 0
        # A lease may end in any thread at any moment (the garbage collector), even in one that holds the lock:
        # it only appends here, which needs no lock.
        self._returned: deque[tuple[NDArray[np.uint8], int]] = deque()
        self._lent_size = 0

    @property
    def free_size(self) -> int:
        """Bytes of unused buffers that are kept."""
        with self._lock:
            self._collect()
            return self._free_size

    @property
    def lent_size(self) -> int:
        """Bytes of all arrays that something still refers to."""
        with self._lock:
            self._collect()
            return self._lent_size

    def take(self, size: int) -> NDArray[np.uint8]:
        """Return a writable array, uint8, shape (size,), whose content is arbitrary."""
        with self._lock:
            self._collect()
            memory = self._pop(size)
            self._lent_size += size
        if memory is None:
            memory = _allocate(_capacity(size))
        lease = _Lease(memory, size, self._returned)
        return np.asarray(lease)

    def clear(self) -> None:
        """Give unused buffers back to the system, and keep none from now on."""
        with self._lock:
            self._keep = 0
            self._collect()

    def _collect(self) -> None:
        while self._returned:
            memory, size = self._returned.popleft()
            self._lent_size -= size
            self._free.append(memory)
            self._free_size += memory.nbytes
        while self._free_size > self._keep:
            self._free_size -= self._free.pop(0).nbytes

    def _pop(self, size: int) -> NDArray[np.uint8] | None:
        """Return the buffer returned last of those that fit and are not much too large."""
        for place in range(len(self._free) - 1, -1, -1):
            if size <= self._free[place].nbytes <= _MOST_SPARE * _capacity(size):
                memory = self._free.pop(place)
                self._free_size -= memory.nbytes
                return memory
        return None


class _Lease:
    """What every view of a lent buffer refers to in the end; the buffer goes back when it dies."""

    __slots__ = ("__array_interface__", "_memory", "_returned", "_size")

    def __init__(self, memory: NDArray[np.uint8], size: int, returned: deque[tuple[NDArray[np.uint8], int]]) -> None:
        self._memory = memory
        self._size = size
        self._returned = returned
        address = memory.__array_interface__["data"][0]
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "typestr": "|u1",
            "shape": (size,),
            "data": (address, False),
        }

    def __del__(self) -> None:
        self._returned.append((self._memory, self._size))


def _allocate(size: int) -> NDArray[np.uint8]:
    """Return new memory of the process's own, in huge pages where it is large enough for them.

    The first touch of a page costs more than filling it, above all in a virtual machine: huge pages are few.
    """
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= _HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)


def _capacity(size: int) -> int:
    """Return the bytes to ask for: powers of two, so that buffers fit more than one use.

    Memory that is never touched takes none, so the rest of the power costs addresses only.
    """
    return max(mmap.PAGESIZE, 1 << max(0, size - 1).bit_length())
