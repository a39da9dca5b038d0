"""Every way of reading touches every byte of every record once a pass, and no other."""

from collections import Counter
from pathlib import Path

import pytest
import xxhash

from lmdbio.comm import SingleProcess
from lmdbio.errors import ReadError
from lmdbio.layout import Index
from lmdbio.reader import passes as passes_module
from lmdbio.reader import subject as subject_module
from lmdbio.reader.passes import open_way
from lmdbio.reader.subject import Subject
from lmdbio.reader.ways import Way, choose_ways
from tests.reader.made import make_datum_database, stock_values

N = 300
WAYS = choose_ways("cold", n_ranks=1, has_direct=True)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of values in leaves and in overflow pages, in several partitions."""
    folder = tmp_path_factory.mktemp("passes") / "x.lmdb"
    make_datum_database(folder, [(number * 997) % 9000 for number in range(N)])
    return folder


def subject_of(folder: Path, *, batch_size: int = 7) -> Subject:
    data = folder / "data.mdb"
    return Subject(str(folder), str(data), data.stat().st_size, Index.open(folder), None, batch_size, 2, 2)


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What was hashed."""
    seen: list[bytes] = []

    class Recording:
        @staticmethod
        def xxh3_64_intdigest(value: memoryview) -> int:
            seen.append(bytes(value))
            return xxhash.xxh3_64_intdigest(value)

    monkeypatch.setattr(subject_module, "xxhash", Recording)
    monkeypatch.setattr(passes_module, "xxhash", Recording)
    return seen


@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way.name}, {way.order}")
def test_a_pass_hashes_every_value_once(database: Path, way: Way, hashed: list[bytes]) -> None:
    with open_way(way, subject_of(database), SingleProcess(), seed=1) as passes:
        passes.prepare(range(passes.n_steps))
        works = list(passes.begin())
    assert len(works) == passes.n_steps
    assert sum(work.n_bytes for work in works) == sum(map(len, hashed))
    if way.by == "plain":
        assert b"".join(sorted(hashed)) == b"".join(sorted(_blocks(database)))
    else:
        assert sum(work.n_records for work in works) == N
        assert Counter(hashed) == Counter(stock_values(database))


def _blocks(database: Path) -> list[bytes]:
    content = (database / "data.mdb").read_bytes()
    return [content[first : first + (2 << 20)] for first in range(0, len(content), 2 << 20)]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way.name}, {way.order}")
def test_a_pass_begun_again_reads_the_same(database: Path, way: Way, hashed: list[bytes]) -> None:
    with open_way(way, subject_of(database), SingleProcess(), seed=1) as passes:
        passes.prepare(range(passes.n_steps))
        list(passes.begin())
        first = list(hashed)
        hashed.clear()
        begun = passes.begin()
        next(begun)  # and left in the middle
        hashed.clear()
        list(passes.begin())
    assert hashed == first


def test_get_by_key_comes_in_another_order_with_each_seed(database: Path, hashed: list[bytes]) -> None:
    orders = []
    for seed in (0, 1):
        hashed.clear()
        with open_way(Way("stock", "random", "mapped"), subject_of(database), SingleProcess(), seed=seed) as passes:
            passes.prepare(range(passes.n_steps))
            list(passes.begin())
        orders.append(list(hashed))
    assert orders[0] != orders[1]
    assert stock_values(database) not in orders


def test_only_block_order_reads_much_at_once(database: Path) -> None:
    subject = subject_of(database)
    n_partitions = len(subject.index.partitions) - 1
    for way in WAYS:
        with open_way(way, subject, SingleProcess(), seed=0) as passes:
            if way.order == "block":  # 2 streams of 2 partitions each
                assert passes.period == pytest.approx(4 * N / n_partitions / 7, abs=1)
            else:
                assert passes.period == 1


def test_what_stock_lmdb_refuses_is_an_error_of_ours(database: Path, tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(bytes(20_000))
    subject = Subject(str(tmp_path), str(tmp_path / "data.mdb"), 20_000, Index.open(database), None, 7, 8, 4)
    way = Way("stock", "key", "mapped")
    with pytest.raises(ReadError, match="stock LMDB"), open_way(way, subject, SingleProcess(), seed=0):
        pass
