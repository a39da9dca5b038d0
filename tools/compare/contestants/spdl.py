"""SPDL: plain files in class folders, read by the threads of its pipeline."""

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from tools.compare.contestant import Epoch, Ranks, Source, Way
from tools.compare.contestants.files import CONTESTANT as FILES
from tools.compare.data import Folder

if TYPE_CHECKING:
    from spdl.pipeline import PipelineBuilder
    from spdl.source import DistributedDeterministicSampler, DistributedRandomSampler

    Sampler: TypeAlias = DistributedDeterministicSampler | DistributedRandomSampler

_SEQUENTIAL: Final = Way("sequential", "sequential", "none")
_SHUFFLED: Final = Way("shuffled", "shuffled", "global")
_N_THREADS: Final = 16
"""Batches that are read at once, each file by file: twice its data loader's default, as opening a file waits, too."""
_N_BUFFERED: Final = 3
"""Batches that are ready: its default."""


class Spdl:
    """Its own sampler deals the files to the ranks; a task of the pipeline reads the files of a batch."""

    name = "spdl"
    requirements: tuple[str, ...] = ("spdl==0.8.0",)
    ways = (_SEQUENTIAL, _SHUFFLED)

    def convert(self, source: Source, target: Path) -> None:
        """Write each record to a file of its name, as there is nothing to convert."""
        FILES.convert(source, target)

    def open(self, target: Path, way: Way, ranks: Ranks) -> AbstractContextManager[Epoch]:
        """List the files; an epoch is a pipeline of its own."""
        from spdl.pipeline import PipelineBuilder

        paths = [os.fspath(target / name) for name, _ in Folder(target).names()]

        def epoch(number: int) -> Iterator[list[bytes]]:
            return _read_all(PipelineBuilder(), paths, _sampler(len(paths), way, ranks, number), ranks.batch_size)

        return nullcontext(epoch)


def _sampler(n_files: int, way: Way, ranks: Ranks, epoch: int) -> "Sampler":
    """Return the sampler of a rank for an epoch; it leaves no file out."""
    from spdl.source import DistributedDeterministicSampler, DistributedRandomSampler

    if way == _SEQUENTIAL:
        return DistributedDeterministicSampler(
            n_files, rank=ranks.rank, world_size=ranks.size, ddp_drop_last_distributed_round=False
        )
    sampler = DistributedRandomSampler(
        n_files, rank=ranks.rank, world_size=ranks.size, ddp_drop_last_distributed_round=False
    )
    sampler.shuffle(ranks.seed + epoch)
    return sampler


def _read_all(
    builder: "PipelineBuilder", paths: list[str], sampler: "Sampler", batch_size: int
) -> Iterator[list[bytes]]:
    """Yield the batches that a pipeline reads, in whatever order they are ready."""
    pipeline = (
        builder.add_source(paths[number] for number in sampler)
        .aggregate(batch_size)
        .pipe(_read, concurrency=_N_THREADS)
        .add_sink(_N_BUFFERED)
        .build(num_threads=_N_THREADS)
    )
    with pipeline.auto_stop():
        yield from pipeline.get_iterator()


def _read(paths: Sequence[str]) -> list[bytes]:
    values = []
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            values.append(file.read())
    return values


CONTESTANT = Spdl()
