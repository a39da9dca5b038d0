from typing import Any

from lmdbio.convert.options import Options


def options(**changed: Any) -> Options:
    """Return the options of a plain conversion of class folders, some of them changed."""
    defaults: dict[str, Any] = {
        "kind": "folder",
        "order": "shuffle",
        "seed": 0,
        "value": "datum",
        "key": "number",
        "checksum": True,
        "limit": None,
        "partition_size": None,
        "n_partitions": None,
        "align": None,
    }
    return Options(**{**defaults, **changed})
