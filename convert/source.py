"""What a conversion reads: its inputs as arrays, and the protocol that every kind of source fulfils.

Nothing here knows of directories: a kind of source (class folders, later others) lists its inputs, and reads one by
number.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.keys import Keys


class InputFault(Exception):  # noqa: N818  # a finding about an input, which the caller may choose to live with
    """One input cannot become a record; the message is the reason in a few words, without the input's name."""


@dataclass(frozen=True, slots=True)
class BadInput:
    """An input that did not become a record."""

    path: str
    """The input as a person would name it, printable."""
    reason: str
    """What was expected and what was found, in a few words."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of one database in the source's own order: 16 bytes each and its path."""

    paths: Keys
    """Each input's path relative to the source's root, exactly as the file system has it."""
    sizes: NDArray[np.uint32]
    """Bytes of each input, uint32 as values are no larger, shape (n_inputs,); none is 0."""
    labels: NDArray[np.int32]
    """Each input's class, int32, shape (n_inputs,)."""

    def __len__(self) -> int:
        return len(self.sizes)


class Source(Protocol):
    """Inputs that become the records of one database."""

    @property
    def name(self) -> str:
        """The source as a person would name it, printable."""

    @property
    def split(self) -> str | None:
        """Name of the split (``train``, ``val``), or None where the source has none."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """Name of each class, by label."""

    @property
    def inputs(self) -> Inputs:
        """The inputs that can become records."""

    @property
    def bad(self) -> tuple[BadInput, ...]:
        """The inputs that were found bad when the source was listed, in the source's order."""

    @property
    def ignored(self) -> Mapping[str, int]:
        """How many things of each kind were passed over on purpose, by a short description."""

    def shown(self, number: int) -> str:
        """Return the name of an input for messages, printable."""

    def read_into(self, number: int, memory: memoryview, *, on_wait: Callable[[], None]) -> None:
        """Fill memory with the bytes of an input, as many as ``inputs.sizes`` says. Thread-safe.

        ``on_wait`` is called before a read that has to wait, since the bytes are not in memory, or may have to.

        Raises
        ------
        InputFault
            If it cannot be read, or is not of the size that it had; what the memory holds then is of no account.
        """

    def pieces(self, number: int) -> Iterator[bytes]:
        """Yield the bytes of an input that is too large to be held, piece by piece. Thread-safe.

        Raises
        ------
        InputFault
            As :meth:`read_into`; once pieces were given, too, and if it was written to meanwhile.
        """

    def close(self) -> None:
        """Give back what reading took, and the memory of the inputs: from then on there are none."""


def text(name: bytes) -> str:
    """Return a file name as Python's text, exactly, whatever the locale: UTF-8, other bytes as lone surrogates."""
    return name.decode("utf-8", "surrogateescape")


def fault(error: OSError) -> str:
    """Return the reason of a failed system call in a few words."""
    reason = error.strerror
    return f"cannot be read: {reason[:1].lower()}{reason[1:]}" if reason else f"cannot be read ({type(error).__name__})"
