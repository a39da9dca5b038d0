"""Pages and databases put together byte by byte, sound ones and such as no program would write."""

import struct
from pathlib import Path

from lmdbio.layout.meta import EMPTY_TREE, Tree, pack_metas

PAGE_SIZE = 4096
BLANK = bytes(PAGE_SIZE)


def leaf(
    number: int, nodes: list[bytes], *, kind: int = 2, lower: int | None = None, upper: int | None = None
) -> bytes:
    """Return a page of nodes packed from its end."""
    page = bytearray(PAGE_SIZE)
    end = PAGE_SIZE
    for slot, node in enumerate(nodes):
        end -= len(node)
        page[end : end + len(node)] = node
        struct.pack_into("<H", page, 16 + 2 * slot, end)
    lower = 16 + 2 * len(nodes) if lower is None else lower
    struct.pack_into("<Q4H", page, 0, number, 0, kind, lower, end if upper is None else upper)
    return bytes(page)


def branch(number: int, children: list[int]) -> bytes:
    return leaf(number, [child.to_bytes(6, "little") + struct.pack("<H", 0) for child in children], kind=1)


def node(key: bytes, value: bytes = b"", *, length: int | None = None, flags: int = 0) -> bytes:
    return struct.pack("<IHH", len(value) if length is None else length, flags, len(key)) + key + value


def big_node(key: bytes, page: int, length: int) -> bytes:
    return node(key, struct.pack("<Q", page), length=length, flags=1)


def crafted(folder: Path, pages: list[bytes], *, entries: int = 1, last_page: int | None = None) -> Path:
    """Return a database whose tree begins at page 2, the first of the pages."""
    last_page = len(pages) + 1 if last_page is None else last_page
    metas = pack_metas(
        page_size=PAGE_SIZE,
        last_page=last_page,
        mapsize=0,
        main=Tree(flags=0, depth=1, branch_pages=0, leaf_pages=1, overflow_pages=0, entries=entries, root=2),
        free=EMPTY_TREE,
        txnid=2,
        digest=bytes(16),
    )
    path = folder / "crafted.mdb"
    path.write_bytes(metas + b"".join(pages))
    return path
