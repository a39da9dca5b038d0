import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.errors import ReadError
from lmdbio.layout.file import DataFile
from lmdbio.layout.page_batches import read_pages

PAGE_SIZE = 512
N_PAGES = 5000


class FakeFile(DataFile):
    """A file of pages that hold their own number, which records what is asked of it."""

    def __init__(self, *, size: int = N_PAGES * PAGE_SIZE) -> None:
        self.path, self.size, self.asked = "fake", size, []

    def read_into(self, offset, buffer):
        self.asked.append((offset // PAGE_SIZE, buffer.nbytes // PAGE_SIZE))
        if offset + buffer.nbytes > self.size:
            raise ReadError(self.path, offset, buffer.nbytes, "found the end")
        rows = np.frombuffer(buffer, "<u8").reshape(-1, PAGE_SIZE // 8)
        rows[:] = np.arange(len(rows))[:, None] + offset // PAGE_SIZE


def pages_read(file, pages, *, depth):
    batches = list(read_pages(file, np.array(pages, np.int64), page_size=PAGE_SIZE, depth=depth))
    for numbers, content in batches:
        assert content.shape == (len(numbers), PAGE_SIZE)
        assert (content.view("<u8") == numbers.astype(np.uint64)[:, None]).all()
    return [number for numbers, _ in batches for number in numbers.tolist()]


@given(st.sets(st.integers(0, N_PAGES - 1), max_size=300), st.integers(1, 20))
def test_each_page_comes_once_in_order_and_nothing_else_is_read(pages, depth):
    file = FakeFile()
    assert pages_read(file, sorted(pages), depth=depth) == sorted(pages)
    assert sorted(page for first, n in file.asked for page in range(first, first + n)) == sorted(pages)


def test_adjacent_pages_are_read_at_once():
    file = FakeFile()
    pages_read(file, [3, 4, 5, 9, 11, 12], depth=1)
    assert file.asked == [(3, 3), (9, 1), (11, 2)]


def test_a_batch_is_bounded_and_few_pages_are_shared_out():
    file = FakeFile()
    pages_read(file, range(N_PAGES), depth=1)
    assert max(n for _, n in file.asked) * PAGE_SIZE == 1 << 20
    file = FakeFile()
    pages_read(file, range(0, 16, 2), depth=8)
    assert sorted(file.asked) == [(page, 1) for page in range(0, 16, 2)]


def test_batches_in_flight_are_bounded_by_depth():
    file = FakeFile()
    batches = read_pages(file, np.arange(N_PAGES, dtype=np.int64), page_size=PAGE_SIZE, depth=1)
    next(batches)
    batches.close()
    assert len(file.asked) <= 2


@pytest.mark.parametrize("depth", [1, 8])
def test_a_failed_read_ends_the_whole_with_its_error(depth):
    with pytest.raises(ReadError, match="found the end"):
        pages_read(FakeFile(size=3000 * PAGE_SIZE), range(N_PAGES), depth=depth)


def test_a_real_file_is_read(tmp_path):
    content = os.urandom(10 * PAGE_SIZE)
    (tmp_path / "file").write_bytes(content)
    with DataFile(tmp_path / "file") as file:
        ((numbers, pages),) = read_pages(file, np.array([1, 2, 9]), page_size=PAGE_SIZE, depth=1)
    assert numbers.tolist() == [1, 2, 9]
    assert pages.tobytes() == content[PAGE_SIZE : 3 * PAGE_SIZE] + content[9 * PAGE_SIZE :]
