"""What ties an index to one state of one data file: numbers of its live meta page, and hashes of some of its pages."""

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

import numpy as np

from lmdbio.layout.file import DataFile
from lmdbio.layout.meta import Meta
from lmdbio.layout.page import MAX_PAGE_SIZE, MIN_PAGE_SIZE, N_METAS, NO_PAGE

N_SAMPLES: Final = 16
"""Pages that are hashed at fixed fractions of the file, at most."""
_HEX_SIZE: Final = 64


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """One state of a data file; survives copying and renaming. Hashes are SHA-256 in hexadecimal."""

    txnid: int
    """Number of the last transaction."""
    file_size: int
    """Bytes of the data file."""
    page_size: int
    root: int | None
    """Page number of the indexed tree's root, None for an empty tree."""
    entries: int
    """Records of the indexed tree, as the tree counts them."""
    last_page: int
    """Highest page number in use."""
    metas: str
    """Hash of both meta pages, whole."""
    root_page: str
    """Hash of the root page; of nothing where the tree is empty."""
    samples: str
    """Hash of up to 16 pages at fixed fractions of the file, end to end."""

    def to_fields(self) -> dict[str, Any]:
        """Return the fields as they stand in the sidecar's metadata."""
        return asdict(self)

    @classmethod
    def from_fields(cls, found: Any) -> "Fingerprint":
        """Return the fingerprint of a sidecar's metadata; fields of later versions are passed over.

        Raises
        ------
        ValueError
            If a field is missing or impossible; the message says *expected X, found Y*.
        """
        if not isinstance(found, dict):
            raise ValueError(f"expected a fingerprint of named fields, found {found!r:.40}")
        values: dict[str, Any] = {field.name: found.get(field.name) for field in fields(cls)}
        for name, value in values.items():
            if not _is_possible(name, value):
                raise ValueError(f"expected a fingerprint with a sound {name}, found {value!r:.40}")
        return cls(**values)

    def digest(self) -> str:
        """Return one short name for all of it, 32 hexadecimal digits, for where a whole fingerprint is too long."""
        text = json.dumps(self.to_fields(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def difference(self, other: "Fingerprint") -> str | None:
        """Return in words where the other differs, or None: ``transaction id 5, not 3``."""
        for field in fields(self):
            mine, others = getattr(self, field.name), getattr(other, field.name)
            if mine != others:
                words = field.name.replace("_", " ").replace("txnid", "transaction id")
                return f"another {words}" if isinstance(mine, str) else f"{words} {others}, not {mine}"
        return None


def take_fingerprint(file: DataFile, meta: Meta) -> Fingerprint:
    """Return the fingerprint of the main database of an open data file; reads at most 19 pages.

    Raises
    ------
    ReadError
        If a page cannot be read.
    """
    size = meta.page_size
    root = None if meta.main.root == NO_PAGE else meta.main.root
    return Fingerprint(
        txnid=meta.txnid,
        file_size=file.size,
        page_size=size,
        root=root,
        entries=meta.main.entries,
        last_page=meta.last_page,
        metas=_hash_pages(file, range(N_METAS), size),
        root_page=_hash_pages(file, [] if root is None else [root], size),
        samples=_hash_pages(file, sample_pages(min(meta.last_page + 1, file.size // size)), size),
    )


def sample_pages(n_pages: int) -> list[int]:
    """Return the numbers of the pages that are hashed in a file of ``n_pages`` pages, metas included.

    >>> sample_pages(5), sample_pages(1002)[:3], sample_pages(1002)[-1]
    ([2, 3, 4], [2, 68, 135], 1001)
    """
    n_others = max(n_pages - N_METAS, 0)
    if n_others <= N_SAMPLES:
        return list(range(N_METAS, N_METAS + n_others))
    return [N_METAS + k * (n_others - 1) // (N_SAMPLES - 1) for k in range(N_SAMPLES)]


def _hash_pages(file: DataFile, pages: range | list[int], page_size: int) -> str:
    """Return the hash of the pages end to end; of what there is of the last, where the file ends within it."""
    digest = hashlib.sha256()
    buffer = np.empty(page_size, np.uint8)
    for page in pages:
        held = buffer[: max(0, min(page_size, file.size - page * page_size))]
        file.read_into(page * page_size, held.data)
        digest.update(held.data)
    return digest.hexdigest()


def _is_possible(name: str, value: Any) -> bool:
    if name in ("metas", "root_page", "samples"):
        return isinstance(value, str) and len(value) == _HEX_SIZE
    if name == "root" and value is None:
        return True
    if name == "page_size":
        return type(value) is int and MIN_PAGE_SIZE <= value <= MAX_PAGE_SIZE
    return type(value) is int and 0 <= value < 1 << 64
