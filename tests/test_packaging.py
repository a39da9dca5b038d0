"""The package as it is installed: version, entry points, typing marker, and the three links it is made of."""

import os
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import lmdbio

_PACKAGE = Path(lmdbio.__file__).parent
_ROOT = _PACKAGE.parent
_in_a_checkout = pytest.mark.skipif(not (_ROOT / "pyproject.toml").is_file(), reason="installed without its sources")


def test_the_version_is_the_one_that_the_metadata_gives() -> None:
    assert metadata.version("lmdbio") == lmdbio.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", lmdbio.__version__)


def test_the_three_commands_are_installed_and_can_be_loaded() -> None:
    scripts = {point.name: point for point in metadata.distribution("lmdbio").entry_points}
    assert {name: point.value for name, point in scripts.items() if point.group == "console_scripts"} == {
        "lmdbio": "lmdbio.cli:main",
        "lmdbio-convert": "lmdbio.cli:main_convert",
        "lmdbio-index": "lmdbio.cli:main_index",
    }
    assert all(callable(point.load()) for point in scripts.values())


def test_the_package_says_that_it_is_typed() -> None:
    assert (_PACKAGE / "py.typed").is_file()


@_in_a_checkout
@pytest.mark.parametrize("part", ["convert", "layout", "reader"])
def test_a_part_stands_at_the_root_and_is_linked_into_the_package(part: str) -> None:
    link = _PACKAGE / part
    assert link.is_symlink()
    assert os.readlink(link) == f"../{part}"
    assert (_ROOT / part / "__init__.py").is_file()


@_in_a_checkout
def test_what_the_entry_points_name_is_what_the_project_file_says() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    installed = {p.name: p.value for p in metadata.distribution("lmdbio").entry_points if p.group == "console_scripts"}
    assert installed == project["scripts"]
