import os
from pathlib import Path

import pytest

from lmdbio.reader import page_cache


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of 2 MiB, written and read."""
    path = tmp_path / "file"
    path.write_bytes(os.urandom(2 << 20))
    return path


def test_a_file_just_written_is_all_in_memory(file: Path) -> None:
    assert page_cache.cached_share(file) == 1.0


def test_an_emptied_file_is_not_where_the_file_system_can_forget(file: Path) -> None:
    if not page_cache.can_empty(file):
        pytest.skip("a file system that keeps files in memory")
    page_cache.empty(file)
    assert page_cache.cached_share(file) == 0.0
    with file.open("rb", buffering=0) as reader:
        os.posix_fadvise(reader.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(reader.fileno(), 1 << 20, 0)
    assert page_cache.cached_share(file) == pytest.approx(0.5, abs=0.1)


def test_a_file_system_in_memory_cannot_forget() -> None:
    place = Path("/dev/shm")
    if not os.access(place, os.W_OK):
        pytest.skip("no file system in memory")
    path = place / f"lmdbio-test-{os.getpid()}"
    path.write_bytes(bytes(1 << 16))
    try:
        assert not page_cache.can_empty(path)
    finally:
        path.unlink()


def test_of_a_large_file_its_head_and_places_are_looked_at(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "_HEAD", 1 << 19)
    monkeypatch.setattr(page_cache, "_WINDOW", 1 << 14)
    assert page_cache.cached_share(file) == 1.0


def test_what_the_system_does_not_tell_of_others_files_is_found_by_reads_that_do_not_wait(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_cache, "_is_told", lambda fd, path: False)
    if page_cache.cached_share(file) is None:
        pytest.skip("a file system without such reads")
    assert page_cache.cached_share(file) == 1.0
    monkeypatch.undo()
    if page_cache.can_empty(file):
        page_cache.empty(file)
        monkeypatch.setattr(page_cache, "_is_told", lambda fd, path: False)
        share = page_cache.cached_share(file)
        assert share is not None
        assert share <= page_cache.COLD_SHARE
