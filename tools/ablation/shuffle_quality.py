"""How well an order shuffles, from the sequence of its epochs and the labels alone. Pure: no I/O.

Three numbers, since none of them tells all: a constant order may have well mixed batches, and an order that draws new
batches from the same neighbourhood moves no record far.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.index import Index
from lmdbio.reader.sequence import Order, Sequence

RANDOM_DISPLACEMENT: Final = 1 / 3
"""Mean displacement between two independent uniform permutations of many records."""


@dataclass(frozen=True, slots=True)
class ShuffleQuality:
    """How far an order is from a new uniform permutation in every epoch, which has 1, 1/3 and 1."""

    imbalance: float
    """See :func:`class_imbalance`: 1 as random, less where classes are spread on purpose, more where they cluster."""
    displacement: float
    """See :func:`displacement`: 1/3 as random, 0 where the order never changes."""
    repeats: float
    """See :func:`repeated_pairs`: 1 as random, more where records meet the same company again."""


def shuffle_quality(
    index: Index, *, order: Order, seed: int, batch_size: int, streams: int, shuffle_window: int, n_epochs: int
) -> ShuffleQuality:
    """Return the quality of an order on a database, each number's mean over the epochs, or pairs of epochs.

    Parameters
    ----------
    index
        With labels: the layout order and partitions that the sequence follows from.
    order, seed, streams, shuffle_window
        As for :class:`lmdbio.reader.sequence.Sequence`.
    batch_size
        Records of a global batch.
    n_epochs
        From 2.

    Raises
    ------
    ValueError
        If the index has no labels, or there are too few epochs, classes or records to tell.
    """
    if index.labels is None:
        raise ValueError(f"{index.path}: expected an index with labels, found none")
    if n_epochs < 2:
        raise ValueError(f"n_epochs: expected 2 or more, found {n_epochs}")
    positions = np.arange(len(index))
    epochs = [
        Sequence(
            len(index),
            index.layout_order,
            index.partitions,
            order=order,
            seed=seed,
            epoch=epoch,
            streams=streams,
            shuffle_window=shuffle_window,
        ).records(positions)
        for epoch in range(n_epochs)
    ]
    return quality_of(epochs, index.labels, batch_size=batch_size)


def quality_of(epochs: Seq[NDArray[np.int64]], labels: NDArray[np.integer[Any]], *, batch_size: int) -> ShuffleQuality:
    """Return the quality of epochs given as record numbers by position, each int64, shape (n_records,)."""
    pairs = list(pairwise(epochs))
    return ShuffleQuality(
        imbalance=float(np.mean([class_imbalance(labels[epoch], batch_size=batch_size) for epoch in epochs])),
        displacement=float(np.mean([displacement(*pair) for pair in pairs])),
        repeats=float(np.mean([repeated_pairs(*pair, batch_size=batch_size) for pair in pairs])),
    )


def class_imbalance(labels: NDArray[np.integer[Any]], *, batch_size: int) -> float:
    """Return how unevenly batches draw from the classes, 1.0 as a random shuffle does.

    Pearson's statistic of a batch of B records, of which o_c are of class c, whose share of all N records is p_c:
    ``X2 = sum over c of (o_c - B p_c)^2 / (B p_c)`` (K. Pearson, Philosophical Magazine 50, 1900). In a uniform
    shuffle o_c is hypergeometric, of variance ``B p_c (1 - p_c) (N - B) / (N - 1)``, so X2 is ``(C - 1) (N - B) /
    (N - 1)`` in the mean for C classes. Returned is the mean X2 over all full batches, divided by that. With batches
    of one class each it is about B.

    Parameters
    ----------
    labels
        Class by position, any integers, shape (n_records,).
    batch_size
        Records of a batch; those after the last full batch do not count.

    Raises
    ------
    ValueError
        If there are less than two classes, or no two full batches.
    """
    n_batches = len(labels) // batch_size
    classes, numbers, totals = np.unique(labels, return_inverse=True, return_counts=True)
    if len(classes) < 2 or n_batches < 2:
        raise ValueError(
            f"expected 2 classes and 2 batches or more, found {len(classes)} and {n_batches} of {batch_size}"
        )
    # counts: (n_batches, n_classes)
    taken = n_batches * batch_size
    cells = np.arange(taken) // batch_size * len(classes) + numbers[:taken]
    counts = np.bincount(cells, minlength=n_batches * len(classes)).reshape(n_batches, len(classes))
    expected = batch_size * totals / len(labels)
    statistic = float((((counts - expected) ** 2) / expected).sum(axis=1).mean())
    as_random = (len(classes) - 1) * (len(labels) - batch_size) / (len(labels) - 1)
    return statistic / as_random


def displacement(before: NDArray[np.int64], after: NDArray[np.int64]) -> float:
    """Return how far a record moves from one epoch to the next, as a share of the epoch.

    The mean of ``|i - j| / N`` for a record at position i, then j. For independent uniform permutations it is
    ``(1 - 1 / N^2) / 3``; an order that never changes has 0.

    Parameters
    ----------
    before, after
        Record numbers by position, int64, shape (n_records,).
    """
    n_records = len(before)
    return float(np.abs(_places(before) - _places(after)).mean()) / n_records


def repeated_pairs(before: NDArray[np.int64], after: NDArray[np.int64], *, batch_size: int) -> float:
    """Return how often two records that shared a batch share one again, 1.0 as after an independent uniform shuffle.

    Of the P pairs that share a batch in the first epoch, S share one in the second. A uniform shuffle of N records
    puts each pair into one batch with probability ``P / (N (N - 1) / 2)``, batches being as large as before, so
    returned is ``S / P`` divided by that. An order that never changes has about N / B, with B records in a batch.

    Parameters
    ----------
    before, after
        Record numbers by position, int64, shape (n_records,).
    batch_size
        Records of a batch; the last one may be shorter.

    Raises
    ------
    ValueError
        If no two records share a batch.
    """
    n_records = len(before)
    batches = np.arange(n_records) // batch_size
    n_pairs = _pairs(np.bincount(batches))
    if not n_pairs:
        raise ValueError(f"expected batches of 2 records or more, found {n_records} records, {batch_size} in a batch")
    # cells: the batches, before and after, of each record that was at this position before
    cells = batches * (int(batches[-1]) + 1) + batches[_places(after)[before]]
    n_shared = _pairs(np.unique(cells, return_counts=True)[1])
    return n_shared / n_pairs / (n_pairs / (n_records * (n_records - 1) / 2))


def _places(records: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the position of each record."""
    places = np.empty(len(records), np.int64)
    places[records] = np.arange(len(records))
    return places


def _pairs(sizes: NDArray[np.int64]) -> int:
    return int((sizes * (sizes - 1) // 2).sum())
