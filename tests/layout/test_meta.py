from pathlib import Path

import lmdb
import numpy as np
import pytest

from lmdbio.errors import CorruptDatabaseError, FormatError
from lmdbio.layout.file import DataFile
from lmdbio.layout.meta import DIGEST_SIZE, EMPTY_TREE, Meta, Tree, pack_metas, read_meta
from lmdbio.layout.page import DB_REVERSEKEY, MAGIC, META, NO_PAGE
from tests.layout.databases import make_database, numbered_records

PAGE_SIZES = [512, 1024, 2048, 4096, 8192, 16384, 32768]


def meta_of(path: Path) -> Meta:
    with DataFile(path) as file:
        return read_meta(file)


def meta_of_bytes(folder: Path, content: bytes) -> Meta:
    path = folder / "file.mdb"
    path.write_bytes(content)
    return meta_of(path)


def packed(*, page_size: int = 4096, txnid: int = 1, last_page: int = 1) -> bytearray:
    return bytearray(
        pack_metas(
            page_size=page_size,
            last_page=last_page,
            mapsize=1 << 20,
            main=EMPTY_TREE,
            free=EMPTY_TREE,
            txnid=txnid,
            digest=bytes(range(DIGEST_SIZE)),
        )
    )


def lay_over(content: bytearray, slot: int, page_size: int = 4096, **fields: int) -> bytearray:
    """Change fields of one meta page."""
    page = np.frombuffer(content, META, 1, slot * page_size)[0]
    for name, value in fields.items():
        target, _, field = name.rpartition("__")
        (page[target] if target else page)[field] = value
    return content


def test_the_meta_of_a_stock_database_says_what_stock_says(tmp_path):
    data = make_database(tmp_path / "db", numbered_records(500, [10, 3000, 9000]), commit_every=100)
    meta = meta_of(data)
    with lmdb.open(str(data), subdir=False, readonly=True, lock=False) as env:
        stat, info = env.stat(), env.info()
    assert meta.page_size == stat["psize"]
    assert meta.txnid == info["last_txnid"] == 5
    assert meta.slot == 1
    assert meta.last_page == info["last_pgno"]
    assert meta.mapsize == 1 << 32
    assert meta.main == Tree(
        flags=0,
        depth=stat["depth"],
        branch_pages=stat["branch_pages"],
        leaf_pages=stat["leaf_pages"],
        overflow_pages=stat["overflow_pages"],
        entries=stat["entries"],
        root=meta.main.root,
    )
    assert meta.torn_slot is None
    assert meta.digest == bytes(DIGEST_SIZE)


def test_the_flags_of_the_main_database_are_read(tmp_path):
    assert meta_of(make_database(tmp_path / "db", [(b"k", b"v")], reverse_key=True)).main.flags == DB_REVERSEKEY


@pytest.mark.parametrize("commits", [1, 2, 3])
def test_transaction_n_lives_in_slot_n_and_1(tmp_path, commits):
    meta = meta_of(make_database(tmp_path / "db", numbered_records(commits, [5]), commit_every=1))
    assert (meta.txnid, meta.slot) == (commits, commits & 1)


def test_a_database_never_written_to_has_an_empty_tree(tmp_path):
    meta = meta_of(make_database(tmp_path / "db", []))
    assert (meta.txnid, meta.slot, meta.main, meta.last_page) == (0, 0, EMPTY_TREE, 1)


@pytest.mark.parametrize("page_size", PAGE_SIZES)
@pytest.mark.parametrize("txnid", [1, 2, 7])
def test_packed_metas_are_read_back(tmp_path, page_size, txnid):
    main = Tree(flags=0, depth=2, branch_pages=1, leaf_pages=3, overflow_pages=4, entries=5, root=8)
    free = Tree(flags=8, depth=1, branch_pages=0, leaf_pages=1, overflow_pages=0, entries=1, root=9)
    content = pack_metas(
        page_size=page_size, last_page=9, mapsize=77, main=main, free=free, txnid=txnid, digest=b"0123456789abcdef"
    )
    assert len(content) == 2 * page_size
    assert meta_of_bytes(tmp_path, content + bytes(8 * page_size)) == Meta(
        page_size=page_size,
        txnid=txnid,
        slot=txnid & 1,
        last_page=9,
        mapsize=77,
        free=free,
        main=main,
        digest=b"0123456789abcdef",
    )
    digests = [content[end - DIGEST_SIZE : end] for end in (page_size, 2 * page_size)]
    assert digests == [b"0123456789abcdef"] * 2


@pytest.mark.parametrize("page_size", PAGE_SIZES)
@pytest.mark.parametrize("txnid", [1, 2])
def test_stock_opens_and_fills_a_database_of_packed_metas_alone(tmp_path, page_size, txnid):
    path = tmp_path / "data.mdb"
    path.write_bytes(packed(page_size=page_size, txnid=txnid))
    with lmdb.open(str(path), subdir=False, lock=False) as env:
        assert (env.stat()["psize"], env.stat()["entries"]) == (page_size, 0)
        assert env.info()["last_txnid"] == txnid
        with env.begin(write=True) as txn:
            txn.put(b"key", b"value")
    assert meta_of(path).txnid == txnid + 1


def test_the_digest_outlives_a_commit_by_stock(tmp_path):
    path = tmp_path / "data.mdb"
    path.write_bytes(packed())
    with lmdb.open(str(path), subdir=False, lock=False) as env, env.begin(write=True) as txn:
        txn.put(b"key", b"value")
    assert meta_of(path).digest == bytes(range(DIGEST_SIZE))


@pytest.mark.parametrize("bad", [{"txnid": 0}, {"digest": b"short"}])
def test_packing_refuses_what_could_not_be_read_back(bad):
    good = {"page_size": 4096, "last_page": 1, "mapsize": 0, "main": EMPTY_TREE, "free": EMPTY_TREE}
    with pytest.raises(ValueError, match="expected txnid"):
        pack_metas(**good, **{"txnid": 1, "digest": bytes(DIGEST_SIZE), **bad})


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"", "found an empty file"),
        (b"x", "found text"),
        (b"\x00\x01\x00\x00Standard Jet DB\x00" + bytes(4096), "found a Microsoft Access database"),
        (bytes(12) + MAGIC.to_bytes(4, "little") + b"\x01" + bytes(8192), "found a 32-bit little-endian one"),
    ],
)
def test_a_file_that_is_no_such_database_is_refused_by_name(tmp_path, content, name):
    with pytest.raises(FormatError, match=name) as caught:
        meta_of_bytes(tmp_path, content)
    assert not isinstance(caught.value, CorruptDatabaseError)


def test_a_lock_file_given_for_the_data_file_is_refused_by_name(tmp_path):
    with lmdb.open(str(tmp_path / "db")) as env, env.begin():
        content = (tmp_path / "db" / "lock.mdb").read_bytes()
    with pytest.raises(FormatError, match="found an LMDB lock file: name the data file beside it"):
        meta_of_bytes(tmp_path, content)


@pytest.mark.parametrize("page_size", [0, 1, 100, 4095, 65536, 1 << 31])
def test_an_impossible_page_size_is_refused_by_number(tmp_path, page_size):
    content = packed()
    for slot in (0, 1):
        lay_over(content, slot, free__pad=page_size)
    with pytest.raises(CorruptDatabaseError, match=rf"a power of two, found {page_size}$"):
        meta_of_bytes(tmp_path, content)


@pytest.mark.parametrize("slot", [0, 1])
@pytest.mark.parametrize("page_size", [512, 4096, 32768])
@pytest.mark.parametrize(
    "damage",
    [
        {"magic": 0},
        {"version": 3},
        {"header__flags": 4},
        {"free__pad": 0},
        {"free__pad": 256},
        {"last_page": 1 << 62},
        {"last_page": 0},
        {"main__root": 1},
        {"main__root": 1 << 40},
        {"free__root": 0},
    ],
    ids=str,
)
def test_one_damaged_meta_page_is_put_up_with_and_named(tmp_path, slot, page_size, damage):
    tree = Tree(flags=0, depth=1, branch_pages=0, leaf_pages=1, overflow_pages=0, entries=1, root=2)
    content = packed(page_size=page_size, txnid=4 + slot, last_page=2) + bytes(page_size)
    lay_over(content, 1 - slot, page_size, txnid=3 + slot, last_page=2)
    for each in (0, 1):
        record = {f"main__{name}": getattr(tree, name) for name in ("depth", "leaf_pages", "entries", "root")}
        lay_over(content, each, page_size, **record)
    assert meta_of_bytes(tmp_path, content).txnid == 4 + slot
    lay_over(content, slot, page_size, **damage)
    meta = meta_of_bytes(tmp_path, content)
    assert (meta.txnid, meta.slot, meta.torn_slot) == (3 + slot, 1 - slot, slot)
    assert (meta.page_size, meta.main) == (page_size, tree)


def test_a_newer_transaction_in_the_wrong_slot_does_not_count(tmp_path):
    content = lay_over(packed(txnid=2), 1, txnid=1)
    lay_over(content, 0, txnid=3)
    meta = meta_of_bytes(tmp_path, content)
    assert (meta.txnid, meta.slot, meta.torn_slot) == (1, 1, 0)


def test_an_empty_database_is_never_what_a_damaged_one_becomes(tmp_path):
    data = make_database(tmp_path / "db", numbered_records(50, [100]))
    whole = bytearray(data.read_bytes())
    assert meta_of(data).slot == 1
    for damage in ({"magic": 0}, {"txnid": 0}, {"txnid": 2}):
        with pytest.raises(CorruptDatabaseError, match="restore the file"):
            meta_of_bytes(tmp_path, lay_over(bytearray(whole), 1, **damage))
    with pytest.raises(CorruptDatabaseError, match="a last page that never goes back"):
        meta_of_bytes(tmp_path, lay_over(bytearray(whole), 0, txnid=2))


def test_both_meta_pages_damaged_is_an_error(tmp_path):
    content = lay_over(lay_over(packed(), 0, header__flags=0), 1, magic=1)
    with pytest.raises(CorruptDatabaseError, match="expected two meta pages, found neither usable"):
        meta_of_bytes(tmp_path, content)


def test_what_stock_ignores_is_ignored(tmp_path):
    data = make_database(tmp_path / "db", numbered_records(50, [100]))
    content = lay_over(bytearray(data.read_bytes()), 1, header__pgno=99, main__pad=4096, address=5, mapsize=0)
    meta = meta_of_bytes(tmp_path, content)
    assert (meta.main.entries, meta.torn_slot) == (50, None)


def test_a_file_cut_before_a_root_says_what_is_missing(tmp_path):
    data = make_database(tmp_path / "db", [(b"key", b"value")])
    whole = data.read_bytes()
    meta = meta_of(data)
    assert meta.main.root != NO_PAGE
    with pytest.raises(CorruptDatabaseError, match=r"cut short, the root of its main tree \(page \d+\) is missing"):
        meta_of_bytes(tmp_path, whole[:-1])


def test_every_cut_of_a_small_file_within_its_metas_is_a_named_error(tmp_path):
    data = make_database(tmp_path / "db", [(b"key", b"value")])
    whole = data.read_bytes()
    for size in [*range(200), 4095, 4096, *range(4097, 4300), 8191, 8192]:
        with pytest.raises(FormatError):
            meta_of_bytes(tmp_path, whole[:size])
