"""The whole of lmdbio in one run: photographs go in, a database and its index come out, four MPI ranks read them.

``python -m tools.demo [DIR]`` makes an ImageNet-like directory, converts it, shows and verifies the databases, reads an
epoch under ``mpiexec -n 4``, writes a contact sheet, and ends with a table of what each step needed. Everything is done
by the installed commands, as a user would; each is printed before it runs.
"""

import os
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import numpy as np
import typer

from lmdbio.cli.sizes import format_size
from lmdbio.layout import Index, build_index
from lmdbio.layout.file import DataFile
from lmdbio.layout.meta import read_meta
from lmdbio.layout.path import resolve
from tools import page_cache, race
from tools.contact_sheet import write_contact_sheet
from tools.make_imagenet_like import make_imagenet_like

N_RANKS: Final = 4
_MADE: Final = ("imagenet", "lmdb", "rebuilt.index", "contact-sheet.png")
_SPLITS: Final = ("train", "val")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the closing table."""

    what: str
    records: int
    n_bytes: int
    seconds: float
    state: str
    """Whether the file was in memory: cold, warm, or nothing to say."""


def main(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where everything is made.")] = Path("demo"),
    small: Annotated[bool, typer.Option("--small", help="60 small images, for a quick look.")] = False,
) -> None:
    """Show the whole of lmdbio, from photographs to batches."""
    started = time.perf_counter()
    directory.mkdir(parents=True, exist_ok=True)
    for name in _MADE:
        _remove(directory / name)
    images, databases = directory / "imagenet", directory / "lmdb"
    _heading("an ImageNet-like directory: crops of the photographs that scikit-image and scikit-learn ship")
    made = _make(images, small=small)
    _heading("convert")
    seconds = _command("lmdbio-convert", "imagenet", images, databases)
    rows = [Row("converting", made.records, made.n_bytes, seconds, "")]
    train = databases / "train.lmdb"
    _heading("what a database holds")
    _command("lmdbio", "info", train)
    _heading("verify: every record by its extent and checksum, against stock LMDB")
    for split in _SPLITS:
        _command("lmdbio", "verify", databases / f"{split}.lmdb", "--cross-check")
    _heading("index: from the database alone, as for one that somebody else made")
    rows.append(_index(train, directory / "rebuilt.index"))
    _heading(f"an epoch in block order, by {N_RANKS} MPI ranks")
    _command("mpiexec", "-n", str(N_RANKS), sys.executable, "-m", "tools.read_epoch", train, "--order", "block")
    sheet = directory / "contact-sheet.png"
    count = write_contact_sheet(train, sheet)
    print(f"\n{sheet}: {count} decoded images, a column for each class")
    _heading("one process, every byte touched (xxh3); cold: read from the device, warm: from memory; medians")
    rows += _race(train, rounds=1 if small else 3)
    _print_table(rows)
    print(f"\ndone in {time.perf_counter() - started:.0f} s; all is in {directory}/")


def _make(images: Path, *, small: bool) -> Row:
    started = time.perf_counter()
    n_train, n_val = (48, 12) if small else (2700, 300)
    n_bytes = make_imagenet_like(
        images,
        n_classes=4 if small else 20,
        n_train=n_train,
        n_val=n_val,
        mean_size=(20 if small else 110) * 1024,
    )
    row = Row("making", n_train + n_val, n_bytes, time.perf_counter() - started, "")
    print(f"{images}: {row.records:,} JPEGs, {format_size(n_bytes)}, made in {row.seconds:.1f} s")
    return row


def _index(database: Path, rebuilt: Path) -> Row:
    """Index the database anew beside its own index, compare the two, and time it once more without the interpreter."""
    data = resolve(database).data
    _command("lmdbio-index", database, "--output", rebuilt)
    ours, again = Index.open(database), Index.open(database, rebuilt)
    if not (np.array_equal(ours.offsets, again.offsets) and np.array_equal(ours.lengths, again.lengths)):
        raise SystemExit("expected the rebuilt index to have the same extents, found others")
    with DataFile(data) as file:
        meta = read_meta(file)
    tree_bytes = (2 + meta.main.branch_pages + meta.main.leaf_pages) * meta.page_size
    print(f"the same {len(again):,} extents, from {format_size(tree_bytes)} of the {format_size(data.stat().st_size)}")
    is_cold = page_cache.drop(data)
    started = time.perf_counter()
    build_index(database)
    return Row("indexing", len(again), tree_bytes, time.perf_counter() - started, "cold" if is_cold else "warm")


def _race(database: Path, *, rounds: int) -> list[Row]:
    rows = []
    for result in race.run(database, rounds=rounds):
        if result.cold_seconds is not None:
            rows.append(Row(result.name, result.records, result.n_bytes, result.cold_seconds, "cold"))
        rows.append(Row(result.name, result.records, result.n_bytes, result.warm_seconds, "warm"))
    rows.sort(key=lambda row: row.state)  # stable: cold first, then warm
    if not rows or rows[0].state != "cold":
        print("this file system keeps its files in memory: nothing could be read cold")
    return rows


def _print_table(rows: list[Row]) -> None:
    names = [f"{row.what}, {row.state}" if row.state else row.what for row in rows]
    width = max(map(len, names))
    print(f"\n{'':<{width}}{'records':>9}{'bytes':>15}{'seconds':>9}{'MB/s':>8}")
    for name, row in zip(names, rows, strict=True):
        rate = row.n_bytes / row.seconds / 1e6
        print(f"{name:<{width}}{row.records:>9,}{row.n_bytes:>15,}{row.seconds:>9.3f}{rate:>8,.0f}")
    print("every record read exactly once by each, all checksums right; reading includes opening,")
    print("converting the start of the command; indexing reads the tree's pages alone, its bytes are theirs")


def _command(program: str, *arguments: str | Path) -> float:
    """Print and run an installed command, and return the seconds that it took; end where it fails."""
    beside = Path(sys.executable).with_name(program)
    found = str(beside) if beside.exists() else shutil.which(program)
    if found is None:
        raise SystemExit(f"{program}: expected it beside {sys.executable} or on the path, found it nowhere")
    words = [str(argument) for argument in arguments]
    print(f"$ {shlex.join([program, *('python' if word == sys.executable else word for word in words)])}", flush=True)
    started = time.perf_counter()
    status = subprocess.run([found, *words], check=False, env=os.environ | {"PYTHONPATH": str(_root())}).returncode
    if status:
        raise SystemExit(f"{program}: expected it to succeed, found exit status {status}")
    return time.perf_counter() - started


def _root() -> Path:
    return Path(__file__).resolve().parents[1]


def _heading(text: str) -> None:
    print(f"\n== {text}", flush=True)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    typer.run(main)
