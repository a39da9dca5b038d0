"""What is the same in every epoch of a reader: its sequences, how they are dealt, how much is held. Pure: no I/O."""

import operator
from functools import cached_property
from typing import Final, TypeVar

import numpy as np

from lmdbio.reader.joined_index import RecordIndex
from lmdbio.reader.opening import mean_length
from lmdbio.reader.options import ReadOptions
from lmdbio.reader.sequence import Sequence, Steps
from lmdbio.reader.settings import Settings
from lmdbio.reader.space import Space
from lmdbio.reader.state import VERSION, State, hash_layout
from lmdbio.reader.unit import UnitPlanner

PREFETCH_BYTES: Final = 256 << 20
"""Bytes that are held and read ahead by default, where ``block`` order needs no more."""
_Planner = TypeVar("_Planner", bound=UnitPlanner)


class Schedule:
    """The epochs of one rank.

    Parameters
    ----------
    index
        Where the records are.
    settings
        The reader's.
    streams
        How many streams ``block`` order has.
    rank, world_size
        This rank, and how many there are.
    prefetch_bytes
        As in :class:`lmdbio.reader.ParallelReader`.

    Raises
    ------
    ValueError
        If ``prefetch_bytes`` is less than what is shuffled together needs.
    """

    def __init__(
        self,
        index: RecordIndex,
        settings: Settings,
        *,
        streams: int,
        rank: int,
        world_size: int,
        prefetch_bytes: int | None,
    ) -> None:
        self._index = index
        self._settings = settings
        self._rank = rank
        self.world_size = world_size
        self._partitions = index.partitions
        self._layout_order = index.layout_order
        counts = np.diff(self._partitions)
        self._group_span = settings.shuffle_window * int(counts.max(initial=0)) if settings.order == "block" else None
        self.streams = streams
        self.record_size = mean_length(index)
        """Bytes of a value, on average."""
        self.shuffled_size = self._size_of_groups(len(counts))
        """Bytes that this rank has of all streams' groups at a time, about."""
        self.prefetch_bytes = self._bytes_to_hold(prefetch_bytes, n_partitions=len(counts))
        """Bytes that are held and read ahead at most."""

    @property
    def is_scattered(self) -> bool:
        """Whether records that are read one after the other may lie anywhere."""
        return self._settings.order != "sequential"

    @property
    def batch_bytes(self) -> int:
        """Bytes of a rank's batch, about."""
        return self._settings.batch_size * self.record_size

    @property
    def n_steps(self) -> int:
        """Steps of a whole epoch."""
        return self.steps(0).n_steps

    def sequence(self, epoch: int) -> Sequence:
        """Return the records of an epoch by position."""
        settings = self._settings
        return Sequence(
            len(self._index),
            self._layout_order,
            self._partitions,
            order=settings.order,
            seed=settings.seed,
            epoch=epoch,
            streams=self.streams,
            shuffle_window=settings.shuffle_window,
        )

    def steps(self, start: int) -> Steps:
        """Return the steps from a position on."""
        settings = self._settings
        return Steps(
            len(self._index),
            streams=self.streams if settings.order == "block" else 1,
            world_size=self.world_size,
            batch_size=settings.batch_size,
            drop_last=settings.drop_last,
            start=start,
        )

    def state(self, epoch: int, position: int) -> State:
        """Return the state of a reader that stands at a position of an epoch."""
        settings = self._settings
        return State(
            version=VERSION,
            fingerprint=self._index.digest(),
            layout=self._layout_hash,
            order=settings.order,
            seed=operator.index(settings.seed),
            streams=self.streams,
            shuffle_window=settings.shuffle_window,
            epoch=epoch,
            position=position,
        )

    @cached_property
    def _layout_hash(self) -> str:
        return hash_layout(self._layout_order, self._partitions)

    def planner(
        self,
        kind: type[_Planner],
        *,
        epoch: int,
        start: int,
        space: Space,
        options: ReadOptions,
        align: int,
        record_size: int,
    ) -> _Planner:
        """Return what plans this rank's units of an epoch from a position on; see :class:`UnitPlanner`."""
        return kind(
            self._index,
            self.sequence(epoch),
            self.steps(start),
            rank=self._rank,
            world_size=self.world_size,
            batch_size=self._settings.batch_size,
            space=space,
            options=options,
            align=align,
            record_size=record_size,
            group_span=self._group_span,
        )

    def _n_together(self, n_partitions: int) -> int:
        """Return how many partitions are shuffled at a time, in all streams' groups together."""
        return min(self.streams * self._settings.shuffle_window, n_partitions)

    def _size_of_groups(self, n_partitions: int) -> int:
        if self._settings.order != "block":
            return 0
        size = self._n_together(n_partitions) * len(self._index) * self.record_size
        return size // max(1, n_partitions) // self.world_size

    def _bytes_to_hold(self, prefetch_bytes: int | None, *, n_partitions: int) -> int:
        """Return the limit asked for, or the default; ValueError if it is less than all streams' groups need."""
        need = self.shuffled_size
        if prefetch_bytes is not None and prefetch_bytes < need:
            raise ValueError(
                f"prefetch_bytes: expected {need} or more, what a rank holds of the {self._n_together(n_partitions)} "
                f"partitions that block order shuffles at a time, found {prefetch_bytes}: raise it, or lower "
                f"shuffle_window ({self._settings.shuffle_window}) or streams ({self.streams})"
            )
        return prefetch_bytes or max(PREFETCH_BYTES, 2 * need)
