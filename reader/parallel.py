"""Reading a database by many ranks: every record once an epoch, equally many batches on every rank."""

import operator
import os
import traceback
from dataclasses import asdict
from types import TracebackType
from typing import Final, Self, TypeVar

import numpy as np

from lmdbio.comm import Comm, abort, agreement, comm_or_single
from lmdbio.errors import LmdbioError
from lmdbio.layout.path import PathLike, resolve
from lmdbio.layout.pool import BufferPool
from lmdbio.reader.collective import CollectiveLoader
from lmdbio.reader.direct import open_records
from lmdbio.reader.epoch import EpochReader
from lmdbio.reader.fetch import RecordFile
from lmdbio.reader.mpi_file import MpiFile
from lmdbio.reader.opening import check_states, mean_length, open_index
from lmdbio.reader.options import ReadOptions, options_or_default
from lmdbio.reader.prefetch import Prefetcher
from lmdbio.reader.sequence import Order, Sequence, Steps
from lmdbio.reader.settings import (
    DEFAULT_STREAMS,
    Io,
    OnError,
    Settings,
    Verify,
    agree_on,
    count_nodes,
    has_spare_core,
    ranks_of,
    require_mpi,
)
from lmdbio.reader.together import TogetherPlanner, options_together
from lmdbio.reader.unit import UnitPlanner

_PREFETCH_BYTES: Final = 256 << 20
_Planner = TypeVar("_Planner", bound=UnitPlanner)


class ParallelReader:
    """Collective. The batches of this rank, epoch by epoch.

    Iterating gives the batches of the epoch that :meth:`set_epoch` chose, 0 at first; iterating again without
    ``set_epoch`` moves on to the next epoch. Every rank gets equally many batches. Without ``drop_last`` the last
    step is padded to a multiple of the world size with the epoch's first records, and may be shorter than the others.

    Parameters
    ----------
    database
        ``x.lmdb``, ``x.lmdb/data.mdb`` or a single file.
    comm
        The ranks that read; they must all call. None: one process, or ``rank`` of ``world_size``.
    rank, world_size
        This process and how many there are, for launchers without MPI; every process opens the index by itself.
    batch_size
        Records of a step on each rank.
    order
        ``"sequential"``: layout order. ``"block"``: partitions in random order, interleaved by streams and shuffled in
        windows; whole partitions are read once. ``"global"``: a permutation of all records.
    seed
        Of the permutations, any integer.
    drop_last
        Whether records that do not fill a last step are left out.
    io
        How bytes are read. ``"independent"``: by each rank alone, ahead of need, with positioned reads from a pool of
        threads. ``"collective"``: by all ranks together, with MPI-IO's collective reads when ``next()`` needs them; see
        the notes.
    prefetch_bytes
        Bytes that are held and read ahead at most, per rank; at least about this rank's part of what ``block`` order
        shuffles together. None: 256 MiB, or twice that part where it is more. What one step needs is read even if it
        is more.
    verify
        ``"checksum"`` compares every value with the index's checksum before it is handed out.
    shuffle_window
        How many partition pieces of a stream ``block`` order shuffles together.
    streams
        How many streams ``block`` order has. None: 8, or the communicator's number of nodes where that is more.
    options
        Finer knobs.
    index
        The sidecar, where it does not stand beside the data file. Without a sidecar, rank 0 makes an index in memory.
    on_error
        ``"abort"``: an error of ``next()``, or an exception that leaves the ``with`` block, prints one message and
        ends the job where ``world_size`` is over 1, since other ranks would wait for this one for ever; after
        ``sys.exit(status)`` with that status. ``"raise"`` leaves that to the caller.

    Raises
    ------
    ValueError, TypeError
        If an argument is out of its range or of another type, or differs between ranks. Errors of opening are the same
        on every rank.
    ImportError
        If ``io`` is ``"collective"``, and MPI cannot be loaded.
    MissingDatabaseError, MissingIndexError, StaleIndexError, FormatError
        If the database or its index is not there or not fit to read.

    Notes
    -----
    With ``io="collective"`` taking a batch is Collective, and so is :meth:`close`: every rank must take equally many
    batches, in step with the others. Where all leave an epoch at the same batch, or none does, all is well. Where one
    leaves earlier, it waits in ``close()`` (or in ``iter()``, for the next epoch) until the others need their next
    read, which raises RuntimeError there and says which rank left; with ``on_error="abort"`` that ends the job.

    The first use of MPI in a process starts it; ``comm=None`` reads on ``MPI.COMM_SELF``. ``"global"`` order is read by
    runs of steps as it is otherwise, but all ranks wait for each of them: it does not pay.

    With ``on_error="raise"`` a file that turns out to be cut short is the same error on every rank. So is an error that
    the system reports to MPI only where no rank reads for another, ``hints={"romio_cb_read": "disable"}``: otherwise
    the ranks that wait for the failed one's bytes wait in MPI for ever, as MPI-IO does not tell them.
    """

    def __init__(
        self,
        database: PathLike,
        *,
        comm: Comm | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        batch_size: int,
        order: Order = "sequential",
        seed: int = 0,
        drop_last: bool = False,
        io: Io = "independent",
        prefetch_bytes: int | None = None,
        verify: Verify = "none",
        shuffle_window: int = 4,
        streams: int | None = None,
        options: ReadOptions | None = None,
        index: PathLike | None = None,
        on_error: OnError = "abort",
    ) -> None:
        self._comm = comm_or_single(comm)
        self._epoch_reader: EpochReader | None = None
        self._file: RecordFile | None = None
        self._mpi_file: MpiFile | None = None
        self.epoch = 0
        self._is_begun = False
        with agreement(self._comm):
            self.rank, self.world_size = ranks_of(self._comm, rank, world_size, has_comm=comm is not None)
            settings = Settings(batch_size, order, seed, drop_last, io, verify, shuffle_window, streams, on_error)
            self._options = options_or_default(options)
            if io == "collective" and self.world_size != self._comm.Get_size():
                raise ValueError("io: expected a communicator for 'collective', found a rank without: pass comm=")
            if io == "collective":
                require_mpi()
            if prefetch_bytes is not None and operator.index(prefetch_bytes) < 1:
                raise ValueError(f"prefetch_bytes: expected 1 or more, found {prefetch_bytes}")
        agree_on(self._comm, asdict(settings))
        self._settings = settings
        self._job = _Job(self._comm, rank=self.rank, world_size=self.world_size, on_error=on_error)
        if io == "collective":
            # what the units follow from
            limits = {"prefetch_bytes": prefetch_bytes, "coalesce": self._options.coalesce}
            agree_on(self._comm, limits | {"hints": dict(self._options.hints)})
        n_nodes, n_local_ranks = count_nodes(self._comm)
        self._streams = streams or max(DEFAULT_STREAMS, n_nodes)
        # Without a communicator nobody knows how many machines there are: many, or one, whichever is the worse.
        has_comm = self.world_size == self._comm.Get_size()
        self._has_spare_core = has_spare_core(n_local_ranks if has_comm else self.world_size)
        self.index, _ = open_index(database, index, comm=self._comm)
        with agreement(self._comm):
            self._file = open_records(
                resolve(database).data,
                direct=self._options.direct if io == "independent" else False,
                in_order=order == "sequential" and has_comm and n_nodes == 1,
            )
        check_states(self.index, self._file, self._comm)
        with agreement(self._comm):
            if verify == "checksum" and self.index.checksums is None:
                raise ValueError(
                    f"verify: expected an index with checksums, found none in {self.index.path}: "
                    f"build it again with `lmdbio-index --checksum {os.fspath(database)}`"
                )
            self._plan_epochs(prefetch_bytes)
        if io == "collective":
            self._mpi_file = MpiFile(self._file.path, self._comm, self._options.hints)

    def __len__(self) -> int:
        """Return the number of batches of an epoch, the same on every rank."""
        return self._steps.n_steps

    def __iter__(self) -> EpochReader:
        if self._file is None:
            raise ValueError("reader: expected an open one, found it closed")
        if self._is_begun:
            self.epoch += 1
        self._is_begun = True
        self._end_epoch()
        self._epoch_reader = self._read_epoch(self._file)
        return self._epoch_reader

    def set_epoch(self, epoch: int) -> None:
        """Collective. Choose the epoch that the next iteration gives, from 0.

        Raises
        ------
        ValueError
            If it is negative, or not the same on every rank; on every rank alike.
        """
        with agreement(self._comm):
            if operator.index(epoch) < 0:
                raise ValueError(f"epoch: expected 0 or more, found {epoch}")
        epochs = self._comm.allgather(epoch)
        if len(set(epochs)) > 1:
            raise ValueError(f"epoch: expected the same on every rank, found {sorted(set(epochs))}")
        self.epoch = epoch
        self._is_begun = False

    def close(self) -> None:
        """End reading: waits for reads in flight, ends the threads, closes the file. Batches handed out stay good.

        Collective with ``io="collective"``.
        """
        try:
            self._end_epoch()
            if self._mpi_file is not None:
                self._mpi_file.close()
        finally:
            self._pool.clear()
            if self._file is not None:
                self._file.close()
                self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._job.fail(error)
        self.close()

    def _plan_epochs(self, prefetch_bytes: int | None) -> None:
        """Work out what is the same in every epoch."""
        index, settings = self.index, self._settings
        n = len(index)
        self._partitions = index.partitions
        self._layout_order = index.layout_order
        self._record_size = mean_length(index)
        self._steps = Steps(
            n,
            streams=self._sequence(0).streams,
            world_size=self.world_size,
            batch_size=settings.batch_size,
            drop_last=settings.drop_last,
        )
        # The largest group of a stream, in records.
        counts = np.diff(self._partitions)
        self._group_span = settings.shuffle_window * int(counts.max(initial=0)) if settings.order == "block" else None
        self._prefetch_bytes = self._bytes_to_hold(prefetch_bytes, n_partitions=len(counts))
        self._pool = BufferPool(keep=self._prefetch_bytes // 4)

    def _bytes_to_hold(self, prefetch_bytes: int | None, *, n_partitions: int) -> int:
        """Return the limit asked for, or the default; ValueError if it is less than all streams' groups need."""
        settings = self._settings
        self._shuffled_size = 0  # about what this rank has of all streams' groups at a time
        if settings.order != "block":
            return prefetch_bytes or _PREFETCH_BYTES
        n_together = min(self._streams * settings.shuffle_window, n_partitions)
        need = n_together * len(self.index) * self._record_size // max(1, n_partitions) // self.world_size
        self._shuffled_size = need
        if prefetch_bytes is not None and prefetch_bytes < need:
            raise ValueError(
                f"prefetch_bytes: expected {need} or more, what a rank holds of the {n_together} partitions that block "
                f"order shuffles at a time, found {prefetch_bytes}: raise it, or lower shuffle_window "
                f"({settings.shuffle_window}) or streams ({self._streams})"
            )
        return prefetch_bytes or max(_PREFETCH_BYTES, 2 * need)

    def _sequence(self, epoch: int) -> Sequence:
        settings = self._settings
        return Sequence(
            len(self.index),
            self._layout_order,
            self._partitions,
            order=settings.order,
            seed=settings.seed,
            epoch=epoch,
            streams=self._streams,
            shuffle_window=settings.shuffle_window,
        )

    def _read_epoch(self, file: RecordFile) -> EpochReader:
        return EpochReader(
            index=self.index,
            source=file,
            loader=self._prefetcher(file) if self._mpi_file is None else self._collective_loader(file, self._mpi_file),
            pool=self._pool,
            n_steps=self._steps.n_steps,
            verify=self._settings.verify,
            on_error=self._job.fail,
        )

    def _prefetcher(self, file: RecordFile) -> Prefetcher:
        options = self._options
        # alone, a record brings what stands around it up to multiples of the alignment
        is_scattered = self._settings.order != "sequential"
        record_size = self._record_size + (file.align - 1 if is_scattered else 0)
        planner = self._planner(UnitPlanner, file, options, align=file.align, record_size=record_size)
        if file.is_cold():
            planner.expect_waits()
        unit_size = max(options.coalesce, self._settings.batch_size * self._record_size)
        return Prefetcher(
            planner.units(),
            source=file,
            pool=self._pool,
            depth_of=options.depth_of,
            prefetch_bytes=self._prefetch_bytes,
            window=max(options.depth_of(options.read_size) * options.read_size, 2 * unit_size),
            least_window=2 * unit_size if self._has_spare_core else 0,
            on_wait=planner.expect_waits,
        )

    def _collective_loader(self, file: RecordFile, mpi_file: MpiFile) -> CollectiveLoader:
        options = options_together(
            self._options,
            page_size=self.index.page_size,
            record_size=self._record_size,
            prefetch_bytes=self._prefetch_bytes,
        )
        planner = self._planner(TogetherPlanner, file, options, align=1, record_size=self._record_size)
        # One round while the one before is still held; larger ones than all streams' groups gain nothing.
        round_size = min(self._shuffled_size, self._prefetch_bytes - self._shuffled_size) * self.world_size
        return CollectiveLoader(
            planner.units_together(round_size // max(1, self._record_size)),
            file=mpi_file,
            source=file,
            index=self.index,
            pool=self._pool,
            shares_errors=not self._job.aborts,
        )

    def _planner(
        self, kind: type[_Planner], file: RecordFile, options: ReadOptions, *, align: int, record_size: int
    ) -> _Planner:
        return kind(
            self.index,
            self._sequence(self.epoch),
            self._steps,
            rank=self.rank,
            world_size=self.world_size,
            batch_size=self._settings.batch_size,
            file_size=file.size,
            path=file.path,
            options=options,
            align=align,
            record_size=record_size,
            group_span=self._group_span,
        )

    def _end_epoch(self) -> None:
        if self._epoch_reader is not None:
            self._epoch_reader.close()
            self._epoch_reader = None


class _Job:
    """The processes that read together: what becomes of them when one fails."""

    def __init__(self, comm: Comm, *, rank: int, world_size: int, on_error: OnError) -> None:
        self._comm = comm
        self._rank = rank
        self.aborts = on_error == "abort" and world_size > 1
        """Whether an error of one process ends all."""

    def fail(self, error: BaseException) -> None:
        """End all processes of the job with one message; return where there is but one, or the caller sees to it."""
        if not self.aborts or _is_peaceful(error):
            return
        # Errors of ours say all in one line; of others' the user needs the place.
        status, text = 1, str(error)
        if isinstance(error, SystemExit):
            if isinstance(error.code, int):
                status, text = error.code & 0xFF or 1, f"ended by sys.exit({error.code})"
        elif not isinstance(error, LmdbioError):
            text = "".join(traceback.format_exception(error)).rstrip()
        abort(self._comm, f"lmdbio: rank {self._rank}: {text}", status=status)


def _is_peaceful(error: BaseException) -> bool:
    """Return whether the exception is a way of ending in order."""
    return isinstance(error, GeneratorExit) or (isinstance(error, SystemExit) and not error.code)
