"""Reading a database by many ranks: every record once an epoch, equally many batches on every rank."""

import logging
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import TracebackType
from typing import Any, Final, Self

from lmdbio.comm import Comm, agreement, comm_or_single
from lmdbio.layout.index import Index
from lmdbio.layout.path import PathLike
from lmdbio.layout.pool import BufferPool
from lmdbio.reader.batch import Batch
from lmdbio.reader.cursor import Cursor, checked_epoch
from lmdbio.reader.databases import Databases, find_databases
from lmdbio.reader.decode import Decode, DecodedEpoch, Decoder
from lmdbio.reader.epoch import EpochReader
from lmdbio.reader.fetch import RecordFile
from lmdbio.reader.job import Job
from lmdbio.reader.joined_file import RecordFiles, files_of
from lmdbio.reader.loader import Loader
from lmdbio.reader.loaders import make_collective_loader, make_prefetcher
from lmdbio.reader.meter import Meter, Stats
from lmdbio.reader.mpi_file import MpiFile
from lmdbio.reader.notices import warn_of_affinity, warn_of_readahead, warn_of_sorted_classes
from lmdbio.reader.opening import check_checksums, check_states, open_files, open_indexes
from lmdbio.reader.options import ReadOptions, options_or_default
from lmdbio.reader.schedule import Schedule
from lmdbio.reader.sequence import Order
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
from lmdbio.reader.state import State
from lmdbio.reader.timeline import DEFAULT_SPANS, Timeline

_LEAST_THREADS: Final = 2
"""The consumer, and one that reads ahead."""
_log: Final = logging.getLogger("lmdbio.reader")


class ParallelReader:
    """Collective. The batches of this rank, epoch by epoch.

    Iterating gives the batches of the epoch that :meth:`set_epoch` chose, 0 at first; iterating again without
    ``set_epoch`` moves on to the next epoch, which is logged as a warning once. Near the end of an epoch, reading goes
    on with the next. Every rank gets equally many batches. Without ``drop_last`` the last
    step is padded to a multiple of the world size with the epoch's first records, and may be shorter than the others.

    Parameters
    ----------
    database
        ``x.lmdb``, ``x.lmdb/data.mdb`` or a single file; or several of them that are read as one: a list, a glob, or a
        directory of databases whose names differ by numbers alone. Records are numbered on from one to the next, in the
        order of the list, or of names, their digits counted as numbers. Class numbers are those of one list, in which
        the databases' class names are merged. Partitions are never across files, so ``"block"`` order mixes files.
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
        The sidecar, where it does not stand beside the data file; of several databases, a list of them. Without a
        sidecar, rank 0 makes an index in memory.
    decode
        Called with the data of each record, a memoryview, in threads and ahead of need; ``batch.decoded`` has what it
        returns. It must not keep the memoryview, and what it does in Python itself, one thread at a time can do.
    decode_threads
        Threads that call ``decode``; one for each CPU that this process may use by default.
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
        database: Databases,
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
        index: PathLike | Sequence[PathLike] | None = None,
        decode: Decode | None = None,
        decode_threads: int | None = None,
        on_error: OnError = "abort",
    ) -> None:
        self._comm = comm_or_single(comm)
        self._reading = _Reading(Cursor(), None, None)
        self._decoder: Decoder | None = None
        self._file: RecordFiles | None = None
        self._mpi_file: MpiFile | None = None
        self._meter = Meter()
        self._n_retries = 0
        self._has_warned = False
        with agreement(self._comm):
            self.rank, self.world_size = ranks_of(self._comm, rank, world_size, has_comm=comm is not None)
            settings = Settings(batch_size, order, seed, drop_last, io, verify, shuffle_window, streams, on_error)
            self._options = options_or_default(options)
            if io == "collective" and self.world_size != self._comm.Get_size():
                raise ValueError("io: expected a communicator for 'collective', found a rank without: pass comm=")
            if io == "collective":
                require_mpi()
            self._decoder = None if decode is None else Decoder(decode, decode_threads)
            if prefetch_bytes is not None and operator.index(prefetch_bytes) < 1:
                raise ValueError(f"prefetch_bytes: expected 1 or more, found {prefetch_bytes}")
        agree_on(self._comm, asdict(settings))
        self._settings = settings
        self._job = Job(self._comm, rank=self.rank, world_size=self.world_size, on_error=on_error)
        if io == "collective":
            # what the units follow from
            limits = {"prefetch_bytes": prefetch_bytes, "coalesce": self._options.coalesce}
            agree_on(self._comm, limits | {"hints": dict(self._options.hints)})
        n_nodes, n_local_ranks = count_nodes(self._comm)
        # Without a communicator nobody knows how many machines there are: many, or one, whichever is the worse.
        has_comm = self.world_size == self._comm.Get_size()
        self._has_spare_core = has_spare_core(n_local_ranks if has_comm else self.world_size)
        with agreement(self._comm):
            found = find_databases(database, index)
            if io == "collective" and len(found) > 1:
                raise ValueError(f"io: expected one database for 'collective', found {len(found)}: use 'independent'")
        self.index, _ = open_indexes(found, comm=self._comm)
        with agreement(self._comm):
            self._file = open_files(
                found,
                direct=self._options.direct if io == "independent" else False,
                in_order=order == "sequential" and has_comm and n_nodes == 1,
                retries=self._options.retries,
            )
        check_states(self.index, self._file, self._comm)
        with agreement(self._comm):
            if verify == "checksum":
                check_checksums(self.index, found)
            self._prefetch_bytes = prefetch_bytes
            self._schedule = self._make_schedule(settings.streams or max(DEFAULT_STREAMS, n_nodes))
        self._pool = BufferPool(keep=self._schedule.prefetch_bytes // 4)
        if self.rank == 0:
            self._give_notice(decode_threads)
        if io == "collective":
            self._mpi_file = MpiFile(self._file.space.paths[0], self._comm, self._options.hints)

    @property
    def epoch(self) -> int:
        """The epoch that is being read, or comes next."""
        return self._reading.cursor.epoch

    def __len__(self) -> int:
        """Return the number of batches of a whole epoch, the same on every rank."""
        return self._schedule.n_steps

    def __iter__(self) -> Iterator[Batch]:
        if self._file is None:
            raise ValueError("reader: expected an open one, found it closed")
        cursor = self._reading.cursor.begin(lambda start: not self._schedule.steps(start).n_steps)
        if self._reading.cursor.is_begun:
            self._warn_of_epochs(cursor.epoch)
        epoch = self._read_epoch(self._file, cursor)
        # in one, since a state may be asked for at any moment
        self._reading = _Reading(cursor, epoch, self._schedule)
        return epoch

    def set_epoch(self, epoch: int) -> None:
        """Collective. Choose the epoch that the next iteration gives, from 0.

        It begins with the epoch's first record; but with the epoch of a state that was just loaded where that stands.

        Raises
        ------
        ValueError
            If it is negative, or not the same on every rank; on every rank alike.
        """
        with agreement(self._comm):
            epoch = checked_epoch(epoch)
        epochs = self._comm.allgather(epoch)
        if len(set(epochs)) > 1:
            raise ValueError(f"epoch: expected the same on every rank, found {sorted(set(epochs))}")
        self._reading = replace(self._reading, cursor=self._reading.cursor.choose(epoch))

    @property
    def stats(self) -> Stats:
        """What this rank has read, and how long that took, since the reader was opened."""
        return self._meter.stats(retries=self._n_retries if self._file is None else self._file.n_retries)

    def record_timeline(self, n_spans: int = DEFAULT_SPANS) -> Timeline:
        """Note from now on when each read, and each wait for one, is; the latest ``n_spans`` are kept.

        ``save()`` of what is returned writes them for a browser to show.
        """
        self._meter.timeline = Timeline(n_spans)
        return self._meter.timeline

    def state_dict(self) -> dict[str, Any]:
        """Return where the reader stands: small, for JSON, and the same on every rank that has taken as many batches.

        Good at any time: before the first batch, after any other, at the end of an epoch and after it. It counts what
        was handed out, not what was read ahead. ``epoch`` and ``position`` (records of the epoch, of all ranks
        together, without padding) say where; the rest is what the sequence follows from.
        """
        cursor, epoch = self._reading.cursor, self._reading.epoch
        position = epoch.position if cursor.is_begun and epoch is not None else cursor.start
        return self._schedule.state(cursor.epoch, position).to_fields()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Collective. Go on where a reader of the same database stood, by :meth:`state_dict`; nothing is read for that.

        World size, batch size and way of reading may be others: the epoch's sequence goes on with the next record. The
        next iteration gives what is left of the epoch; where nothing is left, the next epoch, or, after
        :meth:`set_epoch` with the state's epoch, no batch.

        Raises
        ------
        ValueError
            If it is no state, or not the same on every rank; if it is of another database or of another layout of it;
            or if ``order``, ``seed``, ``shuffle_window`` or (where they were given) ``streams`` are not the reader's.
            The message names the first that differs. On every rank alike.
        """
        with agreement(self._comm):
            loaded = State.from_fields(state)
            any_streams = self._settings.streams is None
            loaded.check(self._schedule.state(0, 0), n_records=len(self.index), any_streams=any_streams)
            schedule = self._schedule
            if loaded.streams != schedule.streams:
                schedule = self._make_schedule(loaded.streams)
        agree_on(self._comm, loaded.to_fields())
        self._schedule = schedule
        cursor = Cursor(loaded.epoch, loaded.position, is_loaded=True)
        self._reading = replace(self._reading, cursor=cursor)

    def close(self) -> None:
        """End reading: waits for reads in flight, ends the threads, closes the file. Batches handed out stay good.

        Collective with ``io="collective"``.
        """
        try:
            if self._file is not None:
                self._file.stop_retrying()
            if self._reading.epoch is not None:
                self._reading.epoch.close()
            if self._mpi_file is not None:
                self._mpi_file.close()
        finally:
            if self._decoder is not None:
                self._decoder.close()
            self._pool.clear()
            if self._file is not None:
                self._n_retries = self._file.n_retries
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

    def _make_schedule(self, streams: int) -> Schedule:
        return Schedule(
            self.index,
            self._settings,
            streams=streams,
            rank=self.rank,
            world_size=self.world_size,
            prefetch_bytes=self._prefetch_bytes,
        )

    def _give_notice(self, decode_threads: int | None) -> None:
        """Warn of what will be slow, or poor."""
        warn_of_affinity(max(_LEAST_THREADS, self._options.depth or 0, decode_threads or 0))
        if self._settings.order == "block":
            warn_of_sorted_classes(self.index, shuffle_window=self._settings.shuffle_window)
        assert self._file is not None
        for file in files_of(self._file):
            if file.align == 1:
                warn_of_readahead(file.fileno(), file.path)

    def _warn_of_epochs(self, epoch: int) -> None:
        if not self._has_warned:
            self._has_warned = True
            _log.warning(
                "epoch %d follows by itself: call set_epoch() before each epoch, so that a run that is resumed, or a "
                "loop that begins anew, does not read the same order again",
                epoch,
            )

    def _read_epoch(self, file: RecordFiles, cursor: Cursor) -> EpochReader | DecodedEpoch:
        """Return the reader of an epoch from where it begins; units that were read ahead for it are taken over."""
        before = self._reading.epoch
        loader = None
        try:
            follows = before is not None and before.epoch + 1 == cursor.epoch and not cursor.start
            if before is not None and follows and self._reading.schedule is self._schedule:
                loader = before.next_loader()
            if loader is None:
                if before is not None:
                    before.close()
                return self._make_epoch(file, cursor, self._make_loader(file, cursor))
            epoch = self._make_epoch(file, cursor, loader)
        except BaseException:
            if before is not None:
                before.close()
            raise
        assert before is not None
        before.hand_on()
        return epoch

    def _make_epoch(self, file: RecordFiles, cursor: Cursor, loader: Loader) -> EpochReader | DecodedEpoch:
        epoch = EpochReader(
            index=self.index,
            source=file,
            loader=loader,
            pool=self._pool,
            epoch=cursor.epoch,
            steps=self._schedule.steps(cursor.start),
            verify=self._settings.verify,
            on_error=self._job.fail,
            meter=self._meter,
            prefetch_bytes=self._schedule.prefetch_bytes,
            hands_out=self._decoder is None,
        )
        if self._decoder is None:
            return epoch
        return DecodedEpoch(epoch, self._decoder, on_error=self._job.fail, meter=self._meter)

    def _make_loader(self, file: RecordFiles, cursor: Cursor) -> Loader:
        if self._mpi_file is None:
            return make_prefetcher(
                self._schedule,
                cursor,
                file,
                self._options,
                pool=self._pool,
                meter=self._meter,
                has_spare_core=self._has_spare_core,
            )
        assert isinstance(file, RecordFile)
        assert isinstance(self.index, Index)
        return make_collective_loader(
            self._schedule,
            cursor,
            file,
            self._mpi_file,
            self._options,
            index=self.index,
            pool=self._pool,
            meter=self._meter,
            shares_errors=not self._job.aborts,
        )


@dataclass(frozen=True, slots=True)
class _Reading:
    """What is read, or was last."""

    cursor: Cursor
    epoch: EpochReader | DecodedEpoch | None
    schedule: Schedule | None
    """The one that the epoch was planned by."""
