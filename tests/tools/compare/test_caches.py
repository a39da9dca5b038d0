from pathlib import Path

import pytest

from tools import page_cache
from tools.compare import caches


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Some files, as somebody has them who is not root."""
    monkeypatch.setattr(caches, "can_drop_all", lambda: False)
    monkeypatch.setattr(caches.os, "sync", lambda: None)
    (tmp_path / "inner").mkdir()
    for name in ("a", "inner/b", "inner/empty"):
        (tmp_path / name).write_bytes(b"x" * (0 if name.endswith("empty") else 100_000))
    if not page_cache.drop(tmp_path / "a"):
        pytest.skip("this file system is memory")
    return tmp_path


def test_files_are_made_cold_and_warm_without_being_root(folder: Path) -> None:
    caches.prepare("warm", [folder, folder])
    assert page_cache.cached_share(folder / "inner" / "b") == 1
    caches.prepare("cold", [folder, folder])
    assert page_cache.cached_share(folder / "a") == page_cache.cached_share(folder / "inner" / "b") == 0


def test_files_that_stay_in_memory_are_no_cold_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    caches.prepare("warm", [folder])
    monkeypatch.setattr(page_cache, "drop", lambda path: False)
    with pytest.raises(caches.NotCold, match=r"expected the system to forget the file, found 100% of it in memory"):
        caches.prepare("cold", [folder])


def test_a_file_that_was_removed_since_is_passed_over(folder: Path) -> None:
    caches.prepare("cold", [folder])
    (folder / "a").unlink()
    caches.prepare("cold", [folder])
    caches.prepare("warm", [folder])


def test_memory_is_used_by_a_process_of_its_own() -> None:
    caches.use_memory(1 << 20)
    assert caches.free_memory() > 1 << 20
