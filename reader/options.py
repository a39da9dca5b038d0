"""The knobs of reading that few need: how much is read at once, how far apart, how many reads in flight."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How bytes are read; the defaults suit local disks and parallel file systems alike.

    Raises
    ------
    ValueError
        If a value is out of its range.
    """

    depth: int = 8
    """Reads in flight at most, from 1; each has a thread of its own."""
    gap: int = 64 << 10
    """Bytes between two records that are read in vain rather than asking twice, at most, from 0."""
    read_size: int = 2 << 20
    """Bytes of one read at most, at least a page of 4096; longer ranges are cut at multiples of it in the file."""
    coalesce: int = 4 << 20
    """Bytes of whole steps that are planned and read together, about, so that small batches still make large reads."""

    def __post_init__(self) -> None:
        smallest = {"depth": 1, "gap": 0, "read_size": 4096, "coalesce": 1}
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int) or value < smallest[field.name]:
                raise ValueError(
                    f"{field.name}: expected an integer of at least {smallest[field.name]}, found {value!r}"
                )
