"""Convert: find the inputs, plan, write, index, publish."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TypeAlias

from lmdbio.convert.arrangement import arrange
from lmdbio.convert.job import Job
from lmdbio.convert.options import DEFAULT_WORKERS, ON_ERROR, Options, at_least_one, one_of
from lmdbio.convert.planning import plan_conversion
from lmdbio.convert.report import Report
from lmdbio.convert.source import Source
from lmdbio.convert.space import check_space
from lmdbio.convert.transfer import SKIP_HINT, Progress
from lmdbio.errors import SourceError

PathLike: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]


def convert(
    source: PathLike,
    dst: PathLike,
    *,
    kind: str = "imagenet",
    order: str = "shuffle",
    seed: int = 0,
    partition_size: int | None = None,
    n_partitions: int | None = None,
    align: int | None = None,
    value: str = "datum",
    key: str = "number",
    checksum: bool = True,
    workers: int | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    limit: int | None = None,
    on_error: str = "raise",
    progress: Callable[[int, int], None] | None = None,
    planned: Callable[[Report], None] | None = None,
) -> Report:
    """Return a report of the databases, each with its sidecar, that a data set was made into.

    The bytes of the databases follow from the inputs and from the options up to ``limit``, never from ``workers``.

    Parameters
    ----------
    source
        The data set's directory.
    dst
        ``folder``: the database's directory. ``imagenet``: a directory for ``train.lmdb`` and ``val.lmdb``.
    kind
        ``imagenet``: ``train/`` and ``val/``, or one of them, with class folders. ``folder``: class folders.
    order
        Order of the records in the file: ``shuffle``, once over all; ``stratified``, each partition with each class in
        its share, shuffled within; ``source``, as found.
    seed
        Seed of the order.
    partition_size, n_partitions
        Bytes of a partition, 16 MiB by default, or the number of partitions.
    align
        Bytes at whose multiples partitions begin: 1 MiB by default, or the page size where that would waste space.
    value
        ``datum``: Caffe's Datum with the image and its label. ``raw``: the image alone.
    key
        ``number``: ``<number in plan order>_<path>``. ``path``: the path alone.
    checksum
        Whether the sidecar holds each record's checksum.
    workers
        Threads that read files; 16 by default. More help where each file takes long to open, as on a network.
    overwrite
        Whether a database that stands at the target is replaced.
    dry_run
        Whether to plan and check only, and write nothing.
    limit
        The most records of each database: this many, evenly spread over the inputs in the source's order.
    on_error
        ``raise``: the first bad input ends the conversion. ``skip``: bad inputs are left out and reported; one found
        bad while it is read leaves its number unused.
    progress
        Called with the records and input bytes done so far, from one thread at a time, at most ten times a second and
        at the end.
    planned
        Called once, before anything is written, with what a dry run returns.

    Raises
    ------
    SourceError
        If the source is missing or empty or of another kind, or an input is bad.
    TargetError
        If the target exists, or cannot be written.
    ValueError
        If an option is out of range.

    Notes
    -----
    A file that vanishes, or changes its size or kind, between the listing and its last byte is a bad input. One that is
    rewritten at its old size is taken as it is read; a write in the midst of that is noticed in files over 16 MiB only.
    """
    started = time.monotonic()
    options = Options(kind, order, seed, value, key, checksum, limit, partition_size, n_partitions, align)
    one_of("on_error", on_error, ON_ERROR)
    at_least_one("workers", workers)
    root, skip = os.fsencode(source), on_error == "skip"
    n_threads = DEFAULT_WORKERS if workers is None else workers
    arrangement = arrange(root, os.fsdecode(dst), kind, overwrite=overwrite)
    arrangement.check()
    with ExitStack() as stack:
        if not dry_run:
            arrangement.enter(stack)
        sources = arrangement.open(options, workers=n_threads)
        for opened in sources:
            stack.callback(opened.close)
        _refuse_bad(sources, skip=skip)
        jobs = [
            Job(opened, target, plan_conversion(opened.inputs, options))
            for opened, target in zip(sources, arrangement.targets, strict=True)
        ]
        others = tuple(arrangement.others)
        planned_jobs = tuple(job.planned() for job in jobs)
        plans = Report(planned_jobs, time.monotonic() - started, dry_run=True, other_folders=others)
        check_space([(job.target.path, job.space()) for job in jobs])
        if planned is not None:
            planned(plans)
        if dry_run:
            return plans
        count = Progress(progress)
        reports = [job.run(options, skip=skip, workers=n_threads, progress=count) for job in jobs]
        count.finish()
        for (
            job
        ) in jobs:  # one after the other, now that all are whole: a split never stands without the others for long
            job.target.publish()
    return Report(tuple(reports), time.monotonic() - started, other_folders=others)


def _refuse_bad(sources: Sequence[Source], *, skip: bool) -> None:
    bad = [found for source in sources for found in source.bad]
    if bad and not skip:
        more = f" ({len(bad)} bad inputs in all)" if len(bad) > 1 else ""
        raise SourceError(f"{bad[0].path}: {bad[0].reason}{more}; {SKIP_HINT}")
    for source in sources:
        if not len(source.inputs):
            raise SourceError(f"{source.name}: expected images in its class folders, found {_instead(source)}")


def _instead(source: Source) -> str:
    found = [f"{count} {what}" for what, count in source.ignored.items()]
    if source.bad:
        found.append(f"{len(source.bad)} bad inputs, the first: {source.bad[0].path}: {source.bad[0].reason}")
    return ", ".join(found) or f"{len(source.class_names)} empty folder(s)"
