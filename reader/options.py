"""The knobs of reading that few need: how much is read at once, how far apart, how many reads in flight."""

from dataclasses import dataclass, fields
from typing import Final

_MOST_BYTES: Final = 1 << 40
_RANGES: Final = {
    "depth": (1, 1024),
    "gap": (0, _MOST_BYTES),
    "read_size": (4096, _MOST_BYTES),
    "coalesce": (1, _MOST_BYTES),
}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How bytes are read; the defaults suit local disks and parallel file systems alike.

    Raises
    ------
    ValueError
        If a value is out of its range.
    """

    depth: int = 8
    """Reads in flight at most, 1 to 1024; each has a thread of its own."""
    gap: int = 64 << 10
    """Bytes between two records that are read in vain rather than asking twice, at most, from 0."""
    read_size: int = 2 << 20
    """Bytes of one read at most, at least a page of 4096; longer ranges are cut at multiples of it in the file."""
    coalesce: int = 4 << 20
    """Bytes of whole steps that are planned and read together, about, so that small batches still make large reads."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least, most = _RANGES[field.name]
            if not isinstance(value, int) or not least <= value <= most:
                raise ValueError(f"{field.name}: expected an integer from {least} to {most}, found {value!r}")
