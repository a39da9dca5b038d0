"""MosaicML Streaming: MDS shards, read in place by record number in an order that its dataset plans."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tools.compare.contestant import Epoch, Ranks, Source, Way

if TYPE_CHECKING:
    from streaming import StreamingDataset

_COLUMNS: Final = {"image": "bytes", "label": "int"}
_SEQUENTIAL: Final = Way("sequential", "sequential", "none")
_SHUFFLED: Final = Way(
    "shuffled", "shuffled", "a rank's own part, each shard spread over 262,144 records or more (py1e)"
)
_PREDOWNLOAD: Final = 100_000
"""Records that its threads look at ahead. All are there, so a low number makes them only wait and look again."""


class Mds:
    """Every rank stands for a node, since its mount may be its own; its dataset deals the records."""

    name = "mds"
    requirements: tuple[str, ...] = ("mosaicml-streaming==0.13.0", "torch==2.13.0", "numpy==2.1.3", "xxhash==3.8.2")
    ways = (_SEQUENTIAL, _SHUFFLED)

    def convert(self, source: Source, target: Path) -> None:
        """Write each record's value and label into shards of its default size, 64 MiB."""
        _define_operators()
        from streaming import MDSWriter

        with MDSWriter(out=os.fspath(target), columns=_COLUMNS) as writer:
            for record in source:
                writer.write({"image": record.value, "label": record.label})

    @contextmanager
    def open(self, target: Path, way: Way, ranks: Ranks) -> Iterator[Epoch]:
        """Plan the epochs; the values are read in this process, by number."""
        from torch.utils.data import DataLoader

        dataset = _dataset(target, way, ranks)
        loader = DataLoader(dataset, ranks.batch_size, collate_fn=_values)

        def epoch(number: int) -> Iterator[list[bytes]]:
            dataset.next_epoch = number
            return iter(loader)

        yield epoch


def _dataset(target: Path, way: Way, ranks: Ranks) -> "StreamingDataset":
    """Return the dataset of a rank.

    At more than one rank up to a record each is read twice, which makes the ranks equal.
    """
    _define_operators()
    from streaming import StreamingDataset
    from torch import distributed

    os.environ.update(RANK=str(ranks.rank), WORLD_SIZE=str(ranks.size), LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")
    # It would connect the ranks for what it needs no connection for; being alone in a group keeps it from that.
    if not distributed.is_initialized():
        distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    # "Nodes" on one machine would take the same names for what they share with their workers: one by one they do not.
    folder = os.open(tempfile.gettempdir(), os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        return StreamingDataset(
            local=os.fspath(target),
            batch_size=ranks.batch_size,
            shuffle=way == _SHUFFLED,
            shuffle_seed=ranks.seed,
            predownload=_PREDOWNLOAD,
        )
    finally:
        os.close(folder)


@cache
def _define_operators() -> None:
    """Let the package import torchvision beside a torch without CUDA.

    The wheel of torchvision on the index is for CUDA. Nothing here calls it, but it cannot be imported without two
    operators, which its own library would define.
    """
    from torch.library import define

    for name in ("nms", "qnms"):
        define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def _values(samples: list[dict[str, Any]]) -> list[bytes]:
    return [sample["image"] for sample in samples]


CONTESTANT = Mds()
