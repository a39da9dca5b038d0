"""The README speaks of commands, options, arguments and files that there are, and of all ways of reading."""

import importlib.util
import inspect
import re
from pathlib import Path
from typing import get_args

import pytest

from lmdbio.reader import ParallelReader
from lmdbio.reader.settings import Io
from tests.cli.commands import Run

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
pytestmark = pytest.mark.skipif(not README.is_file(), reason="no checkout")


@pytest.fixture
def text() -> str:
    return README.read_text()


def _blocks(text: str, language: str) -> list[str]:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for found, block in blocks if found == language]


def test_options_are_those_of_the_commands(run: Run, text: str) -> None:
    lines = [line.partition("  #")[0] for block in _blocks(text, "") for line in block.splitlines()]
    matches = [re.match(r"(?:mpiexec -n \d+ )?(lmdbio(?:-\w+)? .*)", line) for line in lines]
    commands = [match[1].split() for match in matches if match]
    assert len(commands) > 9
    for program, *rest in commands:
        command = [program, rest[0]] if program == "lmdbio" else [program]
        shown = run(*command, "--help").ok()
        for option in (word for word in rest if word.startswith("-")):
            assert re.search(rf"(?<!\S){option}\b", shown), (command, option)


def test_python_compiles_and_calls_readers_with_arguments_that_there_are(text: str) -> None:
    for block in _blocks(text, "python"):
        compile(block, "README", "exec")
    known = inspect.signature(ParallelReader).parameters
    for call in re.findall(r"ParallelReader\(\"(.*)\)", text):
        assert set(re.findall(r"(\w+)=", call)) <= set(known)
    named = set(re.findall(r"\breader\.(\w+)", text))
    assert named >= {"set_epoch", "state_dict", "load_state_dict", "stats"}
    assert all(hasattr(ParallelReader, name) for name in named)


def test_every_way_of_reading_is_there(text: str) -> None:
    for io in get_args(Io):
        assert f'`io="{io}"`' in text


def test_files_and_modules_that_it_names_are_there(text: str) -> None:
    names = set(re.findall(r"`((?:docs|examples)/[\w/.]+|[A-Z]+\.(?:md|cff))`", text))
    assert {"docs/performance.md", "examples/read_epochs.py"} <= names
    assert all((ROOT / name).is_file() for name in names)
    modules = set(re.findall(r"-m (tools\.\w+)", text))
    assert {"tools.compare", "tools.testbed"} <= modules
    assert all(importlib.util.find_spec(module) for module in modules)
    targets = set(re.findall(r"^make (\w+)", text, re.MULTILINE))
    assert targets <= set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
