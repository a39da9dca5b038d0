"""Any record by number or key, many together, in every process: pickled, forked, threaded."""

import gc
import multiprocessing
import os
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.errors import ReadError, StaleIndexError
from lmdbio.layout.writer import write_database
from lmdbio.reader import Dataset, ReadOptions
from lmdbio.reader.fetch import RecordFile
from tests.reader.made import make_datum_database, stock_values

SIZES = [0, 1, 100, 3000, 5000, 20_000, 150_000, 7] * 12
N = len(SIZES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dataset") / "a.lmdb"
    make_datum_database(folder, SIZES)
    return folder


@pytest.fixture(scope="module")
def values(folder: Path) -> list[bytes]:
    return stock_values(folder)


def key(number: int) -> bytes:
    return b"%08d_x.JPEG" % number


def test_a_record_is_the_same_by_number_by_key_and_in_stock_lmdb(folder: Path, values: list[bytes]) -> None:
    with Dataset(folder) as data:
        assert len(data) == N
        for number in range(N):
            record = data[number]
            assert (record.key, bytes(record.value), record.label) == (key(number), values[number], number % 7)
            assert len(record.data) == SIZES[number]
            assert bytes(record.data) in values[number]
            assert data[key(number)] == record == data[np.int64(number)] == data[number - N]


def test_iterating_gives_every_record_by_number(folder: Path, values: list[bytes]) -> None:
    with Dataset(folder) as data:
        assert [bytes(record.value) for record in data] == values


@given(st.lists(st.integers(-N, N - 1), max_size=40), st.sampled_from([0, 64 << 10]), st.sampled_from([4096, 1 << 20]))
def test_many_records_come_in_the_order_asked(
    folder: Path, values: list[bytes], numbers: list[int], gap: int, read_size: int
) -> None:
    with Dataset(folder, options=ReadOptions(gap=gap, read_size=read_size)) as data:
        asked = [number if place % 2 else key(number % N) for place, number in enumerate(numbers)]
        records = data.fetch(asked)
        assert [bytes(record.value) for record in records] == [values[number] for number in numbers]
        assert [record.key for record in records] == [key(number % N) for number in numbers]


def test_what_waits_is_read_by_threads_and_is_the_same(
    folder: Path, values: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RecordFile, "read_cached", lambda self, offset, buffer: 0)
    with Dataset(folder, options=ReadOptions(gap=0, read_size=4096, depth=3)) as data:
        assert [bytes(record.value) for record in data.fetch(range(N))] == values
        assert data._opened._executor is not None
    assert not any("lmdbio" in thread.name for thread in threading.enumerate())


def test_records_read_together_are_read_with_few_reads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    whole = RecordFile.read_into
    monkeypatch.setattr(RecordFile, "read_cached", lambda self, offset, buffer: 0)
    monkeypatch.setattr(RecordFile, "read_into", lambda *args: reads.append(1) or whole(*args))
    with Dataset(folder) as data:
        reads.clear()
        data.fetch(range(24, 0, -1))
    assert len(reads) == 1


@pytest.mark.parametrize("missing", [b"", b"none", key(N), b"x" * 600])
def test_a_missing_key_is_a_key_error_at_once(folder: Path, missing: bytes) -> None:
    with Dataset(folder) as data, pytest.raises(KeyError) as caught:
        data.fetch([0, missing])
    (told,) = caught.value.args
    assert str(folder / "data.mdb") in told
    assert f"such as {key(0)!r}, or its number as an int, found no key {missing!r}" in told


def test_options_of_another_type_are_named(folder: Path) -> None:
    with pytest.raises(TypeError, match="options: expected ReadOptions, found dict"):
        Dataset(folder, options={"direct": True})


@pytest.mark.parametrize("number", [N, -N - 1, 1 << 70])
def test_a_number_out_of_range_is_an_index_error(folder: Path, number: int) -> None:
    with Dataset(folder) as data, pytest.raises(IndexError, match=f"expected a number of at least -{N} and below {N}"):
        data[number]


@pytest.mark.parametrize("wrong", ["00000000_x.JPEG", 1.0, None])
def test_what_is_neither_number_nor_key_is_a_type_error(folder: Path, wrong: object) -> None:
    with Dataset(folder) as data, pytest.raises(TypeError):
        data[wrong]


def test_records_stay_good_after_later_fetches_and_closing(folder: Path, values: list[bytes]) -> None:
    data = Dataset(folder)
    held = data[6].data
    for number in range(N):
        data[number]
    data.close()
    gc.collect()
    assert bytes(held) in values[6]
    assert held.readonly
    with pytest.raises(ValueError, match="found it closed"):
        data[0]
    data.close()


def test_a_file_cut_short_names_the_record(tmp_path: Path) -> None:
    make_datum_database(tmp_path / "a.lmdb", SIZES)
    with Dataset(tmp_path / "a.lmdb") as data:
        offset, length = (int(part[0]) for part in data.index.extents(np.array([N - 2])))
        os.truncate(tmp_path / "a.lmdb" / "data.mdb", offset + length - 1)
        with pytest.raises(ReadError, match=rf"key b'{key(N - 2).decode()}', expected {length} bytes") as caught:
            data.fetch(range(N))
        assert (caught.value.offset, caught.value.length) == (offset, length)
        assert bytes(data[0].key) == key(0)


def _read_all(data: Dataset) -> list[bytes]:
    return [bytes(record.value) for record in data.fetch(range(len(data)))]


@pytest.mark.parametrize("has_sidecar", [True, False])
def test_a_data_set_pickles_by_path(folder: Path, values: list[bytes], place: Path, has_sidecar: bool) -> None:
    with Dataset(folder if has_sidecar else place) as data:
        pickled = pickle.dumps(data)
        assert (len(pickled) < 1000) == has_sidecar
        again = pickle.loads(pickled)
        assert _read_all(again) == values
        again.close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # 3.12: just what is tested here
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_read_through_a_data_set_opened_before(folder: Path, values: list[bytes], method: str) -> None:
    with Dataset(folder) as data:
        data.fetch(range(N))
        with multiprocessing.get_context(method).Pool(2) as workers:
            assert workers.map(_read_all, [data] * 4) == [values] * 4


def _replace(place: Path, folder: Path) -> None:
    """Let another database of equal shape stand in a database's place, with its own sidecar."""
    changed = bytearray((folder / "data.mdb").read_bytes())
    changed[4096 - 4 : 4096] = b"xxxx"  # within the digest: what tells databases of one shape apart
    (place / "new").write_bytes(changed)
    (place / "new").rename(place / "data.mdb")


@pytest.fixture
def place(folder: Path, tmp_path: Path) -> Path:
    """A copy of the database without its sidecar."""
    place = tmp_path / "b.lmdb"
    place.mkdir()
    (place / "data.mdb").write_bytes((folder / "data.mdb").read_bytes())
    return place


def test_a_data_set_is_not_unpickled_over_another_file_than_was_indexed(folder: Path, place: Path) -> None:
    with Dataset(place) as data:
        pickled = pickle.dumps(data)
    _replace(place, folder)
    with pytest.raises(StaleIndexError, match="expected the data file that was indexed, found one with another metas"):
        pickle.loads(pickled)


def _read_state(index: int) -> str:
    try:
        return str(len(_read_all(_INHERITED[index])))
    except StaleIndexError as exc:
        return str(exc)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # 3.12: just what is tested here
def test_a_forked_child_does_not_read_another_file_than_was_indexed(
    folder: Path, values: list[bytes], place: Path
) -> None:
    with Dataset(place) as data:
        _replace(place, folder)
        _INHERITED[:] = [data]
        with multiprocessing.get_context("fork").Pool(1) as workers:
            assert "expected the data file that was indexed" in workers.apply(_read_state, (0,))
        _INHERITED.clear()
        assert _read_all(data) == values  # this process holds the file that it opened


def test_closing_lets_fetches_of_other_threads_finish_and_refuses_later_ones(
    folder: Path, values: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = RecordFile.read_into
    is_reading, may_go_on = threading.Event(), threading.Event()

    def read_into(self: RecordFile, offset: int, buffer: memoryview) -> None:
        is_reading.set()
        may_go_on.wait(10)
        whole(self, offset, buffer)

    monkeypatch.setattr(RecordFile, "read_cached", lambda self, offset, buffer: 0)
    monkeypatch.setattr(RecordFile, "read_into", read_into)
    (tmp_path / "junk").write_bytes(b"J" * (4 << 20))
    for asked in ([5], range(N)):
        may_go_on.set()
        data = Dataset(folder, options=ReadOptions(gap=0, read_size=4096))
        file = data._opened.file
        is_reading.clear()
        may_go_on.clear()
        got: list[object] = []

        def fetch(data: Dataset = data, asked: object = asked, got: list[object] = got) -> None:
            got.append([bytes(record.value) for record in data.fetch(asked)])

        fetcher = threading.Thread(target=fetch)
        fetcher.start()
        assert is_reading.wait(10)
        data.close()
        others = [(tmp_path / "junk").open("rb") for _ in range(3)]  # would get the file's number if it were closed
        with pytest.raises(ValueError, match="found it closed"):
            data.fetch(asked)
        may_go_on.set()
        fetcher.join(10)
        for other in others:
            other.close()
        assert got == [[values[number] for number in asked]]
        assert file._fd == -1
    assert not any("lmdbio" in thread.name for thread in threading.enumerate())


def _read_inherited(index: int) -> tuple[bool, list[bytes]]:
    before = _INHERITED[0]._opened
    records = _read_all(_INHERITED[0])
    return _INHERITED[0]._opened is not before, records


_INHERITED: list[Dataset] = []


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # 3.12: just what is tested here
def test_a_forked_child_opens_the_file_for_itself_even_if_a_lock_was_held(
    folder: Path, values: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RecordFile, "read_cached", lambda self, offset, buffer: 0)
    with Dataset(folder, options=ReadOptions(gap=0, read_size=4096)) as data:
        data.fetch(range(N))
        _INHERITED[:] = [data]
        with data._opened._lock, multiprocessing.get_context("fork").Pool(1) as workers:
            assert workers.apply(_read_inherited, (0,)) == (True, values)
        _INHERITED.clear()


def test_threads_share_a_data_set(folder: Path, values: list[bytes]) -> None:
    wrong: list[int] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(20):
            numbers = rng.integers(0, N, 10).tolist()
            got = [bytes(record.value) for record in data.fetch(numbers)]
            if got != [values[number] for number in numbers]:
                wrong.append(seed)

    with Dataset(folder) as data:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_descriptors_do_not_pile_up(folder: Path) -> None:
    def n_open() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = n_open()
    for _ in range(200):
        Dataset(folder)[0]
    gc.collect()
    assert n_open() == before


def test_an_empty_database_has_no_records(tmp_path: Path) -> None:
    make_datum_database(tmp_path / "a.lmdb", [])
    with Dataset(tmp_path / "a.lmdb") as data:
        assert (len(data), data.fetch([]), list(data)) == (0, [], [])
        with pytest.raises(IndexError):
            data[0]


@pytest.mark.parametrize("has_sidecar", [True, False])
def test_an_empty_data_set_pickles(tmp_path: Path, has_sidecar: bool) -> None:
    make_datum_database(tmp_path / "a.lmdb", [])
    if not has_sidecar:
        (tmp_path / "a.lmdb" / "data.mdb.index").unlink()
    with Dataset(tmp_path / "a.lmdb") as data, pickle.loads(pickle.dumps(data)) as again:
        assert (len(again), list(again)) == (0, [])


def test_in_tells_numbers_and_keys_without_reading(tmp_path: Path) -> None:
    write_database(tmp_path / "data.mdb", [(b"a", b"1"), (b"b", b"2")])
    with Dataset(tmp_path) as dataset:
        assert b"a" in dataset and 1 in dataset and -2 in dataset
        assert b"c" not in dataset and 2 not in dataset and "a" not in dataset


def test_a_record_asked_for_by_anything_else_is_a_type_error_that_says_what_is_wanted(tmp_path: Path) -> None:
    write_database(tmp_path / "data.mdb", [(b"a", b"1")])
    with Dataset(tmp_path) as dataset, pytest.raises(TypeError, match="a key in bytes, found 'a' of type str"):
        dataset["a"]  # type: ignore[index]
