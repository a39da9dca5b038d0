"""The formats: LMDB pages, the sidecar index, partitions and page order, the Datum codec. No policy, no printing."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lmdbio.layout.build import build_index
    from lmdbio.layout.index import Index

__all__ = ["Index", "build_index"]


def __getattr__(name: str) -> Any:
    # On demand, so that who needs one small part of the formats does not load them all.
    if name == "Index":
        from lmdbio.layout.index import Index

        return Index
    if name == "build_index":
        from lmdbio.layout.build import build_index

        return build_index
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
