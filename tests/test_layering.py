"""Who may import whom, and what importing costs: read off the source, then asked of a fresh interpreter."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import lmdbio

_PACKAGE = Path(lmdbio.__file__).parent

_MAY_IMPORT = {
    "errors": set(),
    "comm": {"errors"},
    "layout": {"comm", "errors"},
    "convert": {"layout", "comm", "errors"},
    "reader": {"layout", "comm", "errors"},
    "cli": {"convert", "reader", "layout", "comm", "errors"},
    "__init__": set(),
}
"""By part, what it may import beside itself and the bare package, whose only name is its version."""

_NOT_AT_IMPORT = {"mpi4py", "typer", "tqdm", "PIL", "torch"}
_TYPER_AND_TQDM_ARE_ITS_OWN = {"mpi4py", "PIL", "torch"}


def _sources() -> list[Path]:
    return sorted(path for path in _walk(_PACKAGE) if path.suffix == ".py")


def _walk(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():  # rglob does not enter links to directories
        if entry.is_dir():
            yield from _walk(entry)
        else:
            yield entry


def _part(path: Path) -> str:
    return path.relative_to(_PACKAGE).parts[0].removesuffix(".py")


def _imported(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Give every dotted name that is imported anywhere in the tree, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import"
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def _at_import_time(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Give what is imported when the module is, which leaves out functions' bodies and what only type checkers see."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield from _imported(child)
        else:
            yield from _at_import_time(child)


def _modules_after(statement: str) -> set[str]:
    script = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def _top_level(modules: set[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


@pytest.mark.parametrize("path", _sources(), ids=lambda path: path.relative_to(_PACKAGE).as_posix())
def test_a_file_imports_only_what_its_part_may(path: Path) -> None:
    part = _part(path)
    allowed = _MAY_IMPORT[part] | {part, "__version__"}
    for name, line in _imported(ast.parse(path.read_text())):
        package, _, rest = name.partition(".")
        if package == "lmdbio" and rest:
            assert rest.partition(".")[0] in allowed, f"{path}:{line}: {part} may not import {name}"


@pytest.mark.parametrize("path", _sources(), ids=lambda path: path.relative_to(_PACKAGE).as_posix())
def test_a_file_imports_nothing_heavy_before_it_is_needed(path: Path) -> None:
    banned = _TYPER_AND_TQDM_ARE_ITS_OWN if _part(path) == "cli" else _NOT_AT_IMPORT
    for name, line in _at_import_time(ast.parse(path.read_text())):
        package = name.partition(".")[0]
        assert package not in banned, f"{path}:{line}: {package} belongs into the function that needs it"


def test_a_bad_import_would_be_noticed() -> None:
    source = "def f():\n    from lmdbio.reader import x\nimport numpy, mpi4py.MPI\n"
    tree = ast.parse(source)
    assert ("lmdbio.reader.x", 2) in set(_imported(tree))
    assert set(_at_import_time(tree)) == {("numpy", 3), ("mpi4py.MPI", 3)}


def test_importing_lmdbio_does_not_import_numpy_nor_anything_else_that_is_not_pythons_own() -> None:
    new = _top_level(_modules_after("import lmdbio")) - _top_level(_modules_after(""))
    assert new <= {"lmdbio"} | sys.stdlib_module_names


@pytest.mark.parametrize("part", ["convert", "layout", "reader"])
def test_a_part_and_all_its_modules_pull_nothing_heavy(part: str) -> None:
    modules = [
        f"lmdbio.{path.relative_to(_PACKAGE).with_suffix('').as_posix().replace('/', '.')}".removesuffix(".__init__")
        for path in _sources()
        if _part(path) == part
    ]
    assert not _NOT_AT_IMPORT & _top_level(_modules_after("import " + ", ".join(modules)))


def test_the_entry_points_package_imports_nothing_until_it_runs() -> None:
    assert not {"typer", "tqdm", "numpy", "mpi4py"} & _top_level(_modules_after("import lmdbio.cli"))
