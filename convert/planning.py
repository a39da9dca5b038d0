"""A source and options in, the whole plan of a database out: order, keys, sizes, pages. Pure: no I/O."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmdbio.convert.naming import NumberedKeys, PathKeys
from lmdbio.convert.options import PAGE_SIZE, Options
from lmdbio.convert.order import shuffled, spread
from lmdbio.convert.source import Inputs
from lmdbio.convert.stratify import PageNeeds, cut_and_shuffle, interleaved, shuffled_within
from lmdbio.layout.datum import value_lengths
from lmdbio.layout.needs import page_needs
from lmdbio.layout.pieces import pieces
from lmdbio.layout.plan import DatabasePlan, plan_database


@dataclass(frozen=True, slots=True, eq=False)
class ConversionPlan:
    """Which input becomes which record, under which key, where."""

    numbers: NDArray[np.int64]
    """Number of the input of each record, in plan order, int64, shape (n_records,)."""
    database: DatabasePlan
    """Keys, value sizes and pages."""
    keys_cut: int
    """Keys that were cut at 511 bytes."""
    case_collisions: int
    """Keys that equal another save for case; 0 where keys are numbered."""


def plan_conversion(inputs: Inputs, options: Options) -> ConversionPlan:
    """Return the plan of the database that inputs become.

    Raises
    ------
    SourceError
        If a key would be too long.
    ValueError
        If an option does not fit the planner; see :func:`lmdbio.layout.plan.plan_database`.
    """
    taken = spread(len(inputs), options.limit)
    if options.order == "shuffle":
        taken = taken[shuffled(len(taken), seed=options.seed)]
    elif options.order == "stratified":
        taken = taken[interleaved(inputs.labels[taken], seed=options.seed)]
        return _plan_stratified(inputs, taken, options)
    return _plan(inputs, taken, options)


def _plan_stratified(inputs: Inputs, numbers: NDArray[np.int64], options: Options) -> ConversionPlan:
    """Return the plan of interleaved inputs, shuffled within the partitions into which they are cut."""
    if options.key == "number" and options.n_partitions is None:
        needs = _page_needs(inputs, numbers, options)
        partition_pages = options.goal().partition_size // PAGE_SIZE
        order, bounds = cut_and_shuffle(needs, partition_pages=partition_pages, seed=options.seed)
        return _plan(inputs, numbers[order], options, bounds=bounds)
    # Partitions of equal bytes, or of overflow pages alone: no shuffle within them changes their size.
    bounds = np.unique(_plan(inputs, numbers, options).database.region_records_bounds)
    return _plan(inputs, shuffled_within(numbers, bounds, seed=options.seed), options, bounds=bounds)


def _page_needs(inputs: Inputs, numbers: NDArray[np.int64], options: Options) -> PageNeeds:
    lengths = _value_lengths(inputs, numbers, options)
    return PageNeeds(*page_needs(NumberedKeys(inputs.paths, numbers), lengths, page_size=PAGE_SIZE), PAGE_SIZE)


def _plan(
    inputs: Inputs, numbers: NDArray[np.int64], options: Options, *, bounds: NDArray[np.int64] | None = None
) -> ConversionPlan:
    keys: NumberedKeys | PathKeys
    if options.key == "number":
        keys = NumberedKeys(inputs.paths, numbers)
        n_cut, n_collisions = keys.n_cut, 0
    else:
        keys = PathKeys(inputs.paths, numbers)
        n_cut, n_collisions = 0, keys.case_collisions
    database = plan_database(
        keys,
        _value_lengths(inputs, numbers, options),
        page_size=PAGE_SIZE,
        align=options.align,
        partition_size=options.partition_size,
        n_partitions=options.n_partitions,
        bounds=bounds,
    )
    return ConversionPlan(numbers, database, n_cut, n_collisions)


def _value_lengths(inputs: Inputs, numbers: NDArray[np.int64], options: Options) -> NDArray[np.int64]:
    """Return the bytes of each value, int64, shape (n_records,)."""
    lengths = inputs.sizes[numbers].astype(np.int64)
    if options.value == "datum":
        for piece in pieces(len(lengths)):
            lengths[piece] = value_lengths(lengths[piece], inputs.labels[numbers[piece]].astype(np.int64))
    return lengths
