"""How to convert: the options that shape the database, checked once. Pure: no I/O."""

from dataclasses import asdict, dataclass
from typing import Any, Final

from lmdbio.layout.datum import MAX_DATUM_SIZE
from lmdbio.layout.page import MAX_VALUE_SIZE
from lmdbio.layout.region_plan import Goal

KINDS: Final = ("imagenet", "folder")
ORDERS: Final = ("shuffle", "stratified", "source")
VALUES: Final = ("datum", "raw")
KEYS: Final = ("number", "path")
ON_ERROR: Final = ("raise", "skip")

PAGE_SIZE: Final = 4096
"""Bytes of a page of the databases that are made: that of LMDB on nearly every machine."""
DEFAULT_WORKERS: Final = 16
"""Threads that read. From memory few of them do; from a disk that answers many at once 16 were faster than 8."""
_DATUM_OVERHEAD: Final = 64
"""More than what a Datum takes around its image."""


@dataclass(frozen=True, slots=True)
class Options:
    """What decides the bytes of a database, beside its inputs.

    Raises
    ------
    ValueError
        If an option is none of those there are, or a number is out of range.
    """

    kind: str
    """``imagenet`` or ``folder``."""
    order: str
    """``shuffle``, ``stratified`` or ``source``."""
    seed: int
    """Seed of the order."""
    value: str
    """``datum`` or ``raw``."""
    key: str
    """``number`` or ``path``."""
    checksum: bool
    """Whether each record's checksum goes into the sidecar."""
    limit: int | None
    """The most records of one database."""
    partition_size: int | None
    """Bytes of a partition, None for the planner's default."""
    n_partitions: int | None
    """Number of partitions, None to cut by size."""
    align: int | None
    """Alignment of partitions in bytes, None for the planner's default."""

    def __post_init__(self) -> None:
        one_of("kind", self.kind, KINDS)
        one_of("order", self.order, ORDERS)
        one_of("value", self.value, VALUES)
        one_of("key", self.key, KEYS)
        at_least_one("limit", self.limit)
        at_least_one("partition_size", self.partition_size)
        at_least_one("n_partitions", self.n_partitions)
        at_least_one("align", self.align)
        if self.partition_size is not None and self.n_partitions is not None:
            raise ValueError("partition_size, n_partitions: expected one of the two, found both")
        self.goal()  # what the planner would refuse is refused before a source is listed

    @property
    def max_input_size(self) -> int:
        """Bytes that an input may have at most to fit a value."""
        return MAX_DATUM_SIZE - _DATUM_OVERHEAD if self.value == "datum" else MAX_VALUE_SIZE

    def goal(self) -> Goal:
        """Return what partitions shall be like.

        Raises
        ------
        ValueError
            If no database could be laid out so.
        """
        return Goal.make(
            page_size=PAGE_SIZE, align=self.align, partition_size=self.partition_size, n_partitions=self.n_partitions
        )

    def description(self) -> dict[str, Any]:
        """Return how the database was made, for the sidecar: no path, time, host or number of workers."""
        return {name: value for name, value in asdict(self).items() if value is not None and name != "checksum"}


def one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    """Refuse a word that is not among the known ones."""
    if value not in known:
        raise ValueError(f"{name}: expected {' or '.join(map(repr, known))}, found {value!r}")


def at_least_one(name: str, value: int | None) -> None:
    """Refuse a number below 1; None passes."""
    if value is not None and value < 1:
        raise ValueError(f"{name}: expected at least 1, found {value}")
