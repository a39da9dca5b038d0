"""Hugging Face datasets: parquet files, streamed from where they lie as Arrow tables."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.compare.contestant import Epoch, Ranks, Record, Source, Way

if TYPE_CHECKING:
    from pyarrow import ChunkedArray

_N_SHARDS: Final = 16
"""Four for each of four ranks: a number that the ranks divide, so that it deals whole files to them."""
_BUFFER_SIZE: Final = 1000
"""Records of the shuffle's buffer: its default."""
_SEQUENTIAL: Final = Way("sequential", "sequential", "none")
_SHUFFLED: Final = Way(
    "shuffled", "shuffled", f"the files' order and a buffer of {_BUFFER_SIZE:,} records from up to 10"
)
_ROW_GROUP_SIZE: Final = 16 << 20
"""Bytes of a row group, about. By default a file of this size would be one, and up to 10 are in memory at once."""


class HuggingFace:
    """An iterable dataset over parquet files, which splits itself by rank."""

    name = "huggingface"
    requirements: tuple[str, ...] = ("datasets==5.2.0",)
    ways = (_SEQUENTIAL, _SHUFFLED)

    def convert(self, source: Source, target: Path) -> None:
        """Write the records into parquet files of like numbers, one row group at a time.

        With pyarrow, whose files it reads as they are: its own writer takes three times as long, most of it for
        copies and for boundaries that depend on the content.
        """
        import pyarrow as pa
        from pyarrow.parquet import ParquetWriter

        target.mkdir(parents=True)
        schema = pa.schema({"image": pa.binary(), "label": pa.int64()})
        records = iter(source)
        n_file = -(-len(source) // _N_SHARDS)
        for place in range(-(-len(source) // n_file)):
            path = os.fspath(target / f"{place:05d}.parquet")
            part = islice(records, n_file)
            # What an image that is compressed already gains nothing from is off.
            with ParquetWriter(path, schema, compression="none", use_dictionary=False, write_statistics=False) as file:
                for images, labels in _groups(part):
                    file.write_table(pa.table([pa.array(images, pa.binary()), pa.array(labels)], schema=schema))

    @contextmanager
    def open(self, target: Path, way: Way, ranks: Ranks) -> Iterator[Epoch]:
        """Take the rank's part of the files."""
        _stay_offline()
        from datasets import config, load_dataset
        from datasets.distributed import split_dataset_by_node

        # It would sleep 5 s at the end of each shuffled epoch, for threads of older versions of pyarrow.
        config.SLEEP_TIME_ON_THREADS_SHUTDOWN = 0
        files = [os.fspath(path) for path in sorted(target.glob("*.parquet"))]
        with tempfile.TemporaryDirectory() as cache:
            whole = load_dataset("parquet", data_files=files, split="train", streaming=True, cache_dir=cache)
            dataset = split_dataset_by_node(whole, rank=ranks.rank, world_size=ranks.size)
            if way == _SHUFFLED:
                dataset = dataset.shuffle(seed=ranks.seed, buffer_size=_BUFFER_SIZE)
            dataset = dataset.with_format("arrow")

            def epoch(number: int) -> Iterator[list[memoryview]]:
                if way == _SHUFFLED:
                    dataset.set_epoch(number)
                for table in dataset.iter(ranks.batch_size):
                    yield _values(table["image"])

            yield epoch


def _groups(records: Iterator[Record]) -> Iterator[tuple[list[bytes], list[int]]]:
    """Yield the values and labels of row groups of about ``_ROW_GROUP_SIZE`` bytes."""
    images: list[bytes] = []
    labels: list[int] = []
    size = 0
    for record in records:
        images.append(record.value)
        labels.append(record.label)
        size += len(record.value)
        if size >= _ROW_GROUP_SIZE:
            yield images, labels
            images, labels, size = [], [], 0
    if images:
        yield images, labels


def _stay_offline() -> None:
    """Tell the package, before it is imported, to ask nobody."""
    os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1")


def _values(column: "ChunkedArray") -> list[memoryview]:
    return [memoryview(value.as_buffer()) for value in column]


CONTESTANT = HuggingFace()
