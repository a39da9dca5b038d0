"""What a conversion did, or would do: the summary that the command prints. Pure: no I/O."""

from dataclasses import asdict, dataclass, field
from typing import Any

from lmdbio.convert.source import BadInput


@dataclass(frozen=True, slots=True)
class DatabaseReport:
    """One database of a conversion."""

    path: str
    """The database's directory."""
    index: str
    """Its sidecar."""
    split: str | None
    """Which split it holds, or None."""
    records: int
    """Records written; in a dry run, planned."""
    classes: int
    """Classes, empty ones included."""
    empty_classes: int
    """Classes without a record here."""
    input_bytes: int
    """Bytes of the inputs that became records."""
    file_size: int
    """Bytes of the data file."""
    hole_bytes: int
    """Bytes of it that alignment leaves unused, on the free list."""
    partitions: int
    """Number of partitions."""
    partition_size: int | None
    """Bytes of a full partition; None where their number was given."""
    align: int
    """Alignment of the partitions in bytes."""
    align_fell_back: bool
    """Whether the default alignment would have cost too much, so that the page size was taken."""
    inline_records: int
    """Records that are small enough to lie in the tree's leaves."""
    keys_cut: int
    """Keys that were longer than 511 bytes and were cut."""
    case_collisions: int
    """Keys that equal another one save for the case of letters (``--key path``)."""
    skipped: tuple[BadInput, ...]
    """Inputs that did not become records, and why."""
    ignored: dict[str, int]
    """How many things of each kind were passed over on purpose."""
    misnamed: dict[str, int]
    """How many inputs hold another format than their name says, by ``<extension> holding <format>``."""
    misnamed_paths: tuple[str, ...]
    """The first of them, 20 at most."""
    free_space: int
    """Bytes free on the target's file system before the conversion."""


@dataclass(frozen=True, slots=True)
class Report:
    """One conversion: the databases it made, and the totals."""

    databases: tuple[DatabaseReport, ...]
    """One for each split, or the one."""
    seconds: float
    """Wall-clock time of the whole conversion."""
    dry_run: bool = False
    """Whether nothing was written."""
    other_folders: tuple[str, ...] = ()
    """Folders beside the splits, which were passed over."""
    version: int = field(default=1)
    """Version of this summary's form as JSON."""

    @property
    def records(self) -> int:
        """Records of all databases."""
        return sum(database.records for database in self.databases)

    @property
    def input_bytes(self) -> int:
        """Bytes of all inputs that became records."""
        return sum(database.input_bytes for database in self.databases)

    @property
    def file_size(self) -> int:
        """Bytes of all data files."""
        return sum(database.file_size for database in self.databases)

    @property
    def classes(self) -> int:
        """Classes, empty ones included; the databases share them."""
        return max((database.classes for database in self.databases), default=0)

    @property
    def skipped(self) -> tuple[BadInput, ...]:
        """All inputs that did not become records."""
        return tuple(bad for database in self.databases for bad in database.skipped)

    def to_json(self) -> dict[str, Any]:
        """Return the report as what JSON can hold: dictionaries, lists, strings and numbers."""
        return {
            "version": self.version,
            "dry_run": self.dry_run,
            "records": self.records,
            "classes": self.classes,
            "input_bytes": self.input_bytes,
            "file_size": self.file_size,
            "seconds": round(self.seconds, 3),
            "bytes_per_second": round(self.input_bytes / self.seconds) if self.seconds > 0 else 0,
            "skipped": len(self.skipped),
            "other_folders": list(self.other_folders),
            "databases": [_as_json(database) for database in self.databases],
        }


def _as_json(database: DatabaseReport) -> dict[str, Any]:
    return {**asdict(database), "skipped": [asdict(bad) for bad in database.skipped]}
