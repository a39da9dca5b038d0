"""The databases of an ablation: the same records, written in ways that differ by one property each, and kept."""

import json
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import lmdb
import numpy as np

from lmdbio.convert.job import Job
from lmdbio.convert.options import DEFAULT_WORKERS, Options
from lmdbio.convert.planning import ConversionPlan, plan_conversion
from lmdbio.convert.target import Target
from lmdbio.convert.transfer import Progress
from lmdbio.layout import build_index
from lmdbio.layout.index import Index
from lmdbio.layout.keys import Keys, take_keys
from lmdbio.layout.plan import plan_database
from tools.ablation.records import made_records
from tools.compare.conversion import SyntheticInputs
from tools.compare.data import Synthetic

Writer: TypeAlias = Literal["stock, append", "stock, random", "lmdbio"]

_COMMIT_EVERY: Final = 1_000
"""Puts of one transaction, as in Caffe's tools."""
_PAGE_SIZE: Final = 4096
_VERSION: Final = 2
"""Raised when databases of the same variant come out otherwise."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to write the records."""

    name: str
    about: str
    """For the table."""
    writer: Writer
    order: Literal["source", "shuffle", "stratified"] = "source"
    """Of the records in the file, where lmdbio writes them."""
    align: int = 1 << 20
    partition_size: int = 16 << 20
    leaves_apart: bool = False
    """Whether all leaf pages follow the last partition."""


_SHUFFLE: Final = Variant("shuffle", "converted, order shuffle", "lmdbio", "shuffle")
MAIN: Final = (
    Variant("sorted", "(a) sorted by class, written by stock LMDB with append", "stock, append"),
    Variant("random", "(b) written by stock LMDB in random key order", "stock, random"),
    replace(_SHUFFLE, about="(c) converted, order shuffle: partitions of 16 MiB, aligned to 1 MiB"),
    Variant("stratified", "(c) converted, order stratified", "lmdbio", "stratified"),
)
ABLATED: Final = (
    replace(_SHUFFLE, name="no-align", about="(c) shuffle, aligned to the page alone", align=_PAGE_SIZE),
    replace(_SHUFFLE, name="4MiB", about="(c) shuffle, partitions of 4 MiB", partition_size=4 << 20),
    replace(_SHUFFLE, name="64MiB", about="(c) shuffle, partitions of 64 MiB", partition_size=64 << 20),
    replace(_SHUFFLE, name="leaves-apart", about="(c) shuffle, all leaf pages at the end", leaves_apart=True),
)
VARIANTS: Final = {variant.name: variant for variant in (*MAIN, *ABLATED)}


def make_database(cache: Path, variant: Variant, *, kind: str, n_records: int) -> Path:
    """Return the directory of a variant's database, made anew unless the cache holds the very same.

    It holds ``data.mdb`` and its sidecar with labels and checksums.

    Parameters
    ----------
    cache
        Where databases are kept.
    variant
        How to write it.
    kind, n_records
        The records; see :mod:`tools.ablation.records`.
    """
    goal = cache / f"ablation-{kind}-{n_records}" / f"{variant.name}.lmdb"
    stamp = goal.with_suffix(".json")
    wanted = {"version": _VERSION, "kind": kind, "n_records": n_records} | asdict(variant)
    if _read(stamp) == wanted and goal.is_dir():
        return goal
    goal.parent.mkdir(parents=True, exist_ok=True)
    remove_database(goal)
    records = made_records(kind, n_records)
    inputs = SyntheticInputs(records)
    if variant.writer == "lmdbio":
        _convert(goal, inputs, variant)
    else:
        _put(goal, records, list(inputs.inputs.paths), append=variant.writer == "stock, append")
        _index(goal, inputs)
    stamp.write_text(json.dumps(wanted))  # last: a database without it is made again
    return goal


def remove_database(database: Path) -> None:
    """Remove what :func:`make_database` made, if it is there."""
    database.with_suffix(".json").unlink(missing_ok=True)
    shutil.rmtree(database, ignore_errors=True)


def _read(stamp: Path) -> dict[str, Any] | None:
    with suppress(FileNotFoundError, json.JSONDecodeError):
        found: dict[str, Any] = json.loads(stamp.read_text())
        return found
    return None


def _put(goal: Path, records: Synthetic, keys: Sequence[bytes], *, append: bool) -> None:
    """Write the records with the stock library, in key order or a random one."""
    n_records = len(records)
    order = np.arange(n_records) if append else np.random.default_rng(1).permutation(n_records)
    map_size = 2 * int(records.sizes.sum()) + n_records * 3 * _PAGE_SIZE + (64 << 20)
    with lmdb.open(str(goal), map_size=map_size, lock=False, sync=False) as environment:
        for begin in range(0, n_records, _COMMIT_EVERY):
            with environment.begin(write=True) as transaction:
                for number in order[begin : begin + _COMMIT_EVERY].tolist():
                    transaction.put(keys[number], records.value(number), append=append)
        environment.sync(True)


def _index(goal: Path, inputs: SyntheticInputs) -> None:
    """Save the index of a database whose keys are the records' names, in their order, with labels."""
    index = build_index(goal, checksum=True)
    labelled = Index.make(
        fingerprint=index.fingerprint,
        page_size=index.page_size,
        keys=inputs.inputs.paths,
        key_order=index.key_order,
        offsets=index.offsets,
        lengths=index.lengths,
        layout_order=index.layout_order,
        partitions=index.partitions,
        labels=inputs.inputs.labels.astype(np.int64),
        checksums=index.checksums,
        class_names=list(inputs.class_names),
    )
    labelled.save(goal / "data.mdb.index")


def _convert(goal: Path, inputs: SyntheticInputs, variant: Variant) -> None:
    """Write the records as a conversion does."""
    options = Options(
        kind="folder",
        order=variant.order,
        seed=0,
        value="raw",
        key="number",
        checksum=True,
        limit=None,
        partition_size=variant.partition_size,
        n_partitions=None,
        align=variant.align,
    )
    plan = plan_conversion(inputs.inputs, options)
    if variant.leaves_apart:
        plan = _with_leaves_apart(plan, options)
    with Target(os.fspath(goal), overwrite=False) as target:
        Job(inputs, target, plan).run(options, skip=False, workers=DEFAULT_WORKERS, progress=Progress(None))
        target.publish()


def _with_leaves_apart(plan: ConversionPlan, options: Options) -> ConversionPlan:
    """Return the plan with all leaves behind the last partition.

    That is where they go as soon as the keys are not in layout order, so the last two records change keys.
    """
    keys = list(take_keys(plan.database.keys))
    keys[-2:] = reversed(keys[-2:])
    database = plan_database(
        Keys.from_list(keys),
        plan.database.lengths,
        page_size=_PAGE_SIZE,
        align=options.align,
        partition_size=options.partition_size,
    )
    return ConversionPlan(plan.numbers, database, plan.keys_cut, plan.case_collisions)
