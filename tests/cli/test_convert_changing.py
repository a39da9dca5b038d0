"""Source files that change between the listing and the reading, or while they are read."""

import json
from collections.abc import Iterable
from pathlib import Path

import lmdb
import pytest

from lmdbio.layout import Index
from lmdbio.layout.datum import parse
from tests.cli.commands import Done, MakeFolder, Run

SIZES = {"inline": 1001, "window": 8192, "streamed": 40_960}
"""Bytes of the files that change, by the way in which their records are written."""
PIECES = {"inline": 500, "window": 4096, "streamed": 8192}
"""Bytes of each that the first read gives."""
VICTIMS = {kind: f"cat/{kind}.jpg" for kind in SIZES}
IN_PLACE = ["emptied", "shrunk by a byte", "shrunk by a page", "grown by a byte", "grown by pages"]
MOVED = ["deleted", "a directory", "a FIFO", "forbidden"]
"""Changes that somebody who has opened the file before does not notice."""
SAME_SIZE = ["another file", "rewritten"]
CASES = [(change, moment) for change in IN_PLACE + MOVED + SAME_SIZE for moment in ("listed", "opened", "midway")]

OTHER_REASONS = {
    "deleted": "cannot be read: no such file or directory",
    "a directory": "changed since it was listed: expected a regular file, found a directory",
    "a FIFO": "changed since it was listed: expected a regular file, found a FIFO",
    "forbidden": "cannot be read: permission denied",
    "rewritten": "expected a file at rest, found one that was written to while it was read",
}

# Runs in the command's process: each victim changes once, at the moment wished.
HOOK = """
import ctypes, os, signal
from lmdbio.convert import conversion, folder
from lmdbio.layout import window, writer

signal.alarm(100)  # what hangs is killed
if os.geteuid() == 0:  # obey modes from here on: without CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
    head, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None)
    libc.capget(head, sets)
    sets[0] &= ~6
    libc.capset(head, sets)

victims = {{os.fsencode(name): os.path.join({root!r}, name) for name in {victims!r}}}
moment, change = {moment!r}, {change!r}
for path in victims.values():
    os.utime(path, (0, 0))
files = {{}}
real_open, real_read, real_preadv, check_space = os.open, os.read, os.preadv, conversion.check_space

def alter(path):
    size = os.path.getsize(path)
    sizes = dict(zip({in_place!r}, (0, size - 1, max(0, size - 4096), size + 1, size + 8192)))
    if change in sizes:
        os.truncate(path, sizes[change])
    elif change == "forbidden":
        os.chmod(path, 0)
    elif change == "rewritten":
        with open(path, "r+b") as file:
            file.write((b"\\xff\\xd8\\xff" * size)[:size])
    else:
        os.unlink(path)
    if change == "a directory":
        os.mkdir(path)
    elif change == "a FIFO":
        os.mkfifo(path)
        real_open(path, os.O_RDWR)  # somebody writes to it, so that a read would wait
    elif change == "another file":
        with open(path, "wb") as file:
            file.write((b"\\xff\\xd8\\xff" * size)[:size])

def when_listed(*args):
    if moment == "listed":
        for path in victims.values():
            alter(path)
    return check_space(*args)

def open_and_change(path, *args, **options):
    fd = real_open(path, *args, **options)
    if "dir_fd" in options and path in victims:
        if moment == "opened":
            alter(victims[path])
        elif moment == "midway":
            files[fd] = victims[path]
    return fd

def read_and_change(fd, size):
    piece = real_read(fd, size)
    if fd in files:
        alter(files.pop(fd))
    return piece

def preadv_and_change(fd, buffers, *args):
    if fd not in files:
        return real_preadv(fd, buffers, *args)
    count = real_preadv(fd, [memoryview(buffers[0])[: len(buffers[0]) // 2]], *args)
    if count:
        alter(files.pop(fd))
    return count

conversion.check_space = when_listed
os.open, os.read, os.preadv = open_and_change, read_and_change, preadv_and_change
{setup}
"""
SKIP = ("--on-error", "skip", "--json")
STREAM_SMALL = "window.LARGEST_EXTENT, folder._PIECE_SIZE = 16_384, 8_192"


def altered(size: int) -> bytes:
    """Return what an altered file of the same size holds: it begins as a JPEG does."""
    return (b"\xff\xd8\xff" * size)[:size]


def breaks(change: str, moment: str, kind: str) -> bool:
    """Return whether a change makes the file bad.

    One rewritten under a read that goes on is noticed where that takes long; small files are read at once.
    """
    if change in SAME_SIZE:
        return (change, moment, kind) == ("rewritten", "midway", "streamed")
    return change in IN_PLACE or moment == "listed"


def reason(change: str, moment: str, size: int, piece: int) -> str:
    """Return why a file of some size that changes is bad; ``piece``: bytes that are read before it changes midway."""
    if change not in IN_PLACE:
        return OTHER_REASONS[change]
    left = {"emptied": 0, "shrunk by a byte": size - 1, "shrunk by a page": size - 4096}.get(change)
    read = piece if moment == "midway" else 0
    return f"changed since it was listed: expected {size} bytes, found {'more' if left is None else max(left, read)}"


@pytest.fixture
def source(make_folder: MakeFolder) -> Path:
    """A source with a file of each kind, and others of each kind around them."""
    others = {f"{word}/{size}.jpg": size for word in ("ant", "cat", "dog") for size in (900, 9000, 50_000)}
    return make_folder(others | {VICTIMS[kind]: size for kind, size in SIZES.items()})


def contents(source: Path) -> dict[str, bytes]:
    return {str(path.relative_to(source)): path.read_bytes() for path in source.glob("*/*")}


def convert(
    run: Run, source: Path, out: Path, *options: str, how: tuple[str, str], victims: Iterable[str], setup: str = ""
) -> Done:
    hook = HOOK.format(
        root=str(source), victims=list(victims), moment=how[1], change=how[0], in_place=IN_PLACE, setup=setup
    )
    return run("lmdbio-convert", "folder", source, out, *options, setup=hook)


def check_database(run: Run, out: Path, files: dict[str, bytes]) -> None:
    """Compare a database with files, stock LMDB as the judge, and its index with both."""
    index = Index.open(out)
    with lmdb.open(str(out), readonly=True, lock=False) as environment, environment.begin() as txn:
        records = [(key.split(b"_", 1)[-1].decode(), value) for key, value in txn.cursor()]
    datums = [parse(value) for _, value in records]
    found = {
        name: value[datum.payload_offset : datum.payload_offset + datum.payload_length]
        for (name, value), datum in zip(records, datums, strict=True)
    }
    assert found == files
    assert index.class_names == ["ant", "cat", "dog"]
    assert index.labels is not None
    labels = [index.class_names.index(name.split("/")[0]) for name, _ in records]
    assert index.labels.tolist() == [datum.label for datum in datums] == labels
    run("lmdbio", "verify", out, "--cross-check").ok()


@pytest.mark.parametrize(("change", "moment"), CASES)
def test_what_changes_is_left_out_and_named_and_all_else_is_there(
    change: str, moment: str, run: Run, source: Path, tmp_path: Path
) -> None:
    before, out = contents(source), tmp_path / "out.lmdb"
    done = convert(run, source, out, *SKIP, how=(change, moment), victims=VICTIMS.values(), setup=STREAM_SMALL)
    bad = {
        VICTIMS[kind]: reason(change, moment, SIZES[kind], PIECES[kind])
        for kind in SIZES
        if breaks(change, moment, kind)
    }
    report = json.loads(done.out)
    skipped = report["databases"][0]["skipped"]
    assert {each["path"]: each["reason"] for each in skipped} == {f"{source}/{name}": bad[name] for name in bad}
    assert done.status == (1 if bad else 0)
    assert done.err.count("\n") == (1 if bad else 0)
    if bad:
        assert f"{len(bad)} input" in done.err
        assert skipped[0]["path"] in done.err
    kept = {name: content for name, content in before.items() if name not in bad}
    if (change, moment) in (("another file", "listed"), ("rewritten", "listed"), ("rewritten", "opened")):
        kept |= {VICTIMS[kind]: altered(size) for kind, size in SIZES.items()}
    elif change == "rewritten":
        for kind in ("inline", "window"):
            kept[VICTIMS[kind]] = before[VICTIMS[kind]][: PIECES[kind]] + altered(SIZES[kind])[PIECES[kind] :]
    assert report["records"] == len(kept)
    check_database(run, out, kept)


@pytest.mark.parametrize(
    ("change", "moment", "kind"), [(*case, kind) for case in CASES for kind in SIZES if breaks(*case, kind)]
)
def test_what_changes_ends_the_conversion_in_one_line_and_leaves_nothing(
    change: str, moment: str, kind: str, run: Run, source: Path, tmp_path: Path
) -> None:
    done = convert(
        run, source, tmp_path / "out.lmdb", how=(change, moment), victims=[VICTIMS[kind]], setup=STREAM_SMALL
    )
    line = done.error("lmdbio-convert")
    why = reason(change, moment, SIZES[kind], PIECES[kind])
    assert line == f"{source}/{VICTIMS[kind]}: {why}; --on-error skip leaves such files out"
    assert {path.name for path in tmp_path.iterdir()} == {"cwd", "source"}


@pytest.mark.parametrize("direct", ["", "; writer._SMALLEST_DIRECT = 0"], ids=["gathered", "direct"])
@pytest.mark.parametrize("key", ["number", "path"])
def test_what_breaks_off_leaves_the_bytes_of_what_never_began(
    key: str, direct: str, run: Run, source: Path, tmp_path: Path
) -> None:
    made, name = {}, VICTIMS["streamed"]
    content = (source / name).read_bytes()
    for change, moment in (("shrunk by a byte", "midway"), ("deleted", "listed")):
        (source / name).write_bytes(content)
        out = tmp_path / moment
        done = convert(
            run, source, out, *SKIP, "--key", key, how=(change, moment), victims=[name], setup=STREAM_SMALL + direct
        )
        assert "1 input left out" in done.err
        made[moment] = [(out / file).read_bytes() for file in ("data.mdb", "data.mdb.index")]
    assert made["midway"] == made["listed"]
    check_database(run, tmp_path / "midway", contents(source))


def test_a_file_of_many_megabytes_that_breaks_off_leaves_no_trace(
    run: Run, make_folder: MakeFolder, tmp_path: Path
) -> None:
    source = make_folder({"ant/1.jpg": 100, "cat/2.jpg": 5000, "dog/3.jpg": 5000, "cat/big.jpg": 0})
    size, out = 24 << 20, tmp_path / "out.lmdb"
    (source / "cat/big.jpg").write_bytes(b"\xff\xd8\xff" + b"\x01" * (size - 3))
    done = convert(run, source, out, *SKIP, how=("shrunk by a byte", "midway"), victims=["cat/big.jpg"])
    database = json.loads(done.out)["databases"][0]
    assert [bad["reason"] for bad in database["skipped"]] == [reason("shrunk by a byte", "midway", size, 4 << 20)]
    assert database["misnamed"] == {}
    assert b"\x01" * 1000 not in (out / "data.mdb").read_bytes()
    (source / "cat/big.jpg").unlink()
    check_database(run, out, contents(source))
