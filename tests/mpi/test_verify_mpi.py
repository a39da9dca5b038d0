"""Several ranks check one database: together they compare every record once and agree on what they found."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI

from lmdbio.errors import MissingDatabaseError
from lmdbio.layout import Index, build_index
from lmdbio.layout.writer import write_database
from lmdbio.reader import verify
from lmdbio.reader.verify import cross_check

COMM = MPI.COMM_WORLD
RANK = COMM.Get_rank()
N = 300


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Path]:
    """A database of rank 0's with checksums in its index."""
    folder = Path(COMM.bcast(str(tmp_path)))
    if RANK == 0:
        rng = np.random.default_rng(0)
        records = [(b"%03d" % number, rng.bytes(int(rng.choice([0, 100, 3000, 20_000])))) for number in range(N)]
        write_database(folder / "data.mdb", records)
        build_index(folder, checksum=True).save(folder / "data.mdb.index")
    COMM.Barrier()
    yield folder
    COMM.Barrier()


@pytest.fixture(autouse=True)
def _small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "READ_SIZE", 64 << 10)


def test_the_ranks_share_the_records_and_come_to_what_one_comes_to(database: Path) -> None:
    planned: list[int] = []
    found = cross_check(database, comm=COMM, planned=planned.append)
    assert found == cross_check(database)
    assert found.n_findings == 0
    shares = COMM.allgather(planned[0])
    assert sum(shares) == N
    assert min(shares) > 0


def test_what_one_rank_finds_every_rank_learns(database: Path) -> None:
    index = Index.open(database)
    number = int(np.flatnonzero(index.lengths == 20_000)[7])
    COMM.Barrier()
    if RANK == 0:
        with open(database / "data.mdb", "r+b") as file:
            os.pwrite(file.fileno(), b"damaged", int(index.offsets[number]) + 9_000)
        # The fingerprint samples so small a file densely: an index that fits it, with the old checksums, is made anew.
        fresh = build_index(database)
        Index.make(
            fingerprint=fresh.fingerprint,
            page_size=fresh.page_size,
            keys=fresh.keys.expand(),
            key_order=fresh.key_order,
            offsets=fresh.offsets,
            lengths=fresh.lengths,
            layout_order=fresh.layout_order,
            checksums=index.checksums,
        ).save(database / "data.mdb.index")
    COMM.Barrier()
    found = cross_check(database, comm=COMM)
    assert [(finding.difference, finding.number) for finding in found.findings] == [("checksum", number)]
    assert len(set(COMM.allgather(found))) == 1


def test_what_ends_one_rank_ends_every_rank_alike(tmp_path: Path) -> None:
    missing = Path(COMM.bcast(str(tmp_path))) / "none.lmdb"
    with pytest.raises(MissingDatabaseError, match=r"none\.lmdb") as caught:
        cross_check(missing, comm=COMM)
    assert len(set(COMM.allgather(str(caught.value)))) == 1
