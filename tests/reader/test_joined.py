"""Several databases read as one are what stock LMDB reads of each, one behind the other, in every order."""

import logging
import os
import pickle
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.errors import ChecksumError, MissingIndexError, ReadError, StaleIndexError
from lmdbio.layout import Index, build_index
from lmdbio.layout.file import DataFile
from lmdbio.layout.fingerprint import take_fingerprint
from lmdbio.layout.keys import Keys
from lmdbio.layout.meta import read_meta
from lmdbio.layout.writer import write_database
from lmdbio.reader import Dataset, ParallelReader, ReadOptions, fetch
from lmdbio.reader.joined_file import JoinedFile
from lmdbio.reader.joined_index import JoinedIndex
from lmdbio.reader.sequence import ORDERS, Order
from tests.reader.made import make_datum_database, overwrite, stock_values

KINDS = [[0, 100, 3000, 20_000] * 12, [], [5000], [40_000, 7] * 20, [64] * 90]


def make_raw(path: Path, n_records: int, *, labels: list[int] | None = None, names: list[str] | None = None) -> None:
    """Make a file of raw values by stock LMDB, written in another order than keys have, with sidecar."""
    rng = np.random.default_rng(n_records)
    with lmdb.open(str(path), subdir=False, map_size=1 << 28, lock=False) as env, env.begin(write=True) as txn:
        for number in rng.permutation(n_records).tolist():
            txn.put(b"%s-%06d" % (path.stem.encode(), number), rng.bytes(int(rng.integers(0, 9000))))
    index = build_index(path)
    if labels is None:
        index.save(f"{path}.index")
        return
    with DataFile(path) as file:
        fingerprint = take_fingerprint(file, read_meta(file))
    Index.make(
        fingerprint=fingerprint,
        page_size=4096,
        keys=Keys.from_list(list(index.keys)),
        key_order="bytes",
        offsets=index.offsets,
        lengths=index.lengths,
        layout_order=index.layout_order,
        labels=np.array(labels, np.int64),
        class_names=names,
    ).save(f"{path}.index")


def raw_values(path: Path) -> list[bytes]:
    with lmdb.open(str(path), subdir=False, readonly=True, lock=False) as env, env.begin() as txn:
        return [bytes(value) for _, value in txn.cursor()]


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("joined")
    for number, sizes in enumerate(KINDS):
        make_datum_database(folder / f"{number}.lmdb", sizes)
    make_raw(folder / "raw.mdb", 60)
    return [*(folder / f"{number}.lmdb" for number in range(len(KINDS))), folder / "raw.mdb"]


@pytest.fixture(scope="module")
def values(paths: list[Path]) -> list[bytes]:
    return [value for path in paths[:-1] for value in stock_values(path)] + raw_values(paths[-1])


@given(
    st.sampled_from(ORDERS),
    st.integers(1, 40),
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from([False, True]),
    st.sampled_from([1, 30_000, 4 << 20]),
)
def test_every_record_of_all_comes_once(
    paths: list[Path],
    values: list[bytes],
    order: Order,
    batch_size: int,
    world_size: int,
    cold: bool,
    direct: bool,
    coalesce: int,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if cold:
            patch.setattr(fetch.RecordFile, "read_cached", lambda self, offset, buffer: 0)
        seen: list[int] = []
        for rank in range(world_size):
            options = ReadOptions(coalesce=coalesce, read_size=1 << 14, depth=3, direct=direct)
            with ParallelReader(
                paths, rank=rank, world_size=world_size, batch_size=batch_size, order=order, streams=3, options=options
            ) as reader:
                for batch in reader:
                    for number, value in zip(batch.indices.tolist(), batch.values, strict=True):
                        assert value == values[number]
                        seen.append(number)
    n = len(values)
    assert len(seen) == n + -n % world_size
    assert set(seen) == set(range(n))


def test_sequential_order_is_each_files_layout_one_behind_the_other(paths: list[Path]) -> None:
    wanted, first = [], 0
    for path in paths:
        with ParallelReader(path, batch_size=9) as reader:
            wanted += [first + number for batch in reader for number in batch.indices.tolist()]
            first += len(reader.index)
    with ParallelReader(paths, batch_size=11) as reader:
        assert [number for batch in reader for number in batch.indices.tolist()] == wanted


def test_keys_labels_and_payloads_are_each_records_own(paths: list[Path], values: list[bytes]) -> None:
    apart = [record for path in paths for record in Dataset(path).fetch(range(len(Dataset(path))))]
    data = Dataset(paths)
    assert len(data) == len(values) == len(apart)
    for record, own, value in zip(data.fetch(range(len(data))), apart, values, strict=True):
        assert (record.key, record.label) == (own.key, own.label)
        assert record.value == own.value == value
        assert record.data == own.data
    numbers = [len(data) - 1, 0, -1, 50, 49, 48, 47]
    assert [record.value for record in data.fetch(numbers)] == [values[number] for number in numbers]
    with ParallelReader(paths, batch_size=30, order="global") as reader:
        for batch in reader:
            wanted = [apart[number] for number in batch.indices.tolist()]
            assert batch.keys == [record.key for record in wanted]
            assert batch.labels.tolist() == [record.label for record in wanted]
            assert [bytes(view) for view in batch.data] == [bytes(record.data) for record in wanted]


def test_a_key_in_two_of_them_is_found_in_the_first(paths: list[Path]) -> None:
    data = Dataset([paths[3], paths[0]])
    assert b"00000001_x.JPEG" in data
    assert data[b"00000001_x.JPEG"].value == Dataset(paths[3])[b"00000001_x.JPEG"].value
    assert data[b"00000047_x.JPEG"].value == Dataset(paths[0])[b"00000047_x.JPEG"].value
    assert data.index.keys[-1] == b"00000047_x.JPEG"
    assert data.index.keys[38:42] == [b"%08d_x.JPEG" % number for number in (38, 39, 0, 1)]
    assert list(data.index.keys)[40] == b"00000000_x.JPEG"
    with pytest.raises(KeyError, match="and 1 more: expected a record's key"):
        data[b"none"]
    with pytest.raises(IndexError):
        data.index.keys[88]
    with pytest.raises(IndexError):
        data.index.extents(np.array([88]))


def test_a_pickled_data_set_reads_the_same(paths: list[Path], values: list[bytes], tmp_path: Path) -> None:
    copy = tmp_path / "copy.mdb"
    copy.write_bytes(paths[-1].read_bytes())  # without a sidecar
    for named in (paths, [paths[0], copy]):
        data = Dataset(named)
        again = pickle.loads(pickle.dumps(data))
        assert [bytes(r.value) for r in again.fetch(range(20))] == values[:20]
        assert bytes(again[-1].value) == values[-1]
        assert again.index.digest() == data.index.digest()


def test_one_state_is_over_all(paths: list[Path]) -> None:
    def reader_of(named: list[Path]) -> ParallelReader:
        return ParallelReader(named, batch_size=16, order="block", streams=2, seed=3)

    with reader_of(paths) as reader:
        wanted = [batch.indices.tolist() for batch in reader]
        reader.set_epoch(0)
        batches = iter(reader)
        for _ in range(5):
            next(batches)
        state = reader.state_dict()
    with reader_of(paths) as reader:
        reader.load_state_dict(state)
        assert [batch.indices.tolist() for batch in reader] == wanted[5:]
    for others in (paths[::-1], paths[:-1], paths[:1]):
        with reader_of(others) as reader, pytest.raises(ValueError, match="expected one of this database"):
            reader.load_state_dict(state)


def test_classes_are_merged_by_name(tmp_path: Path) -> None:
    make_raw(tmp_path / "a.mdb", 4, labels=[0, 1, -1, 0], names=["cat", "dog"])
    make_raw(tmp_path / "b.mdb", 3, labels=[0, 1, 2], names=["dog", "emu", "cat"])
    make_raw(tmp_path / "c.mdb", 2)
    with ParallelReader([tmp_path / f"{name}.mdb" for name in "abc"], batch_size=99) as reader:
        assert reader.index.class_names == ["cat", "dog", "emu"]
        batch = next(iter(reader))
        labels = dict(zip(batch.indices.tolist(), batch.labels.tolist(), strict=True))
        assert [labels[number] for number in range(9)] == [0, 1, -1, 0, 1, 2, 0, -1, -1]
        assert batch.labels.dtype == np.int64


@pytest.mark.parametrize(
    ("labels", "names", "message"),
    [
        ([0, 1], None, r"b.mdb: expected class names beside its labels, as .*a.mdb has, found none"),
        ([0, 1], ["cat", "cat"], r"b.mdb: expected each class name once, found 'cat' twice"),
    ],
)
def test_classes_that_cannot_be_told_to_be_the_same_are_refused(
    tmp_path: Path, labels: list[int], names: list[str] | None, message: str
) -> None:
    make_raw(tmp_path / "a.mdb", 2, labels=[0, 1], names=["cat", "dog"])
    make_raw(tmp_path / "b.mdb", 2, labels=labels, names=names)
    with pytest.raises(ValueError, match=message):
        Dataset([tmp_path / "a.mdb", tmp_path / "b.mdb"])


def test_numbers_without_names_stay_as_they_are(tmp_path: Path) -> None:
    make_raw(tmp_path / "a.mdb", 2, labels=[4, 1])
    make_raw(tmp_path / "b.mdb", 2, labels=[-1, 4])
    index = Dataset([tmp_path / "a.mdb", tmp_path / "b.mdb"]).index
    assert index.class_names is None
    assert index.labels is not None
    assert index.labels.tolist() == [4, 1, -1, 4]


@pytest.fixture
def two(tmp_path: Path) -> list[Path]:
    make_datum_database(tmp_path / "a.lmdb", [3000] * 40)
    make_datum_database(tmp_path / "b.lmdb", [5000] * 40)
    return [tmp_path / "a.lmdb", tmp_path / "b.lmdb"]


def extent(path: Path, number: int) -> tuple[int, int]:
    offsets, lengths = Index.open(path).extents(np.array([number]))
    return int(offsets[0]), int(lengths[0])


def test_damage_is_named_by_its_own_file_and_offset(two: list[Path]) -> None:
    offset, _ = extent(two[1], 30)
    overwrite(two[1] / "data.mdb", offset + 4000, b"?!")
    with (
        ParallelReader(two, batch_size=16, verify="checksum") as reader,
        pytest.raises(
            ChecksumError, match=rf"b.lmdb/data.mdb: key b'00000030_x.JPEG', .* at offset {offset}: expected"
        ),
    ):
        list(reader)


def test_a_file_that_is_cut_short_is_named_with_its_own_offset(two: list[Path]) -> None:
    offset, length = extent(two[1], 35)
    with ParallelReader(two, batch_size=8, options=ReadOptions(coalesce=1)) as reader, Dataset(two) as data:
        os.truncate(two[1] / "data.mdb", offset + length - 1)
        for read in (lambda: list(reader), lambda: data[75]):
            with pytest.raises(ReadError, match=rf"b.lmdb/data.mdb: key b'00000035_x.JPEG', .* at offset {offset}, "):
                read()


def with_offset(index: Index, number: int, offset: int) -> Index:
    """Return the index with another offset of a record: one that points out of the file."""
    offsets = index.offsets.copy()
    offsets[number] = offset

    class Lying(Index):
        def extents(self, records: Any) -> Any:
            return offsets[records], self.lengths[records]

    return Lying.from_bytes(index.to_bytes())


@pytest.mark.parametrize("offset", [2**63 + 5, 2**64 - 1, 2**43, 2**41])
def test_an_offset_that_cannot_be_is_never_another_files(two: list[Path], offset: int) -> None:
    index, other = (Index.open(path) for path in two)
    joined = JoinedIndex([with_offset(index, 7, offset), other], [str(path / "data.mdb") for path in two])
    offsets, _ = joined.extents(np.arange(80))
    assert joined.space.file_of(int(offsets[7])) == 0
    assert joined.space.place(int(offsets[7]))[1] > index.fingerprint.file_size
    assert offsets[40:].tolist() == (other.offsets + np.uint64(joined.space.bases[1])).tolist()


def test_each_database_is_checked(two: list[Path], caplog: pytest.LogCaptureFixture) -> None:
    overwrite(two[1] / "data.mdb", 4096 - 4, b"xxxx")
    with pytest.raises(StaleIndexError, match=r"b.lmdb/data.mdb"):
        ParallelReader(two, batch_size=1)
    (two[1] / "data.mdb.index").unlink()
    caplog.set_level(logging.WARNING, logger="lmdbio.reader")
    with pytest.raises(ValueError, match=r"verify: .* found none in .*lmdbio-index --checksum .*b.lmdb"):
        ParallelReader(two, batch_size=1, verify="checksum")
    assert "b.lmdb" in caplog.text
    with pytest.raises(MissingIndexError, match="nowhere"):
        Dataset(two, index=[two[0] / "data.mdb.index", two[1] / "nowhere"])


def test_collective_reads_are_of_one_database(two: list[Path]) -> None:
    pytest.importorskip("mpi4py")
    with pytest.raises(ValueError, match="io: expected one database for 'collective', found 2"):
        ParallelReader(two, batch_size=1, io="collective")


def test_files_are_closed_where_one_cannot_be_opened(two: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(os.listdir("/proc/self/fd"))
    opened = []

    def fail_at_the_second(path: str, **_: Any) -> fetch.RecordFile:
        if opened:
            raise ReadError(path, 0, 0, "cannot open")
        opened.append(fetch.RecordFile(path))
        return opened[0]

    monkeypatch.setattr("lmdbio.reader.opening.open_records", fail_at_the_second)
    with pytest.raises(ReadError, match="cannot open"):
        Dataset(two)
    opened.clear()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_hundred_shards_are_read_as_one(tmp_path: Path) -> None:
    for number in range(100):
        records = [(b"%04d" % i, b"%d-%d" % (number, i)) for i in range(number % 4)]
        write_database(tmp_path / f"s{number}.mdb", records)
        build_index(tmp_path / f"s{number}.mdb").save(tmp_path / f"s{number}.mdb.index")
    wanted = [b"%d-%d" % (number, i) for number in range(100) for i in range(number % 4)]
    for order in ORDERS:
        with ParallelReader(tmp_path, batch_size=32, order=order) as reader:
            read = {
                number: bytes(value)
                for batch in reader
                for number, value in zip(batch.indices.tolist(), batch.values, strict=True)
            }
        assert [read[number] for number in range(len(wanted))] == wanted


def test_databases_without_records_are_read_and_nothing_can_be_asked_for(tmp_path: Path, paths: list[Path]) -> None:
    for name in "ab":
        make_datum_database(tmp_path / f"{name}.lmdb", [])
    empty = [tmp_path / "a.lmdb", tmp_path / "b.lmdb"]
    for order in ORDERS:
        with ParallelReader(empty, batch_size=3, order=order) as reader:
            assert list(reader) == []
    assert list(Dataset(empty)) == Dataset(empty).fetch([]) == Dataset(paths).fetch([]) == []


def test_iterating_gives_all_records_and_hides_no_error(two: list[Path]) -> None:
    assert [bytes(record.value) for record in Dataset(two)] == [v for path in two for v in stock_values(path)]
    data = Dataset(two)
    data.close()
    with pytest.raises(ValueError, match="found it closed"):
        list(data)


@pytest.mark.parametrize("label", [-2, -9, 2, 1 << 40])
def test_labels_that_no_list_names_are_refused(tmp_path: Path, label: int) -> None:
    make_raw(tmp_path / "a.mdb", 2, labels=[0, 1], names=["cat", "dog"])
    make_raw(tmp_path / "b.mdb", 3, labels=[0, 1, 0], names=["cat", "dog"])
    indexes = [Index.open(tmp_path / f"{name}.mdb") for name in "ab"]

    class Lying(Index):
        @property
        def labels(self) -> np.ndarray:
            return np.array([0, label, -1])

    lying = Lying.from_bytes(indexes[1].to_bytes())
    with pytest.raises(ValueError, match=rf"b.mdb: expected labels from -1 to 1, found {label}"):
        JoinedIndex([indexes[0], lying], ["a.mdb", "b.mdb"])


def test_files_of_other_alignment_are_read_to_their_end(two: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    aligns = iter([1 << 16, 1])
    files = [fetch.RecordFile(path / "data.mdb") for path in two]
    for file, align in zip(files, aligns, strict=True):
        monkeypatch.setattr(file, "__class__", type("File", (fetch.RecordFile,), {"align": align}))
    joined = JoinedFile(files)
    assert joined.align == 1 << 16
    base, size = int(joined.space.bases[1]), files[1].size
    start = size // joined.align * joined.align
    wanted = (two[1] / "data.mdb").read_bytes()[start:]
    for read in (joined.read_into, joined.read_cached):
        buffer = bytearray(joined.align)
        assert read(base + start, memoryview(buffer)) in (None, len(buffer))
        assert bytes(buffer[: len(wanted)]) == wanted
    with pytest.raises(ReadError, match="is it cut short") as caught:
        joined.read_into(base + start, memoryview(bytearray(2 * joined.align)))
    assert caught.value.offset == base + start


def test_an_error_of_no_record_has_the_files_own_offset(two: list[Path]) -> None:
    joined = JoinedFile([fetch.RecordFile(path / "data.mdb") for path in two])
    offset = int(joined.space.bases[1]) + joined.files[1].size
    with pytest.raises(ReadError) as caught:
        joined.read_into(offset, memoryview(bytearray(100)))
    none = np.zeros(0, np.int64)
    named = fetch.find_unreadable(joined, caught.value, none, none, lambda place: b"")
    assert (named.path, named.offset) == (str(two[1] / "data.mdb"), joined.files[1].size)
