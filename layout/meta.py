"""Meta pages: which snapshot of a database is the live one, and the two pages that commit a new database.

Source of every rule: the public sources of LMDB 0.9.36 (``mdb_env_read_header``, ``mdb_env_pick_meta``,
``mdb_txn_renew0``); each was checked against files that it wrote.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from lmdbio.errors import CorruptDatabaseError
from lmdbio.layout.file import DataFile
from lmdbio.layout.foreign import SNIFF_SIZE, refusal
from lmdbio.layout.page import (
    DATA_VERSION,
    DB_INTEGERKEY,
    DB_RECORD,
    MAGIC,
    MAX_PAGE_SIZE,
    META,
    MIN_PAGE_SIZE,
    N_METAS,
    NO_PAGE,
    P_META,
)

DIGEST_SIZE: Final = 16
"""Bytes of the digest at the end of both meta pages; zeros where nobody wrote one."""

_PAGE_SIZES: Final = tuple(1 << bits for bits in range(MIN_PAGE_SIZE.bit_length() - 1, MAX_PAGE_SIZE.bit_length()))
_MAX_FILE_SIZE: Final = (1 << 63) - 1  # an offset in the file is a signed 64-bit integer


@dataclass(frozen=True, slots=True)
class Tree:
    """The record of one B+ tree, 48 bytes in the file."""

    flags: int
    """Database flags, ``DB_*`` of :mod:`lmdbio.layout.page`."""
    depth: int
    """Levels: 0 for an empty tree, 1 where the root is a leaf."""
    branch_pages: int
    leaf_pages: int
    overflow_pages: int
    entries: int
    """Records."""
    root: int
    """Page number of the root, ``NO_PAGE`` for an empty tree."""


EMPTY_TREE: Final = Tree(flags=0, depth=0, branch_pages=0, leaf_pages=0, overflow_pages=0, entries=0, root=NO_PAGE)


@dataclass(frozen=True, slots=True)
class Meta:
    """One snapshot of a database, as a meta page describes it."""

    page_size: int
    """Bytes of a page."""
    txnid: int
    """Number of the transaction that committed the snapshot; 0 in a database that was never written to."""
    slot: int
    """The meta page it was read from, 0 or 1."""
    last_page: int
    """Highest page number in use."""
    mapsize: int
    """Bytes that LMDB maps, as last asked for; may be less than the file."""
    free: Tree
    """The tree of free pages."""
    main: Tree
    """The main database."""
    digest: bytes
    """What the writer left in the page's last ``DIGEST_SIZE`` bytes."""
    torn_slot: int | None = None
    """The other meta page where it is damaged: this snapshot may then be the last but one."""


def read_meta(file: DataFile) -> Meta:
    """Return the live snapshot of a database: of the newer meta page, else of the one that is whole.

    As in LMDB, transaction N lives in slot N & 1, and a newer one in the wrong slot does not count. One damaged meta
    page is put up with, and named in ``Meta.torn_slot``.

    Raises
    ------
    FormatError
        If the file is no 64-bit little-endian LMDB 0.9 database; the message says what it is.
    CorruptDatabaseError
        If no meta page can be used, or the file ends before the root of a tree.
    """
    slots = _read_slots(file)
    meta = _live(file, slots)
    for name, tree in (("main", meta.main), ("free", meta.free)):
        if tree.root != NO_PAGE and (tree.root + 1) * meta.page_size > file.size:
            raise CorruptDatabaseError(
                f"{file.path}: expected {(meta.last_page + 1) * meta.page_size} bytes, found {file.size}: the file is "
                f"cut short, the root of its {name} tree (page {tree.root}) is missing: copy it again"
            )
    return meta


def _read_slots(file: DataFile) -> list[Meta | str]:
    """Return both meta pages, or what is wrong with each."""
    first = _parse(file.read(0, min(file.size, META.itemsize)), slot=0)
    if isinstance(first, Meta):
        page_size = first.page_size
        first = replace(first, digest=_read_digest(file, first))
        return [first, _read_second(file, page_size)]
    for page_size in _PAGE_SIZES:  # the first page says where the second is; without it, look everywhere
        second = _read_second(file, page_size)
        if isinstance(second, Meta):
            return [first, second]
    error = refusal(file.path, file.read(0, min(file.size, SNIFF_SIZE)))
    if isinstance(error, CorruptDatabaseError):
        raise CorruptDatabaseError(f"{file.path}: expected two meta pages, found neither usable: {first}")
    raise error


def _read_second(file: DataFile, page_size: int) -> Meta | str:
    if file.size < page_size + META.itemsize:
        return f"the file ends at {file.size} bytes, before its second meta page"
    second = _parse(file.read(page_size, META.itemsize), slot=1)
    if isinstance(second, str):
        return second
    if second.page_size != page_size:
        return f"page size {second.page_size} differs from the {page_size} of slot 0"
    return replace(second, digest=_read_digest(file, second))


def _read_digest(file: DataFile, meta: Meta) -> bytes:
    end = (meta.slot + 1) * meta.page_size
    return file.read(end - DIGEST_SIZE, DIGEST_SIZE) if end <= file.size else bytes(DIGEST_SIZE)


def _parse(head: bytes, *, slot: int) -> Meta | str:
    """Return the meta page that begins with these bytes, its digest left empty, or what is wrong with it."""
    if len(head) < META.itemsize:
        return f"expected {META.itemsize} bytes of meta page {slot}, found {len(head)}"
    page = np.frombuffer(head, META, 1)[0]
    if page["magic"] != MAGIC or page["version"] != DATA_VERSION or page["header"]["flags"] != P_META:
        return f"slot {slot} holds no meta page"
    page_size = int(page["free"]["pad"])
    if page_size not in _PAGE_SIZES:
        return f"expected a page size of {MIN_PAGE_SIZE} to {MAX_PAGE_SIZE}, a power of two, found {page_size}"
    meta = Meta(
        page_size=page_size,
        txnid=int(page["txnid"]),
        slot=slot,
        last_page=int(page["last_page"]),
        mapsize=int(page["mapsize"]),
        free=_tree(page["free"]),
        main=_tree(page["main"]),
        digest=b"",
    )
    return _fault(meta) or meta


def _tree(record: Any) -> Tree:
    return Tree(
        flags=int(record["flags"]),
        depth=int(record["depth"]),
        branch_pages=int(record["branch_pages"]),
        leaf_pages=int(record["leaf_pages"]),
        overflow_pages=int(record["overflow_pages"]),
        entries=int(record["entries"]),
        root=int(record["root"]),
    )


def _fault(meta: Meta) -> str | None:
    """Return what is impossible in a meta page, or None."""
    if not N_METAS - 1 <= meta.last_page < _MAX_FILE_SIZE // meta.page_size:
        return f"slot {meta.slot}: last page {meta.last_page} is out of range"
    for name, tree in (("main", meta.main), ("free", meta.free)):
        if tree.root == NO_PAGE:
            continue
        if meta.txnid == 0:
            return f"slot {meta.slot}: expected an empty {name} tree before the first transaction, found a root"
        if not N_METAS <= tree.root <= meta.last_page:
            return f"slot {meta.slot}: root {tree.root} of the {name} tree is out of range"
    return None


def _live(file: DataFile, slots: list[Meta | str]) -> Meta:
    """Return the snapshot that LMDB would read, with the other slot named if that one is damaged."""
    whole = [slot for slot in slots if isinstance(slot, Meta) and _in_its_slot(slot)]
    if not whole:
        raise CorruptDatabaseError(
            f"{file.path}: expected a meta page in its own slot, found none: {'; '.join(map(_describe, slots))}"
        )
    live = max(whole, key=lambda meta: (meta.txnid, -meta.slot))
    if len(whole) == N_METAS:
        if live.last_page < min(meta.last_page for meta in whole if meta is not live):
            raise CorruptDatabaseError(
                f"{file.path}: expected a last page that never goes back, found {live.last_page} in the newer meta "
                f"page (slot {live.slot}) and more in the older: restore the file from a copy"
            )
        return live
    if live.txnid == 0:
        # What is left is the state before the first transaction: no database is better than an empty one.
        raise CorruptDatabaseError(
            f"{file.path}: expected two meta pages, found the one that counts damaged "
            f"({_describe(slots[1 - live.slot])}): restore the file from a copy"
        )
    return replace(live, torn_slot=1 - live.slot)


def _in_its_slot(meta: Meta) -> bool:
    return meta.txnid == 0 or meta.txnid & 1 == meta.slot  # 0: before the first transaction, in both slots


def _describe(slot: Meta | str) -> str:
    return slot if isinstance(slot, str) else f"slot {slot.slot} holds transaction {slot.txnid}"


def pack_metas(
    *, page_size: int, last_page: int, mapsize: int, main: Tree, free: Tree, txnid: int, digest: bytes
) -> bytes:
    """Return both meta pages of a new database, 2 * page_size bytes; writing them commits it.

    Slot ``txnid & 1`` describes the database; the other is that of an empty database before the first transaction.

    Parameters
    ----------
    page_size
        Bytes of a page.
    last_page
        Highest page number in use.
    mapsize
        Bytes for LMDB to map; it takes the file's size where that is more.
    main, free
        The main database, and the tree of free pages.
    txnid
        Number of the transaction, from 1; keys of the free tree must not exceed it.
    digest
        ``DIGEST_SIZE`` bytes for the end of both pages.
    """
    if txnid < 1 or len(digest) != DIGEST_SIZE:
        raise ValueError(f"expected txnid of 1 or more and a digest of {DIGEST_SIZE} bytes")
    pages = np.zeros((N_METAS, page_size), np.uint8)
    metas = pages[:, : META.itemsize].view(META)[:, 0]
    metas["header"]["pgno"] = range(N_METAS)
    metas["header"]["flags"] = P_META
    metas["magic"] = MAGIC
    metas["version"] = DATA_VERSION
    metas["mapsize"] = mapsize
    metas["free"] = _record(replace(EMPTY_TREE, flags=DB_INTEGERKEY), pad=page_size)
    metas["main"] = _record(EMPTY_TREE, pad=0)
    metas["last_page"] = N_METAS - 1
    live = metas[txnid & 1 : (txnid & 1) + 1]
    live["free"] = _record(replace(free, flags=free.flags | DB_INTEGERKEY), pad=page_size)
    live["main"] = _record(main, pad=0)
    live["last_page"] = last_page
    live["txnid"] = txnid
    pages[:, -DIGEST_SIZE:] = np.frombuffer(digest, np.uint8)
    return pages.tobytes()


def _record(tree: Tree, *, pad: int) -> Any:
    return np.array(
        (
            pad,
            tree.flags,
            tree.depth,
            tree.branch_pages,
            tree.leaf_pages,
            tree.overflow_pages,
            tree.entries,
            tree.root,
        ),
        DB_RECORD,
    )
