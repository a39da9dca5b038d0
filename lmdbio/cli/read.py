"""``lmdbio read``: reads epochs as a training script would, and tells what that took."""

import enum
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from lmdbio.cli.failure import CommandError
from lmdbio.cli.launch import communicator, find_launch
from lmdbio.cli.options import BatchSize, Json, Quiet
from lmdbio.cli.parsing import positive_number, seconds_from_0, whole_number, word_of
from lmdbio.cli.plotting import require_folder, require_plotting
from lmdbio.cli.progress import Progress
from lmdbio.cli.sizes import parse_size
from lmdbio.cli.text import print_json

if TYPE_CHECKING:
    from lmdbio.reader import ParallelReader
    from lmdbio.reader.timeline import Timeline


class _Order(enum.StrEnum):
    sequential = "sequential"
    block = "block"
    global_ = "global"


class _Io(enum.StrEnum):
    independent = "independent"
    collective = "collective"


class _Direct(enum.StrEnum):
    auto = "auto"
    on = "on"
    off = "off"


_DIRECT: "Final[dict[_Direct, bool | Literal['auto']]]" = {
    _Direct.auto: "auto",
    _Direct.on: True,
    _Direct.off: False,
}


def read(
    dbs: Annotated[
        list[Path],
        typer.Argument(
            metavar="DB...",
            help="A database, or several that are read as one: many, a quoted glob, a directory of numbered ones.",
            show_default=False,
            readable=False,
        ),
    ],
    order: Annotated[
        _Order, typer.Option(metavar="sequential|block|global", parser=word_of(_Order), help="Of the records.")
    ] = _Order.sequential,
    batch_size: BatchSize = 64,
    epochs: Annotated[int, typer.Option(metavar="N", parser=positive_number, help="How many are read.")] = 1,
    seed: Annotated[int, typer.Option(metavar="N", parser=whole_number, help="Of the orders that shuffle.")] = 0,
    io: Annotated[
        _Io, typer.Option(metavar="independent|collective", parser=word_of(_Io), help="How bytes are read.")
    ] = _Io.independent,
    direct: Annotated[
        _Direct,
        typer.Option(metavar="auto|on|off", parser=word_of(_Direct), help="Whether reads go past the page cache."),
    ] = _Direct.auto,
    prefetch_bytes: Annotated[
        int | None,
        typer.Option(
            metavar="SIZE",
            parser=parse_size,
            help="Bytes that are held and read ahead at most, on each rank; 256MiB, or what block order needs.",
            show_default=False,
        ),
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option(metavar="N", parser=positive_number, help="Reads in flight at most.", show_default=False),
    ] = None,
    compute: Annotated[
        float,
        typer.Option(metavar="SECONDS", parser=seconds_from_0, help="Sleep so long after each batch, as if training."),
    ] = 0.0,
    checksum: Annotated[bool, typer.Option("--checksum", help="Compare every value with its stored checksum.")] = False,
    timeline: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write when each read and wait was, as Chrome trace JSON; several ranks add .0, .1, … to the name.",
            show_default=False,
            readable=False,
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw rank 0's reads and waits, as PNG, SVG or PDF.",
            show_default=False,
            readable=False,
        ),
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Read epochs as a training script would, and tell what that took.

    Under mpiexec or srun all ranks read, each its part of every batch.
    """
    from lmdbio.cli.read_report import Epoch, print_epochs, report_as_json
    from lmdbio.comm import agreement
    from lmdbio.reader import ParallelReader, ReadOptions

    comm, talks = communicator(), find_launch().rank == 0
    with agreement(comm):
        if plot is not None and talks:
            require_plotting(plot)
        if timeline is not None:
            require_folder(timeline)
    try:
        reader = ParallelReader(
            [*dbs],
            comm=comm,
            batch_size=batch_size,
            order=order.value,
            seed=seed,
            io=io.value,
            verify="checksum" if checksum else "none",
            prefetch_bytes=prefetch_bytes,
            options=ReadOptions(direct=_DIRECT[direct], depth=depth),
        )
    except (ValueError, ImportError) as exc:
        raise CommandError(str(exc)) from None
    done: list[Epoch] = []
    with reader, Progress(quiet=quiet) as progress:
        noted = reader.record_timeline() if timeline is not None or plot is not None else None
        for epoch in range(epochs):
            before = reader.stats
            reader.set_epoch(epoch)
            progress.begin(f"epoch {epoch}", len(reader), unit="steps")
            _read_epoch(reader, progress, compute_s=compute)
            done.append(Epoch(epoch, comm.allgather(reader.stats - before)))
        n_records, order_name = len(reader.index), order.value
    if noted is not None:
        _save(noted, timeline, plot, rank=find_launch().rank, n_ranks=find_launch().size, title=str(dbs[0]))
    if talks and json:
        print_json(report_as_json(done, n_records=n_records, order=order_name, batch_size=batch_size))
    elif talks and not quiet:
        print_epochs(done)


def _read_epoch(reader: "ParallelReader", progress: Progress, *, compute_s: float) -> None:
    begun, n_bytes = time.perf_counter(), 0
    for step, batch in enumerate(reader, 1):
        n_bytes += int(batch.lengths.sum())
        batch.release()
        progress.show(step, f"{n_bytes / 1e6 / max(time.perf_counter() - begun, 1e-9):,.1f} MB/s on rank 0")
        if compute_s:
            time.sleep(compute_s)


def _save(noted: "Timeline", timeline: Path | None, plot: Path | None, *, rank: int, n_ranks: int, title: str) -> None:
    if timeline is not None:
        noted.save(f"{timeline}.{rank}" if n_ranks > 1 else timeline, rank=rank)
    if plot is not None and rank == 0:
        from lmdbio.cli.read_plot import draw

        draw(noted.spans, plot, title=title)
