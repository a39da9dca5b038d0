from pathlib import Path

import lmdb
import numpy as np
import pytest
import xxhash

from lmdbio.layout import Index
from tools.ablation.databases import VARIANTS, make_database
from tools.ablation.records import KINDS, N_CLASSES, made_records

N_RECORDS = {"3KB": 2_500, "110KB": 120}


@pytest.fixture(scope="module", params=list(KINDS))
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Path]]:
    cache, kind = tmp_path_factory.mktemp("cache"), request.param
    return kind, {
        name: make_database(cache, variant, kind=kind, n_records=N_RECORDS[kind]) for name, variant in VARIANTS.items()
    }


def stock_records(path: Path) -> list[tuple[bytes, bytes]]:
    with lmdb.open(str(path), readonly=True, lock=False) as environment, environment.begin() as transaction:
        return list(transaction.cursor())


def test_every_database_holds_the_same_values_in_the_same_classes(made: tuple[str, dict[str, Path]]) -> None:
    kind, databases = made
    wanted = sorted(
        (xxhash.xxh3_64_intdigest(record.value), record.label) for record in made_records(kind, N_RECORDS[kind])
    )
    for path in databases.values():
        index = Index.open(path)
        assert sorted(zip(index.checksums.tolist(), index.labels.tolist(), strict=True)) == wanted
        values = [value for _, value in stock_records(path)]
        assert [xxhash.xxh3_64_intdigest(value) for value in values] == index.checksums.tolist()


def test_the_stock_databases_have_the_same_keys_in_another_page_order(made: tuple[str, dict[str, Path]]) -> None:
    _, databases = made
    by_name = {name: Index.open(databases[name]) for name in ("sorted", "random")}
    assert list(by_name["sorted"].keys.expand()) == list(by_name["random"].keys.expand())
    laid = {name: index.labels[np.argsort(index.offsets)] for name, index in by_name.items()}
    changes = {name: np.count_nonzero(np.diff(labels)) for name, labels in laid.items()}
    assert changes["sorted"] < 2 * N_CLASSES or len(laid["sorted"]) < 2 * N_CLASSES
    assert changes["random"] > 0.9 * len(laid["random"])


def test_each_variant_takes_one_property_away(made: tuple[str, dict[str, Path]]) -> None:
    kind, databases = made
    indexes = {name: Index.open(databases[name]) for name in databases}
    begins = {name: index.offsets[order_of(index)[index.partitions[:-1]]] for name, index in indexes.items()}
    assert all((begins["shuffle"] - np.uint64(16)) % np.uint64(1 << 20) == 0)
    assert len(indexes["4MiB"].partitions) > len(indexes["shuffle"].partitions)
    assert len(indexes["64MiB"].partitions) == 2
    if kind == "110KB":
        assert any((begins["no-align"] - np.uint64(16)) % np.uint64(1 << 20))
    # Without leaves between them all values of a partition's end and the next one's begin touch, save for alignment.
    assert indexes["leaves-apart"].layout_order.tolist() == swapped(len(indexes["shuffle"]))
    assert indexes["shuffle"].layout_order is None


def order_of(index: Index) -> np.ndarray:
    return np.arange(len(index)) if index.layout_order is None else index.layout_order


def swapped(n: int) -> list[int]:
    return [*range(n - 2), n - 1, n - 2]


def test_a_database_is_made_once_and_again_when_it_is_not_whole(tmp_path: Path) -> None:
    def make() -> Path:
        return make_database(tmp_path, VARIANTS["shuffle"], kind="110KB", n_records=30)

    made = make()
    before = (made / "data.mdb").stat()
    assert make() == made
    assert (made / "data.mdb").stat().st_ino == before.st_ino
    made.with_suffix(".json").unlink()
    (made / "data.mdb").write_bytes(b"half")
    make()
    assert (made / "data.mdb").stat().st_size == before.st_size
