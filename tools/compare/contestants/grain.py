"""Grain over ArrayRecord: a data set of record numbers, permuted, sliced by rank, read by its prefetching threads."""

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final

from tools.compare.contestant import Epoch, Ranks, Source, Way
from tools.compare.contestants import arrayrecord

_SEQUENTIAL: Final = Way("sequential", "sequential", "none")
_SHUFFLED: Final = Way("shuffled", "shuffled", "global")
_N_THREADS: Final = 16
"""Its default."""
_N_PREFETCHED: Final = 16
"""Batches read ahead, one for each thread; its default of 500 is of single records."""


class Grain:
    """Batches are made before the threads: each reads a whole batch, and little Python runs for a single record."""

    name = "grain"
    requirements: tuple[str, ...] = ("grain==0.2.18", "array-record==0.8.6")
    ways = (_SEQUENTIAL, _SHUFFLED)

    def convert(self, source: Source, target: Path) -> None:
        """Write an ArrayRecord file, as Grain has no format of its own."""
        arrayrecord.write(source, target)

    def open(self, target: Path, way: Way, ranks: Ranks) -> AbstractContextManager[Epoch]:
        """Open the file; an epoch is a data set of its own, with another seed."""
        from grain import MapDataset, ReadOptions
        from grain.sources import ArrayRecordDataSource

        records = MapDataset.source(ArrayRecordDataSource(os.fspath(arrayrecord.file_in(target))))
        n_records = len(records)
        options = ReadOptions(num_threads=_N_THREADS, prefetch_buffer_size=_N_PREFETCHED)

        def epoch(number: int) -> Iterator[Sequence[memoryview]]:
            if way == _SHUFFLED:
                mine = records.shuffle(seed=ranks.seed + number)[ranks.rank :: ranks.size]
            else:
                first, end = (n_records * rank // ranks.size for rank in (ranks.rank, ranks.rank + 1))
                mine = records[first:end]
            batches = mine.map(arrayrecord.value_of).batch(ranks.batch_size, batch_fn=list)
            return iter(batches.to_iter_dataset(options))

        return nullcontext(epoch)


CONTESTANT = Grain()
