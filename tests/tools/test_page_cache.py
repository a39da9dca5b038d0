from pathlib import Path

import pytest

from tools import page_cache


def test_a_filled_file_is_cached_and_a_dropped_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(4 << 20))
    page_cache.fill(path)
    assert page_cache.cached_share(path) > 0.9
    if not page_cache.drop(path):
        pytest.skip("this file system keeps its files in memory")
    assert page_cache.cached_share(path) < 0.1
    page_cache.fill(path)
    assert page_cache.cached_share(path) > 0.9


def test_dropping_changes_no_byte(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc" * 10_000)
    page_cache.drop(path)
    assert path.read_bytes() == b"abc" * 10_000
