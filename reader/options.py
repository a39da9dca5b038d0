"""The knobs of reading that few need: how much is read at once, how far apart, how many reads in flight."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

Direct: TypeAlias = bool | Literal["auto"]
"""Whether reads go past the page cache; ``"auto"``: where that pays."""
_LEAST_DEPTH: Final = 8
_MOST_DEPTH: Final = 32
_IN_FLIGHT: Final = 4 << 20
_MOST_BYTES: Final = 1 << 40
_MOST_HINT: Final = 256  # MPI's own limit for names, and less than that for values
_RANGES: Final = {
    "depth": (1, 1024),
    "gap": (0, _MOST_BYTES),
    "read_size": (4096, _MOST_BYTES),
    "coalesce": (1, _MOST_BYTES),
    "retries": (0, 1000),
}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How bytes are read; the defaults suit local disks and parallel file systems alike.

    Parameters
    ----------
    depth
        Reads in flight at most, 1 to 1024; each has a thread of its own. By default 8 where reads are large, and up to
        32 where they are small, as in global order: :meth:`depth_of`.
    gap
        Bytes between two records that are read in vain rather than asking twice, at most, from 0.
    read_size
        Bytes of one read at most, at least a page of 4096; longer ranges are cut at multiples of it in the file.
    coalesce
        Bytes of whole steps that are planned and read together, about, so that small batches still make large reads.
    direct
        Whether positioned reads go past the page cache (``O_DIRECT``) into aligned buffers. ``"auto"``: if the file
        system is one of a network, or FUSE, and the data file is larger than half the memory that this process may use
        (what the machine has available, or a limit of its control group where that is less) when it is opened. There
        direct reads are faster, since the kernel reads ahead in small pieces; but what fits in memory is read from
        there in later epochs if it was read through the page cache. Ranks of a node share the memory, so it counts
        once, not for each. Where direct reads are refused, all goes through the page cache, which the log says once;
        and so does what is there already, where the kernel tells.
    retries
        How often a positioned read is tried again that the system ends with EIO, ESTALE or ETIMEDOUT, as network file
        systems do while a server is away, 0 to 1000; after 0.05 s at first, then four times as long each time, 5 s at
        most. Each is logged. A file that is shorter than it should be is no such error.
    hints
        What MPI-IO is told when it opens the file for collective reads, by MPI's own names, as
        ``{"cb_buffer_size": "67108864"}``; ``cb_nodes``, ``romio_cb_read`` and ``striping_unit`` are others. MPI passes
        over what it does not know.

    Raises
    ------
    ValueError
        If a value is out of its range.
    """

    depth: int | None = None
    gap: int = 64 << 10
    read_size: int = 2 << 20
    coalesce: int = 4 << 20
    direct: Direct = "auto"
    retries: int = 3
    hints: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if name == "depth" and value is None:
                continue
            if not isinstance(value, int) or not least <= value <= most:
                raise ValueError(f"{name}: expected an integer from {least} to {most}, found {value!r}")
        if not isinstance(self.direct, bool) and self.direct != "auto":
            raise ValueError(f"direct: expected True, False or 'auto', found {self.direct!r}")
        for hint in self.hints.items():
            if not all(map(_is_short_text, hint)):
                raise ValueError(f"hints: expected names and values that are short str, found {hint!r}")

    def depth_of(self, read_size: int) -> int:
        """Return how many reads of about ``read_size`` bytes are in flight at most.

        By default as many as come to 4 MiB: a server far away answers many small ones in the time of one.
        """
        if self.depth is not None:
            return self.depth
        return min(max(_LEAST_DEPTH, _IN_FLIGHT // max(1, read_size)), _MOST_DEPTH)


def options_or_default(options: ReadOptions | None) -> ReadOptions:
    """Return the options that a caller gave, or the defaults for none; TypeError for anything else."""
    if options is None:
        return ReadOptions()
    if not isinstance(options, ReadOptions):
        raise TypeError(f"options: expected ReadOptions, found {type(options).__name__}")
    return options


def _is_short_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) < _MOST_HINT
