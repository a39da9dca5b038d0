"""LitData: chunk files, mapped where they lie and read chunk after chunk."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tools.compare.contestant import Epoch, Ranks, Source, Way

_CHUNK_SIZE: Final = "64MB"
"""Its default."""
_SEQUENTIAL: Final = Way("sequential", "sequential", "none")
_SHUFFLED: Final = Way("shuffled", "shuffled", "chunks of 64 MB, blocks of 256 records in them, and records in those")


class LitData:
    """Its dataset reads the rank from the environment."""

    name = "litdata"
    requirements: tuple[str, ...] = ("litdata==0.2.76", "torch==2.13.0")
    ways = (_SEQUENTIAL, _SHUFFLED)

    def convert(self, source: Source, target: Path) -> None:
        """Write the records into chunks by worker processes, which read the files themselves."""
        from litdata import optimize

        if source.folder is None:
            optimize(_samples, [source], os.fspath(target), chunk_bytes=_CHUNK_SIZE, num_workers=1, verbose=False)
            return
        files = [(os.fspath(source.folder / name), label) for name, label in source.names()]
        optimize(
            _sample,
            files,
            os.fspath(target),
            chunk_bytes=_CHUNK_SIZE,
            num_workers=os.cpu_count(),
            keep_data_ordered=True,
            reorder_files=False,
            verbose=False,
        )

    @contextmanager
    def open(self, target: Path, way: Way, ranks: Ranks) -> Iterator[Epoch]:
        """Map the chunks in place, which it does by itself where they are on a mounted file system."""
        from litdata import StreamingDataLoader, StreamingDataset

        os.environ.update(GLOBAL_RANK=str(ranks.rank), WORLD_SIZE=str(ranks.size), NNODES="1")
        # One by one: its default, windows of records, cost several times the processor time in a shuffled epoch.
        dataset = StreamingDataset(
            os.fspath(target), shuffle=way == _SHUFFLED, drop_last=False, seed=ranks.seed, batch_decode=0
        )
        # Without worker processes: its values are views of the maps, which cannot go through a pipe.
        loader = StreamingDataLoader(dataset, batch_size=ranks.batch_size, collate_fn=_values)

        def epoch(number: int) -> Iterator[list[bytes]]:
            loader.current_epoch = number
            return iter(loader)

        yield epoch


def _sample(file: tuple[str, int]) -> dict[str, Any]:
    path, label = file
    return {"image": Path(path).read_bytes(), "label": label}


def _samples(source: Source) -> Iterator[dict[str, Any]]:
    for record in source:
        yield {"image": record.value, "label": record.label}


def _values(samples: list[dict[str, Any]]) -> list[bytes]:
    return [sample["image"] for sample in samples]


CONTESTANT = LitData()
