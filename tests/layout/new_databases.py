"""New databases in folders of their own: planned, written by regions, and known to be none as long as they are not."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import lmdb
import numpy as np
import pytest

from lmdbio.errors import FormatError
from lmdbio.layout import window
from lmdbio.layout.file import DataFile
from lmdbio.layout.keys import Keys
from lmdbio.layout.meta import read_meta
from lmdbio.layout.plan import DatabasePlan, plan_database
from lmdbio.layout.writer import DatabaseWriter, write_database
from tests.layout.record_sets import Record


@contextmanager
def data_file() -> Iterator[Path]:
    """Give the path of a data file that is not there yet."""
    with TemporaryDirectory(prefix="writer-") as folder:
        yield Path(folder) / "data.mdb"


@contextmanager
def limits(window_size: int = window.WINDOW_SIZE, largest_extent: int = window.LARGEST_EXTENT) -> Iterator[None]:
    """Change what windows hold."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window, "WINDOW_SIZE", window_size)
        patch.setattr(window, "LARGEST_EXTENT", largest_extent)
        yield


def plan_of(records: list[Record], **options: int) -> DatabasePlan:
    """Return the plan of a database of these records."""
    lengths = np.array([len(value) for _, value in records], np.int64)
    return plan_database(Keys.from_list(key for key, _ in records), lengths, **options)


def write_regions(
    writer: DatabaseWriter,
    records: list[Record],
    *,
    skip: frozenset[int] = frozenset(),
    regions: list[int] | None = None,
) -> None:
    """Write regions, all by default, and leave out some records by their plan-order numbers."""
    for region in range(writer.plan.n_regions) if regions is None else regions:
        wanted = writer.plan.region_records(region).tolist()
        writer.write_region(region, [None if record in skip else [records[record][1]] for record in wanted])


def assert_no_database(path: Path) -> None:
    """Neither LMDB nor lmdbio takes the file for a database."""
    with pytest.raises(lmdb.InvalidError):
        lmdb.open(str(path), subdir=False, lock=False)
    with pytest.raises(FormatError), DataFile(path) as file:
        read_meta(file)


def assert_as_written_whole(path: Path, records: list[Record]) -> None:
    """The file has the bytes that writing all records at once gives."""
    other = path.with_name("whole.mdb")
    write_database(other, records)
    assert path.read_bytes() == other.read_bytes()
