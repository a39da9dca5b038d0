"""Small sources, a small database, and the commands to run on them."""

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.cli.commands import Done, MakeFolder, Run, Server, start

_JPEG = b"\xff\xd8\xff\xe0"
_TEN = {f"{word}/{number}.jpg": 2000 + number for word in ("cat", "dog") for number in range(5)}


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """What runs commands without their start-up."""
    server = Server()
    yield server
    server.close()


@pytest.fixture
def run(server: Server, tmp_path: Path) -> Run:
    """Run a command; a whole new process where its start matters: the locale, permissions."""
    place = tmp_path / "cwd"
    place.mkdir()

    def call(
        program: str, *args: str | bytes | Path, obey_modes: bool = False, setup: str = "", **environment: str
    ) -> Done:
        command = [program, *map(os.fsdecode, args)]
        if obey_modes or "LC_ALL" in environment:
            return start(place, command, obey_modes=obey_modes, environment=environment)
        return server.run(place, command, setup=setup, environment=environment)

    return call


@pytest.fixture
def make_folder(tmp_path: Path) -> MakeFolder:
    """Make a directory of class folders."""

    def make(files: Mapping[str, int] | Mapping[bytes, int] | None = None, name: str = "source") -> Path:
        return _make(tmp_path / name, _TEN if files is None else files)

    return make


def _make(root: Path, files: Mapping[str, int] | Mapping[bytes, int]) -> Path:
    root.mkdir()
    for path, size in files.items():
        full = os.path.join(os.fsencode(root), os.fsencode(path))
        os.makedirs(os.path.dirname(full), exist_ok=True)
        content = (_JPEG + os.fsencode(path) * (size // len(path) + 1))[:size]
        with open(full, "wb") as file:
            file.write(content)
    return root


@pytest.fixture(scope="session")
def made(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a source of ten images in two classes, and the database made of it."""
    place = tmp_path_factory.mktemp("made")
    _make(place / "source", _TEN)
    server.run(place, ["lmdbio-convert", "folder", "source", "made.lmdb"], setup="", environment={}).ok()
    return place


@pytest.fixture
def database(made: Path, tmp_path: Path) -> Path:
    """A copy of that database, with its source beside it."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path / "made.lmdb"
