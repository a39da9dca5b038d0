"""Hugging Face datasets: parquet files, streamed from where they lie as Arrow tables."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.compare.contestant import Epoch, Ranks, Source, Way

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
        """Gather as many records as go into a file, write it, and go on."""
        _stay_offline()
        from datasets import Dataset, Features, Value
        from datasets.utils.logging import disable_progress_bar

        disable_progress_bar()
        target.mkdir(parents=True)
        features = Features({"image": Value("binary"), "label": Value("int64")})
        records = iter(source)
        for place in range(_N_SHARDS):
            part = list(islice(records, -(-len(source) // _N_SHARDS)))
            if part:
                columns = {"image": [record.value for record in part], "label": [record.label for record in part]}
                n_group = max(1, len(part) * _ROW_GROUP_SIZE // max(1, sum(map(len, columns["image"]))))
                path = os.fspath(target / f"{place:05d}.parquet")
                Dataset.from_dict(columns, features).to_parquet(path, batch_size=n_group)

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


def _stay_offline() -> None:
    """Tell the package, before it is imported, to ask nobody."""
    os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1")


def _values(column: "ChunkedArray") -> list[memoryview]:
    return [memoryview(value.as_buffer()) for value in column]


CONTESTANT = HuggingFace()
