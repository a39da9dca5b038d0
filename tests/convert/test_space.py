from pathlib import Path

import pytest

from lmdbio.convert import space
from lmdbio.convert.space import check_space, existing_parent, free_space
from lmdbio.errors import TargetError


def test_space_is_added_up_for_databases_on_one_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space, "free_space", lambda path: 1000)
    check_space([(str(tmp_path / "a"), 600), (str(tmp_path / "b"), 400)])
    with pytest.raises(TargetError, match="b: expected 1001 bytes free for what is to be written, found 1000"):
        check_space([(str(tmp_path / "a"), 600), (str(tmp_path / "b"), 401)])


def test_free_space_is_that_of_the_nearest_directory(tmp_path: Path) -> None:
    assert existing_parent(str(tmp_path / "a/b/c")) == str(tmp_path)
    assert free_space(str(tmp_path / "a/b/c")) > 0
