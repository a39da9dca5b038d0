"""Who owns each page of a database, by a plain walk with ``struct``: independent of the package, for tests alone."""

import struct
from itertools import pairwise
from pathlib import Path

_NO_PAGE = (1 << 64) - 1


class PageOwners:
    """Every page of a database with its owner; built on reading, which fails on any page that is owned twice.

    Attributes
    ----------
    owners
        Page number to "meta", "branch", "leaf", "overflow" (main tree), "free" (on the free list) or "free tree".
    free
        Page numbers on the free list by the transaction that freed them, in the order in which they are listed.
    """

    def __init__(self, path: Path) -> None:
        self.content = path.read_bytes()
        (self.page_size,) = struct.unpack_from("<I", self.content, 40)
        metas = [self._meta(slot) for slot in (0, 1)]
        self.meta = max(metas, key=lambda meta: meta["txnid"])
        assert self.meta["txnid"] & 1 == metas.index(self.meta)
        self.owners: dict[int, str] = {0: "meta", 1: "meta"}
        self.free: dict[int, list[int]] = {}
        self.records: list[tuple[bytes, bytes]] = []
        self.counts = {"branch": 0, "leaf": 0, "overflow": 0}
        if self.meta["main"][-1] != _NO_PAGE:
            self._walk(self.meta["main"][-1], self.meta["main"][2], tree="main")
        if self.meta["free"][-1] != _NO_PAGE:
            self._walk(self.meta["free"][-1], self.meta["free"][2], tree="free")
        for pages in self.free.values():
            for page in pages:
                self._own(page, "free")

    def check(self) -> None:
        """Assert that each page has an owner, that counters and the order of free lists are right."""
        assert sorted(self.owners) == list(range(self.meta["last_page"] + 1))
        _, _, depth, branches, leaves, overflow, entries, _ = self.meta["main"]
        assert self.counts == {"branch": branches, "leaf": leaves, "overflow": overflow}
        assert entries == len(self.records)
        assert (depth == 0) == (entries == 0)
        for txnid, pages in self.free.items():
            assert 1 <= txnid <= self.meta["txnid"]
            assert all(left > right for left, right in pairwise(pages))
            assert pages[-1] >= 2 and pages[0] <= self.meta["last_page"]

    def _meta(self, slot: int) -> dict:
        base = slot * self.page_size
        flags, magic, version = struct.unpack_from("<10xHxxxxII", self.content, base)
        assert (flags, magic, version) == (8, 0xBEEFC0DE, 1)
        last_page, txnid = struct.unpack_from("<QQ", self.content, base + 136)
        trees = {
            name: struct.unpack_from("<IHH5Q", self.content, base + at) for name, at in (("free", 40), ("main", 88))
        }
        return {**trees, "last_page": last_page, "txnid": txnid}

    def _own(self, page: int, owner: str) -> None:
        assert page not in self.owners, f"page {page} is owned by {self.owners.get(page)} and {owner}"
        self.owners[page] = owner

    def _walk(self, page: int, depth: int, *, tree: str) -> None:
        base = page * self.page_size
        number, flags, lower, upper = struct.unpack_from("<QxxHHH", self.content, base)
        kind = {1: "branch", 2: "leaf"}[flags]
        assert number == page and (kind == "leaf") == (depth == 1)
        self._own(page, kind if tree == "main" else "free tree")
        if tree == "main":
            self.counts[kind] += 1
        pointers = struct.unpack_from(f"<{(lower - 16) // 2}H", self.content, base + 16)
        assert len(pointers) >= (2 if kind == "branch" else 1)
        assert lower <= upper == min(pointers) and all(pointer % 2 == 0 for pointer in pointers)
        for slot, pointer in enumerate(pointers):
            low, high, mid, key_size = struct.unpack_from("<4H", self.content, base + pointer)
            data = base + pointer + 8 + key_size
            if kind == "branch":
                assert (key_size == 0) == (slot == 0)
                self._walk(low | high << 16 | mid << 32, depth - 1, tree=tree)
            else:
                key = self.content[base + pointer + 8 : data]
                self._leaf_node(key, low | high << 16, mid, data, tree=tree)

    def _leaf_node(self, key: bytes, length: int, flags: int, data: int, *, tree: str) -> None:
        if flags & 1:
            (page,) = struct.unpack_from("<Q", self.content, data)
            number, page_flags, n_pages = struct.unpack_from("<QxxHI", self.content, page * self.page_size)
            assert (number, page_flags) == (page, 4) and n_pages * self.page_size >= length + 16
            for each in range(page, page + n_pages):
                self._own(each, "overflow" if tree == "main" else "free tree")
            if tree == "main":
                self.counts["overflow"] += n_pages
            data = page * self.page_size + 16
        value = self.content[data : data + length]
        if tree == "main":
            self.records.append((key, value))
            return
        count, *pages = struct.unpack(f"<{length // 8}Q", value)
        assert count == len(pages)
        self.free[int.from_bytes(key, "little")] = pages
