"""Databases made and read by the stock ``lmdb`` library, as other programs make them: the oracle of the tests.

``make_database(path, records)`` writes them in this process; with ``page_size`` in a process of its own, under a shim
that makes the C library report another page size to LMDB (skips the test where there is no gcc).
"""

import os
import pickle
import random
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from shutil import which

import lmdb
import pytest

_FLAGS = {"reverse_key": 0x02, "dupsort": 0x04, "integerkey": 0x08}

Record = tuple[bytes, bytes]

_SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
long sysconf(int name) {
    long (*real)(int) = (long (*)(int)) dlsym(RTLD_NEXT, "sysconf");
    return name == _SC_PAGESIZE ? LMDB_TEST_PAGE_SIZE : real(name);
}
"""


def make_database(
    path: Path,
    records: Iterable[Record],
    *,
    append: bool = False,
    commit_every: int | None = None,
    delete: Sequence[bytes] = (),
    integerkey: bool = False,
    reverse_key: bool = False,
    dupsort: bool = False,
    name: bytes | None = None,
    page_size: int | None = None,
) -> Path:
    """Return the data file of a new database directory at ``path`` that holds the records, put in the order given.

    Parameters
    ----------
    append
        Put with MDB_APPEND: keys must ascend.
    commit_every
        Records of one transaction; all in one by default.
    delete
        Keys deleted afterwards, in a transaction of their own.
    name
        Put into this named database instead of the main one.
    page_size
        A page size other than the system's.
    """
    options = {
        "append": append,
        "commit_every": commit_every,
        "delete": list(delete),
        "flags": {"integerkey": integerkey, "reverse_key": reverse_key, "dupsort": dupsort},
        "name": name,
    }
    if page_size is None:
        _write(path, list(records), **options)
    else:
        _write_elsewhere(page_size, (path, list(records), options))
    return path / "data.mdb"


def stock_records(data_file: Path, *, name: bytes | None = None) -> list[Record]:
    """Return what a cursor of the stock library sees."""
    with lmdb.open(str(data_file), subdir=False, readonly=True, lock=False, max_dbs=1) as env, env.begin() as txn:
        return list(txn.cursor(env.open_db(name, txn=txn, create=False) if name else None))


def numbered_records(n_records: int, sizes: Sequence[int], *, seed: int = 0) -> list[Record]:
    """Return records with 8-byte decimal keys in ascending order, sizes picked at random."""
    rng = random.Random(seed)
    return [(b"%08d" % number, rng.randbytes(rng.choice(sizes))) for number in range(n_records)]


def shuffled(records: Sequence[Record], *, seed: int = 0) -> list[Record]:
    """Return the records in random order."""
    return random.Random(seed).sample(records, len(records))


def _write(
    path: Path,
    records: list[Record],
    *,
    append: bool,
    commit_every: int | None,
    delete: list[bytes],
    flags: dict[str, bool],
    name: bytes | None,
) -> None:
    if name is None and any(flags.values()):
        lmdb.open(str(path), lock=False).close()
        _flag_main_database(path / "data.mdb", flags)
    with lmdb.open(str(path), map_size=1 << 32, max_dbs=1, sync=False, lock=False) as env:
        database = env.open_db(name, **({} if name is None else flags))
        step = commit_every or max(1, len(records))
        for begin in range(0, len(records), step):
            with env.begin(write=True) as txn:
                for key, value in records[begin : begin + step]:
                    txn.put(key, value, append=append, db=database)
        if delete:
            with env.begin(write=True) as txn:
                for key in delete:
                    txn.delete(key, db=database)


def _flag_main_database(data_file: Path, flags: dict[str, bool]) -> None:
    """Set flags in both metas of an empty database: the module has no call that makes such a main database."""
    content = bytearray(data_file.read_bytes())
    page_size = int.from_bytes(content[40:44], "little")
    for slot in (0, 1):
        struct.pack_into("<H", content, slot * page_size + 92, sum(_FLAGS[name] for name in flags if flags[name]))
    data_file.write_bytes(content)


def _write_elsewhere(page_size: int, job: object) -> None:
    gcc = which("gcc")
    if gcc is None:
        pytest.skip("page sizes other than the system's need gcc")
    with tempfile.TemporaryDirectory() as folder:
        shim = Path(folder, "shim.so")
        source = Path(folder, "shim.c")
        source.write_text(_SHIM)
        define = f"-DLMDB_TEST_PAGE_SIZE={page_size}"
        subprocess.run([gcc, "-shared", "-fPIC", define, "-o", shim, source, "-ldl"], check=True)
        environ = {**os.environ, "LD_PRELOAD": str(shim)}
        subprocess.run([sys.executable, __file__], input=pickle.dumps(job), env=environ, check=True)


if __name__ == "__main__":
    _path, _records, _options = pickle.load(sys.stdin.buffer)
    _write(_path, _records, **_options)
