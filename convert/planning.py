"""A source and options in, the whole plan of a database out: order, keys, sizes, pages. Pure: no I/O."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmdbio.convert.naming import case_collisions, numbered_keys, path_keys
from lmdbio.convert.options import Options
from lmdbio.convert.order import shuffled, spread
from lmdbio.convert.source import Inputs
from lmdbio.convert.stratify import PageNeeds, cut_and_shuffle, interleaved, shuffled_within
from lmdbio.layout.datum import value_lengths
from lmdbio.layout.page import is_inline, leaf_node_sizes, overflow_pages
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
    if options.order == "source":
        return _plan(inputs, taken, options)
    if options.order == "shuffle":
        return _plan(inputs, taken[shuffled(len(taken), seed=options.seed)], options)
    return _plan_stratified(inputs, taken[interleaved(inputs.labels[taken], seed=options.seed)], options)


def _plan_stratified(inputs: Inputs, numbers: NDArray[np.int64], options: Options) -> ConversionPlan:
    """Return the plan of interleaved inputs, shuffled within the partitions into which they are cut."""
    before = _plan(inputs, numbers, options)
    database = before.database
    if options.key == "number" and options.n_partitions is None:
        order, bounds = cut_and_shuffle(
            _page_needs(database), partition_pages=database.partition_size // database.page_size, seed=options.seed
        )
        return _plan(inputs, numbers[order], options, bounds=bounds)
    bounds = np.unique(database.region_records_bounds)
    # Partitions of equal bytes, or of overflow pages alone: no shuffle within them changes their size.
    return _plan(inputs, shuffled_within(numbers, bounds, seed=options.seed), options, bounds=bounds)


def _page_needs(plan: DatabasePlan) -> PageNeeds:
    sizes = plan.keys.sizes
    inline = is_inline(sizes, plan.lengths, plan.page_size)
    pages = np.where(inline, 0, overflow_pages(plan.lengths, plan.page_size))
    return PageNeeds(pages, leaf_node_sizes(sizes, plan.lengths, plan.page_size), plan.page_size)


def _plan(
    inputs: Inputs, numbers: NDArray[np.int64], options: Options, *, bounds: NDArray[np.int64] | None = None
) -> ConversionPlan:
    if options.key == "number":
        keys, n_cut = numbered_keys(inputs.paths, numbers)
        n_collisions = 0
    else:
        keys, n_cut = path_keys(inputs.paths, numbers), 0
        n_collisions = case_collisions(keys)
    sizes = inputs.sizes[numbers]
    database = plan_database(
        keys,
        value_lengths(sizes, inputs.labels[numbers]) if options.value == "datum" else sizes,
        align=options.align,
        partition_size=options.partition_size,
        n_partitions=options.n_partitions,
        bounds=bounds,
    )
    return ConversionPlan(numbers, database, n_cut, n_collisions)
