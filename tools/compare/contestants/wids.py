"""wids: WebDataset's shards through an index of their members, made when a shard is first touched."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tools.compare.contestant import Epoch, Ranks, Source, Way
from tools.compare.contestants.webdataset import write_shards

if TYPE_CHECKING:
    from wids import ChunkedSampler, ShardListDataset

_CHUNK_SIZE: Final = 1000
"""Records that are shuffled with each other, as in its examples."""
_INDEX: Final = "index.json"
_SEQUENTIAL: Final = Way("sequential", "sequential", "none")
_SHUFFLED: Final = Way("shuffled", "shuffled", f"runs of {_CHUNK_SIZE:,} records of a rank's own part, and their order")


class Wids:
    """Records are dealt to the ranks as its distributed sampler does, which would ask torch for the rank."""

    name = "wids"
    requirements: tuple[str, ...] = ("wids==0.1.11", "webdataset==1.0.2", "torch==2.13.0")
    ways = (_SEQUENTIAL, _SHUFFLED)

    def convert(self, source: Source, target: Path) -> None:
        """Write the shards, and the list of them."""
        shards = write_shards(source, target)
        listed = [{"url": path.name, "nsamples": n_records} for path, n_records in shards]
        index = {"__kind__": "wids-shard-index-v1", "wids_version": 1, "shardlist": listed}
        (target / _INDEX).write_text(json.dumps(index))

    @contextmanager
    def open(self, target: Path, way: Way, ranks: Ranks) -> Iterator[Epoch]:
        """Open the list of shards; a shard is mapped where it lies."""
        from torch.utils.data import DataLoader
        from wids import ShardListDataset

        shards = json.loads((target / _INDEX).read_text())["shardlist"]
        for shard in shards:
            shard["url"] = os.fspath(target / shard["url"])
        dataset = ShardListDataset(shards, lru_size=len(shards), localname=str, transformations=[_value], keep=True)
        sampler = _sampler(dataset, way, ranks)
        # Without worker processes: two of them cost more processor time, as every value goes through a pipe.
        loader = DataLoader(dataset, ranks.batch_size, sampler=sampler, collate_fn=list)

        def epoch(number: int) -> Iterator[Sequence[bytes]]:
            sampler.set_epoch(number)
            return iter(loader)

        yield epoch
        dataset.close()


def _value(sample: dict[str, Any]) -> bytes:
    value: bytes = sample[".jpg"].getvalue()
    return value


def _sampler(dataset: "ShardListDataset[bytes]", way: Way, ranks: Ranks) -> "ChunkedSampler":
    """Return the sampler that its DistributedChunkedSampler would return to this rank."""
    from wids import ChunkedSampler

    n_rank = -(-len(dataset) // ranks.size)
    part = (ranks.rank * n_rank, min((ranks.rank + 1) * n_rank, len(dataset)))
    return ChunkedSampler(
        dataset,
        num_samples=part,
        chunksize=_CHUNK_SIZE,
        seed=ranks.seed,
        shuffle=way == _SHUFFLED,
        shufflefirst=True,
    )


CONTESTANT = Wids()
