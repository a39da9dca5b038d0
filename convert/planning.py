"""A source and options in, the whole plan of a database out: order, keys, sizes, pages. Pure: no I/O."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmdbio.convert.naming import case_collisions, numbered_keys, path_keys
from lmdbio.convert.options import Options
from lmdbio.convert.order import interleaved, shuffled, shuffled_within, spread
from lmdbio.convert.source import Inputs
from lmdbio.layout.datum import value_lengths
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
        return _plan(inputs, taken[shuffled(len(taken), seed=options.seed)], options)
    if options.order == "source":
        return _plan(inputs, taken, options)
    numbers = taken[interleaved(inputs.labels[taken], seed=options.seed)]
    plan = _plan(inputs, numbers, options)
    return _plan(inputs, shuffled_within(numbers, partition_bounds(plan.database), seed=options.seed), options)


def partition_bounds(plan: DatabasePlan) -> NDArray[np.int64]:
    """Return which records, in plan order, share a partition, int64, shape (n_groups + 1,)."""
    return np.unique(plan.region_records_bounds)


def _plan(inputs: Inputs, numbers: NDArray[np.int64], options: Options) -> ConversionPlan:
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
    )
    return ConversionPlan(numbers, database, n_cut, n_collisions)
