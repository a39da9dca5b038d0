"""A check of a whole database: sound ones pass, and each kind of damage is found and named."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lmdbio.errors import CorruptDatabaseError, FormatError, LmdbioError, MissingIndexError, StaleIndexError
from lmdbio.layout.file import DataFile
from lmdbio.layout.fingerprint import take_fingerprint
from lmdbio.layout.index import Index
from lmdbio.layout.meta import read_meta
from lmdbio.layout.page import DB_INTEGERKEY, DB_RECORD, DB_REVERSEKEY, META
from lmdbio.layout.tree import TreeRecords, walk
from lmdbio.reader import verify
from lmdbio.reader.verify import READ_SIZE, CrossCheck, cross_check, plan_runs

Records = Sequence[tuple[bytes, bytes]]
PAGE_SIZE = os.sysconf("SC_PAGESIZE")  # stock LMDB's, for a new database
MAIN_FLAGS_AT = META.fields["main"][1] + DB_RECORD.fields["flags"][1]


def _make(folder: Path, records: Records, **open_options: Any) -> Path:
    folder.mkdir(exist_ok=True)
    with lmdb.open(str(folder), map_size=1 << 30, **open_options) as environment, environment.begin(write=True) as txn:
        for key, value in records:
            txn.put(key, value)
    return folder


def _index(folder: Path, change: Callable[[dict[str, Any]], None] | None = None, *, checksum: bool = True) -> Index:
    """Write the sidecar of a database, after a change to what it says."""
    data = folder / "data.mdb"
    with DataFile(data) as file:
        meta = read_meta(file)
        tree = walk(file, meta)
        fields: dict[str, Any] = {
            "fingerprint": take_fingerprint(file, meta),
            "page_size": meta.page_size,
            "keys": tree.keys,
            "key_order": "bytes",
            "offsets": tree.offsets,
            "lengths": tree.lengths,
            "layout_order": tree.layout_order(),
            "checksums": _checksums(file, tree) if checksum else None,
        }
    if change is not None:
        change(fields)
    index = Index.make(**fields)
    index.save(data.with_name("data.mdb.index"))
    return index


def _checksums(file: DataFile, tree: TreeRecords) -> NDArray[np.uint64]:
    values = [file.read(int(o), int(n)) for o, n in zip(tree.offsets, tree.lengths, strict=True)]
    return np.array([xxhash.xxh3_64_intdigest(value) for value in values], np.uint64)


def _some(sizes: Iterable[int]) -> list[tuple[bytes, bytes]]:
    source = np.random.default_rng(0)
    return [(b"%08d" % number, source.bytes(size)) for number, size in enumerate(sizes)]


def _damage(folder: Path, number: int, records: Records, *, at: int = 0) -> None:
    """Flip one bit of a value in the data file."""
    data = folder / "data.mdb"
    content = bytearray(data.read_bytes())
    position = content.index(records[number][1]) + at
    content[position] ^= 1
    data.write_bytes(content)


@given(
    st.lists(
        st.tuples(st.binary(min_size=1, max_size=511), st.integers(0, 9000)), max_size=60, unique_by=lambda t: t[0]
    )
)
def test_a_sound_database_has_no_findings(
    tmp_path_factory: pytest.TempPathFactory, shape: list[tuple[bytes, int]]
) -> None:
    folder = _make(tmp_path_factory.mktemp("db"), [(key, b"%d" % size + bytes(size)) for key, size in shape])
    _index(folder)
    n_bytes = sum(size + len(b"%d" % size) for _, size in shape)
    assert cross_check(folder) == CrossCheck(len(shape), n_bytes, True, 0, ())


def test_keys_and_values_of_every_place_in_a_page_are_compared_without_checksums_too(tmp_path: Path) -> None:
    folder = _make(tmp_path / "db", _some([0, 1, 100, 2000, 2030, 2031, 4080, 4081, 300_000] * 20))
    _index(folder, checksum=False)
    found = cross_check(folder)
    assert (found.n_records, found.has_checksums, found.n_findings) == (180, False, 0)


@pytest.mark.parametrize("size", [10, 3000, 110_000])
@pytest.mark.parametrize("stock", [True, False])
def test_a_flipped_bit_is_found_by_its_checksum(tmp_path: Path, size: int, stock: bool) -> None:
    records = _some([size] * 40)
    folder = _make(tmp_path / "db", records)
    index = _index(folder)
    _damage(folder, 17, records, at=size - 1)
    _forget_the_fingerprint(folder, index)
    found = cross_check(folder, stock=stock)
    assert [(f.difference, f.number, f.key) for f in found.findings] == [("checksum", 17, b"00000017")]
    assert found.findings[0].detail.startswith(f"expected {xxhash.xxh3_64_hexdigest(records[17][1])}, found ")


def _forget_the_fingerprint(folder: Path, index: Index) -> None:
    """Make the sidecar fit the file again, all else left as it was."""
    assert index.checksums is not None
    kept = index.checksums
    _index(folder, lambda fields: fields.update(checksums=kept))


def test_an_extent_that_is_not_the_trees_is_found_and_not_followed(tmp_path: Path) -> None:
    folder = _make(tmp_path / "db", _some([3000] * 10))

    def move(fields: dict[str, Any]) -> None:
        fields["offsets"] = fields["offsets"].copy()
        fields["offsets"][4] += np.uint64(1)

    _index(folder, move)
    found = cross_check(folder)
    assert [(f.difference, f.number) for f in found.findings] == [("extent", 4)]


def test_a_key_that_is_not_the_databases_is_found(tmp_path: Path) -> None:
    folder = _make(tmp_path / "db", [(b"a", b"1"), (b"b", b"2"), (b"d", b"4")])
    other = _make(tmp_path / "other", [(b"a", b"1"), (b"c", b"2"), (b"d", b"4")])
    with DataFile(other / "data.mdb") as file:
        keys = walk(file, read_meta(file)).keys
    _index(folder, lambda fields: fields.update(keys=keys))
    for stock in (True, False):
        found = cross_check(folder, stock=stock)
        assert [(f.difference, f.number, f.key) for f in found.findings] == [("key", 1, b"c")]
        assert found.findings[0].detail == "expected key b'b' as in the tree"


def test_findings_are_counted_beyond_those_that_are_kept(tmp_path: Path) -> None:
    folder = _make(tmp_path / "db", _some([50] * 30))
    _index(folder, lambda fields: fields.update(checksums=np.zeros(30, np.uint64)))
    found = cross_check(folder, max_findings=4)
    assert found.n_findings == 30
    assert [f.number for f in found.findings] == [0, 1, 2, 3]


def test_a_long_value_is_compared_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "READ_SIZE", 64 << 10)
    records = _some([10, 1_000_000, 20, 128 << 10, (128 << 10) + 1])
    folder = _make(tmp_path / "db", records)
    _index(folder)
    assert cross_check(folder).n_findings == 0
    index = Index.open(folder)
    _damage(folder, 1, records, at=999_999)
    _forget_the_fingerprint(folder, index)
    assert [(f.difference, f.number) for f in cross_check(folder).findings] == [("checksum", 1)]


@pytest.mark.parametrize(("flag", "order"), [(DB_INTEGERKEY, "integer"), (DB_REVERSEKEY, "reverse")])
def test_integer_and_reverse_keys_are_found_by_stock_lmdb(tmp_path: Path, flag: int, order: str) -> None:
    # Keys that differ in their last byte alone are in one order by bytes, from behind, and as little-endian numbers.
    folder = _make(tmp_path / "db", [(bytes(7) + bytes([number]), b"value %d" % number) for number in range(200)])
    data = folder / "data.mdb"
    content = bytearray(data.read_bytes())
    for slot in range(2):
        content[slot * PAGE_SIZE + MAIN_FLAGS_AT] = flag
    data.write_bytes(content)
    _index(folder, lambda fields: fields.update(key_order=order))
    assert cross_check(folder).n_findings == 0


@pytest.mark.parametrize("keep", [0.99, 0.7, 0.3, 0.05, 0.0])
def test_a_file_cut_short_raises_and_the_process_lives(tmp_path: Path, keep: float) -> None:
    folder = _make(tmp_path / "db", _some([20_000] * 50))
    _index(folder)
    data = folder / "data.mdb"
    os.truncate(data, int(data.stat().st_size * keep))
    with pytest.raises((StaleIndexError, FormatError)):
        cross_check(folder)


def test_a_file_cut_short_is_refused_even_where_the_index_fits_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _make(tmp_path / "db", _some([20_000] * 50))
    index = _index(folder)
    data = folder / "data.mdb"
    os.truncate(data, data.stat().st_size - PAGE_SIZE)
    monkeypatch.setattr(Index, "open", lambda *args, **kwargs: index)
    monkeypatch.setattr(verify, "_open_stock", lambda path: pytest.fail("stock LMDB came near it"))
    with pytest.raises(CorruptDatabaseError):
        cross_check(folder)


@pytest.mark.parametrize("sizes", [[20_000] * 10, [1_000_000, 20_000]])
def test_once_a_file_is_cut_short_stock_lmdb_is_not_asked_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: list[int]
) -> None:
    monkeypatch.setattr(verify, "READ_SIZE", 64 << 10)
    folder = _make(tmp_path / "db", _some(sizes))
    index = _index(folder)
    data = folder / "data.mdb"
    offsets, lengths = index.offsets.astype(np.int64), index.lengths
    run = plan_runs(offsets, lengths, np.arange(len(sizes)))[0]
    with DataFile(data) as file:
        size = file.size
        os.truncate(data, size - PAGE_SIZE)  # behind the run: what is left of it can be read
        job = verify._Job(file, index, offsets, lengths, None, object())  # no method that could be called
        (finding,) = verify._check_run(job, run)
    assert (finding.difference, finding.number) == ("unreadable", 0)
    assert finding.detail == f"found the file cut short from {size} to {size - PAGE_SIZE} bytes meanwhile"


def test_a_database_that_is_open_with_stock_lmdb_here_is_not_called_corrupt(tmp_path: Path) -> None:
    folder = _make(tmp_path / "db", _some([100] * 3))
    _index(folder)
    with lmdb.open(str(folder), readonly=True, lock=False):
        with pytest.raises(
            LmdbioError, match="found it open in this process already: close that environment"
        ) as caught:
            cross_check(folder)
        assert not isinstance(caught.value, FormatError)
        assert cross_check(folder, stock=False).n_findings == 0
    assert cross_check(folder).n_findings == 0


def test_without_an_index_there_is_nothing_to_check(tmp_path: Path) -> None:
    with pytest.raises(MissingIndexError, match="lmdbio-index"):
        cross_check(_make(tmp_path / "db", _some([1])))


def test_progress_tells_of_every_record_and_byte(tmp_path: Path) -> None:
    records = _some([30_000] * 20 + [10] * 100)
    folder = _make(tmp_path / "db", records)
    _index(folder)
    told: list[tuple[int, int]] = []
    planned: list[int] = []
    cross_check(folder, planned=planned.append, progress=lambda n, size: told.append((n, size)))
    assert planned == [120]
    assert told == sorted(told)
    assert told[-1] == (120, sum(len(value) for _, value in records))


@given(
    st.lists(st.tuples(st.integers(0, 1 << 27), st.integers(0, 1 << 25)), max_size=50),
)
def test_runs_cover_each_record_once_and_stay_near_the_read_size(extents: list[tuple[int, int]]) -> None:
    offsets = np.array([offset for offset, _ in extents], np.int64)
    lengths = np.array([length for _, length in extents], np.int64)
    runs = plan_runs(offsets, lengths, np.arange(len(extents)))
    assert sorted(number for run in runs for number in run.records.tolist()) == list(range(len(extents)))
    for run in runs:
        assert run.start == offsets[run.records].min()
        assert run.stop == (offsets + lengths)[run.records].max()
        assert len(run.records) == 1 or run.stop - run.start <= 2 * READ_SIZE
