from pathlib import Path

import numpy as np
import pytest

from lmdbio.layout import build_index
from lmdbio.layout.writer import write_database
from tools import race


@pytest.fixture
def database(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    records = [(b"%08d" % i, rng.bytes(int(rng.integers(10, 20_000)))) for i in range(60)]
    path = tmp_path / "data.mdb"
    write_database(path, records, partition_size=1 << 18)
    build_index(path, checksum=True).save(tmp_path / "data.mdb.index")
    return path


def test_every_contestant_reads_every_record_rightly(database: Path) -> None:
    results = race.run(database, rounds=2)
    assert [result.name for result in results] == list(race.CONTESTANTS)
    assert {result.records for result in results} == {60}
    assert all(result.warm_seconds > 0 for result in results)


def test_a_contestant_that_leaves_a_record_out_is_caught(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(race.CONTESTANTS, "stock get, random", lambda race: (np.arange(59), [0] * 59))
    with pytest.raises(RuntimeError, match="stock get, random: expected every record once, found 59 reads of 60"):
        race.run(database, rounds=1)


def test_a_contestant_that_reads_other_bytes_is_caught(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(race.CONTESTANTS, "lmdbio, block", lambda race: (np.arange(60), [0] * 60))
    with pytest.raises(RuntimeError, match="lmdbio, block: expected the checksums of the index, found others"):
        race.run(database, rounds=1)
