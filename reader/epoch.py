"""One epoch of one rank: units as they arrive, made into a batch for each step."""

import contextlib
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Final

import numpy as np
import xxhash

from lmdbio.errors import ChecksumError, ReadError
from lmdbio.layout.pool import BufferPool
from lmdbio.layout.ragged import copy_ranges
from lmdbio.reader.batch import Batch
from lmdbio.reader.fetch import RecordSource, find_unreadable
from lmdbio.reader.joined_index import RecordIndex
from lmdbio.reader.loader import Loaded, Loader
from lmdbio.reader.meter import Meter
from lmdbio.reader.notices import warn_of_held
from lmdbio.reader.sequence import Steps
from lmdbio.reader.settings import Verify
from lmdbio.reader.space import Space
from lmdbio.reader.unit import Unit

_SPARE_BATCHES: Final = 8
"""Batches that a caller may hold in any case, being large: the one at hand, and some on their way to a device."""


class EpochReader(Iterator[Batch]):
    """The batches of an epoch, in order. Errors come at the step that they concern, and end the epoch for good.

    Parameters
    ----------
    index
        Where the records are.
    source
        The data file.
    loader
        The rank's units; closed with the epoch, unless the next epoch's reader takes it over.
    pool
        Where buffers of gathered batches come from.
    epoch
        Its number.
    steps
        Its steps, from where it begins.
    verify
        ``"checksum"`` compares every value with its stored checksum.
    on_error
        Called with an error before it is raised.
    meter
        Counts the batches.
    prefetch_bytes
        Bytes that reading ahead may hold; the caller is warned where batches come to more than twice as many.
    hands_out
        Whether batches go to the caller; otherwise whoever takes them counts them and tells of errors.

    Raises
    ------
    RuntimeError
        By ``next()``, once the epoch was closed or an error, or an interrupt, has left ``next()``.
    """

    def __init__(
        self,
        *,
        index: RecordIndex,
        source: RecordSource,
        loader: Loader,
        pool: BufferPool,
        epoch: int,
        steps: Steps,
        verify: Verify,
        on_error: Callable[[BaseException], None],
        meter: Meter,
        prefetch_bytes: int,
        hands_out: bool = True,
    ) -> None:
        self._index = index
        self._source = source
        self._loader = loader
        self._pool = pool
        self._steps = steps
        self._verify = verify
        self._on_error = on_error
        self._meter = meter
        self._prefetch_bytes = prefetch_bytes
        self._hands_out = hands_out
        self.epoch = epoch
        self._step = 0
        self._next_need = 0  # the first step that needs a unit that is not taken
        self._loads: list[Loaded] = []  # units that this step or a later one needs
        self._end: str | None = None  # why there is nothing more to come
        self._is_done = False
        self._is_handed_on = False

    @property
    def position(self) -> int:
        """Records of the epoch that all ranks have handed out by this step, and before, without padding."""
        n_records = self._steps.n_records
        return n_records if self._is_done else min(self._steps.first_position(self._step), n_records)

    def next_loader(self) -> Loader | None:
        """Return the loader for the next epoch's reader, if this epoch came to its end and another follows there.

        It stays this one's to close until :meth:`hand_on`.
        """
        if not self._is_done or self._end is not None or self._is_handed_on or not self._loader.next_epoch():
            return None
        return self._loader

    def hand_on(self) -> None:
        """Leave the loader to another."""
        self._is_handed_on = True

    def __next__(self) -> Batch:
        try:
            return self._next()
        except StopIteration:
            raise
        except BaseException as exc:
            if self._end is not None and isinstance(exc, Exception):
                # Closed before or meanwhile, by another thread: whatever this one met then is no error of its own.
                closed = self._closed()
                self._tell(closed)
                raise closed from None
            self.abandon(exc)
            self._tell(exc)
            raise

    def abandon(self, error: BaseException) -> None:
        """End the epoch without waiting for anything: what was interrupted may be half read."""
        self._end = f"{type(error).__name__} has ended it"
        self._loads.clear()
        if not self._is_handed_on:
            self._loader.abandon()

    def _tell(self, error: BaseException) -> None:
        if self._hands_out:
            self._on_error(error)

    def _next(self) -> Batch:
        if self._is_done:
            raise StopIteration
        if self._end is not None:
            raise self._closed()
        if self._step == self._steps.n_steps:
            self._is_done = True
            raise StopIteration
        begun_at = perf_counter()
        if self._step >= self._next_need:
            self._load_units()
            self._meter.note_wait(begun_at)
        batch = self._assemble()
        if self._verify == "checksum":
            verified_at = perf_counter()
            verify_checksums(batch, self._index, self._source.space)
            self._meter.note_verified(verified_at)
        if self._end is not None:  # meanwhile: units may be gone
            raise self._closed()
        self._give_back()
        n_bytes = int(batch.lengths.sum())
        held = self._pool.lent_size
        if held > 2 * self._prefetch_bytes + _SPARE_BATCHES * n_bytes:
            warn_of_held(held, self._prefetch_bytes)
        if self._hands_out:
            self._meter.note_batch(begun_at, n_records=len(batch), n_bytes=n_bytes)
        self._step += 1
        return batch

    def close(self) -> None:
        """Wait for reads in flight and end the threads."""
        if self._end is None:
            self._end = "another was begun, or the reader was closed"
        self._loads.clear()
        if not self._is_handed_on:
            self._loader.close()

    def _closed(self) -> RuntimeError:
        return RuntimeError(f"epoch: expected the one being read, found it closed: {self._end}; begin one with iter()")

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):  # it was not made
            if not self._is_handed_on:
                self._loader.abandon()

    def _load_units(self) -> None:
        """Take all units that this step needs, and note which step needs the next."""
        while True:
            unit = self._loader.peek()
            self._next_need = self._steps.n_steps if unit is None else unit.first_step
            if unit is None or self._next_need > self._step:
                return
            load = self._loader.take()
            if isinstance(load.error, ReadError):
                raise name_unreadable(load.error, unit, self._source, self._index) from load.error
            if load.error is not None:
                raise load.error
            self._loads.append(load)

    def _give_back(self) -> None:
        """Let go of the units that no later step needs."""
        done = [load for load in self._loads if load.unit.last_step == self._step]
        if done:
            self._loads = [load for load in self._loads if load.unit.last_step > self._step]
            for load in done:
                self._loader.give_back(load)

    def _assemble(self) -> Batch:
        parts = [(load, load.unit.elements(self._step)) for load in self._loads]
        parts = [(load, taken) for load, taken in parts if taken.stop > taken.start]
        if len(parts) == 1:
            # One unit holds all of the step, and its elements are in order of slots: no copy.
            load, taken = parts[0]
            assert load.buffer is not None
            plan = load.unit.plan
            return Batch(
                self._index,
                load.unit.records[taken],
                load.buffer,
                plan.record_places[taken],
                plan.record_lengths[taken],
            )
        return self._gather(parts)

    def _gather(self, parts: list[tuple[Loaded, slice]]) -> Batch:
        size = sum(taken.stop - taken.start for _, taken in parts)
        indices, lengths = np.empty(size, np.int64), np.empty(size, np.int64)
        for load, taken in parts:
            slots = load.unit.slots[taken]
            indices[slots] = load.unit.records[taken]
            lengths[slots] = load.unit.plan.record_lengths[taken]
        ends = np.cumsum(lengths)
        places = ends - lengths
        buffer = self._pool.take(int(ends[-1]) if size else 0)
        for load, taken in parts:
            assert load.buffer is not None
            slots = load.unit.slots[taken]
            copy_ranges(buffer, places[slots], load.buffer, load.unit.plan.record_places[taken], lengths[slots])
        return Batch(self._index, indices, buffer, places, lengths)


def name_unreadable(error: ReadError, unit: Unit, source: RecordSource, index: RecordIndex) -> ReadError:
    """Return the error with the record of the unit that it concerns."""
    return find_unreadable(
        source,
        error,
        unit.offsets,
        unit.plan.record_lengths,
        lambda place: index.keys[int(unit.records[place])],
    )


def verify_checksums(batch: Batch, index: RecordIndex, space: Space) -> None:
    """Raise ChecksumError for the first value of the batch that differs from its stored checksum, XXH3-64."""
    assert index.checksums is not None
    wanted = index.checksums[batch.indices].tolist()
    for place, (checksum, value) in enumerate(zip(wanted, batch.values, strict=True)):
        found = xxhash.xxh3_64_intdigest(value)
        if found != checksum:
            number = batch.indices[place : place + 1]
            path, offset = space.place(int(index.extents(number)[0][0]))
            raise ChecksumError(
                f"{path}: key {index.keys[int(number[0])]!r}, {value.nbytes} bytes at offset {offset}: expected "
                f"checksum {checksum:016x}, found {found:016x}: the file is damaged, or its index is of another state"
            )
