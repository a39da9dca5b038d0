"""A batch shows records of one buffer: as views, as one array, copied; what is held stays good."""

from pathlib import Path

import numpy as np
import pytest

from lmdbio.layout import Index
from lmdbio.layout.pool import BufferPool
from lmdbio.reader import Batch
from tests.reader.made import make_datum_database, stock_values


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("batch") / "a.lmdb"
    make_datum_database(folder, [3000, 3000, 3000, 5, 3000, 0])
    return folder


@pytest.fixture
def index(folder: Path) -> Index:
    return Index.open(folder)


def make_batch(index: Index, folder: Path, numbers: list[int], *, pool: BufferPool | None = None) -> Batch:
    indices = np.array(numbers, np.int64)
    offsets, lengths = index.extents(indices)
    content = np.frombuffer((folder / "data.mdb").read_bytes(), np.uint8)
    buffer = (pool or BufferPool(keep=0)).take(len(content))
    buffer[:] = content
    return Batch(index, indices, buffer, offsets.astype(np.int64), lengths)


def test_values_data_keys_and_labels_are_the_records(folder: Path, index: Index) -> None:
    batch = make_batch(index, folder, [3, 0, 5])
    values = stock_values(folder)
    assert [bytes(value) for value in batch.values] == [values[3], values[0], values[5]]
    sizes = [5, 3000, 0]
    assert [bytes(view) for view in batch.data] == [
        values[number][start : start + size]
        for number, size, start in zip([3, 0, 5], sizes, index.payloads(batch.indices)[0].tolist(), strict=True)
    ]
    assert batch.keys == [b"00000003_x.JPEG", b"00000000_x.JPEG", b"00000005_x.JPEG"]
    assert (batch.labels.tolist(), batch.labels.dtype) == ([3, 0, 5], np.int64)
    assert (len(batch), batch.indices.dtype) == (3, np.int64)
    assert repr(batch) == f"Batch(n_records=3, n_bytes={sum(len(values[number]) for number in [3, 0, 5])})"


def test_data_of_equal_lengths_is_one_array_without_a_copy_where_equally_spaced(folder: Path, index: Index) -> None:
    spaced = make_batch(index, folder, [0, 1, 2])
    assert spaced.array.shape == (3, 3000)
    assert [row.tobytes() for row in spaced.array] == [bytes(view) for view in spaced.data]
    assert np.shares_memory(spaced.array, spaced.buffer)
    for numbers in ([0, 2, 4, 1], [2, 1, 0], [1, 1]):
        batch = make_batch(index, folder, numbers)
        assert [row.tobytes() for row in batch.array] == [bytes(view) for view in batch.data]
    assert make_batch(index, folder, [4]).array.shape == (1, 3000)
    assert make_batch(index, folder, []).array.shape == (0, 0)
    assert make_batch(index, folder, [5]).array.shape == (1, 0)


def test_data_of_unequal_lengths_is_no_array(folder: Path, index: Index) -> None:
    with pytest.raises(ValueError, match="array: expected data of equal lengths, found 5 to 3000 bytes"):
        _ = make_batch(index, folder, [0, 3]).array


def test_a_copy_is_packed_and_its_own(folder: Path, index: Index) -> None:
    batch = make_batch(index, folder, [4, 3, 5, 0])
    copy = batch.copy()
    assert [bytes(view) for view in copy.data] == [bytes(view) for view in batch.data]
    assert copy.buffer.nbytes == copy.lengths.sum()
    batch.buffer[:] = 0
    batch.release()
    assert bytes(copy.values[0]) == stock_values(folder)[4]
    assert copy.labels.tolist() == [4, 3, 5, 0]


def test_a_released_batch_says_so_and_views_taken_before_stay_good(folder: Path, index: Index) -> None:
    pool = BufferPool(keep=1 << 24)
    batch = make_batch(index, folder, [0, 1], pool=pool)
    view = batch.data[1]
    expected = bytes(view)
    batch.release()
    batch.release()
    for name in ("values", "data", "array", "buffer"):
        with pytest.raises(ValueError, match="found it released"):
            getattr(batch, name)
    assert (batch.keys[0], repr(batch)) == (b"00000000_x.JPEG", "Batch(n_records=2, released)")
    pool.take(1 << 16)[:] = 0
    assert bytes(view) == expected
    assert pool.free_size == 1 << 16
    del view
    assert pool.free_size > 1 << 16


def test_leaving_a_with_block_releases(folder: Path, index: Index) -> None:
    with make_batch(index, folder, [0]) as batch:
        assert len(batch.data[0]) == 3000
    with pytest.raises(ValueError, match="found it released"):
        _ = batch.data
