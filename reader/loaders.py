"""What gives an epoch its units, for each way of reading."""

from lmdbio.layout.index import Index
from lmdbio.layout.pool import BufferPool
from lmdbio.reader.collective import CollectiveLoader
from lmdbio.reader.cursor import Cursor
from lmdbio.reader.epochs import Epochs
from lmdbio.reader.fetch import RecordFile
from lmdbio.reader.joined_file import RecordFiles
from lmdbio.reader.meter import Meter
from lmdbio.reader.mpi_file import MpiFile
from lmdbio.reader.options import ReadOptions
from lmdbio.reader.prefetch import Prefetcher
from lmdbio.reader.schedule import Schedule
from lmdbio.reader.together import TogetherPlanner, options_together
from lmdbio.reader.unit import UnitPlanner


def make_prefetcher(
    schedule: Schedule,
    cursor: Cursor,
    file: RecordFiles,
    options: ReadOptions,
    *,
    pool: BufferPool,
    meter: Meter,
    has_spare_core: bool,
) -> Prefetcher:
    """Return what reads a rank's epochs ahead by itself, from where the cursor stands.

    ``has_spare_core`` says whether a thread may help even while all is in memory.
    """
    # alone, a record brings what stands around it up to multiples of the alignment
    record_size = schedule.record_size + (file.align - 1 if schedule.is_scattered else 0)

    def make_planner(epoch: int, start: int) -> UnitPlanner:
        return schedule.planner(
            UnitPlanner,
            epoch=epoch,
            start=start,
            space=file.space,
            options=options,
            align=file.align,
            record_size=record_size,
        )

    epochs = Epochs(make_planner, epoch=cursor.epoch, start=cursor.start, is_cold=file.is_cold)
    unit_size = max(options.coalesce, schedule.batch_bytes)
    return Prefetcher(
        epochs,
        source=file,
        pool=pool,
        depth_of=options.depth_of,
        prefetch_bytes=schedule.prefetch_bytes,
        # in block order all streams come to their next groups at about the same step
        window=max(options.depth_of(options.read_size) * options.read_size, 2 * unit_size, schedule.shuffled_size),
        least_window=2 * unit_size if has_spare_core else 0,
        on_wait=epochs.expect_waits,
        meter=meter,
    )


def make_collective_loader(
    schedule: Schedule,
    cursor: Cursor,
    file: RecordFile,
    mpi_file: MpiFile,
    options: ReadOptions,
    *,
    index: Index,
    pool: BufferPool,
    meter: Meter,
    shares_errors: bool,
) -> CollectiveLoader:
    """Collective. Return what reads an epoch with all other ranks, from where the cursor stands."""
    held, shuffled = schedule.prefetch_bytes, schedule.shuffled_size
    together = options_together(
        options, page_size=index.page_size, record_size=schedule.record_size, prefetch_bytes=held
    )
    planner = schedule.planner(
        TogetherPlanner,
        epoch=cursor.epoch,
        start=cursor.start,
        space=file.space,
        options=together,
        align=1,
        record_size=schedule.record_size,
    )
    # One round while the one before is still held; larger ones than all streams' groups gain nothing.
    round_size = min(shuffled, held - shuffled) * schedule.world_size
    return CollectiveLoader(
        planner.units_together(round_size // max(1, schedule.record_size)),
        file=mpi_file,
        source=file,
        index=index,
        pool=pool,
        shares_errors=shares_errors,
        meter=meter,
    )
