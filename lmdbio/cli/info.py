"""``lmdbio info``: what a database holds, how it is laid out, and how its index stands."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmdbio.cli.options import Database, IndexFile, Json
from lmdbio.cli.progress import Progress
from lmdbio.cli.sizes import format_size
from lmdbio.cli.text import plural, print_json, print_table
from lmdbio.errors import FormatError, MissingIndexError, StaleIndexError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lmdbio.layout.index import Index
    from lmdbio.layout.meta import Meta, Tree

_QUANTILES = {"min": 0, "p5": 5, "p25": 25, "median": 50, "p75": 75, "p95": 95, "max": 100}
_BRIEF = ("min", "median", "max")
_CLASSES_SHOWN = 5
_HELD = {"labels": "labels", "class_names": "class names", "checksums": "checksums", "source": "how it was made"}


def info(db: Database, index: IndexFile = None, json: Json = False) -> None:
    """Print what a database holds, how its pages and partitions lie, and whether its index fits.

    Without a usable index one is built in memory, from the database's tree pages.
    """
    from lmdbio.cli.values import datum_hint
    from lmdbio.layout.file import DataFile
    from lmdbio.layout.meta import read_meta
    from lmdbio.layout.path import resolve

    path = resolve(db, index)
    with DataFile(path.data) as file:
        meta, file_size = read_meta(file), file.size
    held, state = _open_index(db, index)
    facts = {
        "data": os.fspath(path.data),
        "bytes": file_size,
        "records": len(held),
        "values": {"kind": held.value_kind, "bytes": int(held.lengths.sum()), "size": quantiles(held.lengths)},
        "pages": _pages(meta),
        "partitions": _partitions(held),
        "classes": _classes(held),
        "index": {"path": os.fspath(path.index), **state},
        "note": datum_hint(path.data, held),
    }
    if json:
        print_json(facts)
    else:
        print_table(_rows(facts))


def quantiles(numbers: "NDArray[np.int64]") -> dict[str, int]:
    """Return the numbers' quantiles by name, each one of the numbers; nothing of no numbers.

    >>> import numpy as np
    >>> quantiles(np.arange(101))["p95"], quantiles(np.arange(0))
    (95, {})
    """
    import numpy as np

    if len(numbers) == 0:
        return {}
    found = np.percentile(numbers, list(_QUANTILES.values()), method="inverted_cdf").tolist()
    return dict(zip(_QUANTILES, map(int, found), strict=True))


def _open_index(db: Path, index: Path | None) -> tuple["Index", dict[str, Any]]:
    """Return the index and its state; where the sidecar is of no use, one that is built in memory."""
    from lmdbio.layout.build import build_index
    from lmdbio.layout.index import Index
    from lmdbio.layout.path import resolve

    reason, previous = "", None
    try:
        held = Index.open(db, index)
        holds = [word for name, word in _HELD.items() if getattr(held, name) is not None]
        return held, {"state": "ok", "bytes": os.stat(resolve(db, index).index).st_size, "holds": ["extents", *holds]}
    except MissingIndexError:
        state = "missing"
    except StaleIndexError:
        state, previous = "stale", Index.open(db, index, check=False)
    except FormatError as exc:
        state, reason = "unreadable", str(exc)
    with Progress(quiet=False) as progress:
        progress.begin("reading the tree")
        held = build_index(db, previous=previous, progress=progress)
    return held, {"state": state, "reason": reason} if reason else {"state": state}


def _pages(meta: "Meta") -> dict[str, int]:
    def count(tree: "Tree") -> int:
        return tree.branch_pages + tree.leaf_pages + tree.overflow_pages

    total = meta.last_page + 1
    return {
        "size": meta.page_size,
        "total": total,
        "meta": 2,
        "branch": meta.main.branch_pages,
        "leaf": meta.main.leaf_pages,
        "overflow": meta.main.overflow_pages,
        "free_list": count(meta.free),
        "free": total - 2 - count(meta.main) - count(meta.free),
        "depth": meta.main.depth,
    }


def _partitions(index: "Index") -> dict[str, Any]:
    import numpy as np

    bounds = index.partitions
    lengths = index.lengths if index.layout_order is None else index.lengths[index.layout_order]
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))[bounds]
    return {
        "count": len(bounds) - 1,
        "records": quantiles(np.diff(bounds)),
        "bytes": quantiles(np.diff(ends)),
        "layout_order_is_key_order": index.layout_order is None,
    }


def _classes(index: "Index") -> dict[str, Any] | None:
    import numpy as np

    if index.labels is None:
        return None
    labelled = index.labels[index.labels >= 0]
    counts = np.bincount(labelled, minlength=len(index.class_names or ()))
    return {
        "count": len(counts),
        "names": None if index.class_names is None else list(index.class_names),
        "records": quantiles(counts),
        "unlabelled": len(index.labels) - len(labelled),
    }


def _rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    values, pages, partitions = facts["values"], facts["pages"], facts["partitions"]
    order = "in key order" if partitions["layout_order_is_key_order"] else "in another order than the keys"
    rows = [
        ("database", f"{facts['data']}, {format_size(facts['bytes'])}"),
        ("records", f"{facts['records']:,}, {values['kind']} values of {format_size(values['bytes'])}"),
        ("value size", _spread(values["size"], format_size)),
        ("pages", _page_line(pages)),
        ("partitions", f"{partitions['count']:,}, {order}"),
        ("  records in each", _spread(partitions["records"], "{:,}".format, names=_BRIEF)),
        ("  bytes in each", _spread(partitions["bytes"], format_size, names=_BRIEF)),
        ("classes", _class_line(facts["classes"])),
        ("index", _index_line(facts["index"])),
        ("note", facts["note"]),
    ]
    return [(name, text) for name, text in rows if text]


def _page_line(pages: dict[str, int]) -> str:
    kinds = ", ".join(f"{pages[kind]:,} {kind}" for kind in ("branch", "leaf", "overflow", "free"))
    return f"{pages['total']:,} of {pages['size']} bytes: {kinds}; depth {pages['depth']}"


def _spread(found: dict[str, int], show: Callable[[int], str], *, names: Iterable[str] = _QUANTILES) -> str:
    return ", ".join(f"{name} {show(found[name])}" for name in names if name in found)


def _class_line(classes: dict[str, Any] | None) -> str:
    if classes is None:
        return "no labels"
    names = classes["names"] or []
    more = ", …" if len(names) > _CLASSES_SHOWN else ""
    shown = f" ({', '.join(names[:_CLASSES_SHOWN])}{more})" if names else ""
    spread = _spread(classes["records"], "{:,}".format, names=_BRIEF)
    unlabelled = f"; {plural(classes['unlabelled'], 'record')} without a label" if classes["unlabelled"] else ""
    return f"{classes['count']:,}{shown}" + (f"; records in each: {spread}" if spread else "") + unlabelled


def _index_line(index: dict[str, Any]) -> str:
    if index["state"] == "ok":
        return f"ok: {index['path']}, {format_size(index['bytes'])}: {', '.join(index['holds'])}"
    advice = {"missing": "lmdbio-index makes one", "stale": "the database has changed: lmdbio-index builds it again"}
    return f"{index['state']}: {index['path']}: {advice.get(index['state']) or index['reason']}"
