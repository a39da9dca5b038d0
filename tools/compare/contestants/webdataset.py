"""WebDataset: tar files read from end to end, shuffled by the order of the files and a buffer."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.compare.contestant import Epoch, Ranks, Source, Way

if TYPE_CHECKING:
    from webdataset import WebDataset as Pipeline

_N_SHARDS: Final = 16
"""Four for each of four ranks, all of like size, since ranks are dealt whole shards."""
_BUFFER_SIZE: Final = 1000
"""Records of the shuffle's buffer, as in its documentation."""
_SEQUENTIAL: Final = Way("sequential", "sequential", "none")
_SHUFFLED: Final = Way("shuffled", "shuffled", f"a rank's own shards and a buffer of {_BUFFER_SIZE:,} records")


class WebDataset:
    """Shards are dealt to the ranks by its own node splitter, which reads the environment."""

    name = "webdataset"
    requirements: tuple[str, ...] = ("webdataset==1.0.2",)
    ways = (_SEQUENTIAL, _SHUFFLED)

    def convert(self, source: Source, target: Path) -> None:
        """Write each record as a value and a label into one of the shards."""
        write_shards(source, target)

    def open(self, target: Path, way: Way, ranks: Ranks) -> AbstractContextManager[Epoch]:
        """List the shards."""
        os.environ.update(RANK=str(ranks.rank), WORLD_SIZE=str(ranks.size))
        shards = [os.fspath(path) for path in sorted(target.glob("*.tar"))]

        def epoch(number: int) -> Iterator[list[bytes]]:
            for batch in _pipeline(shards, way, ranks, number):
                yield [value for (value,) in batch]

        return nullcontext(epoch)


def write_shards(source: Source, target: Path) -> list[tuple[Path, int]]:
    """Write a source's records to shards in a new folder, and return the shards with their numbers of records."""
    from webdataset import ShardWriter

    target.mkdir(parents=True)
    n_shard = -(-len(source) // _N_SHARDS)
    # Its other bound, 3 GB to a shard, stays out of the way.
    with ShardWriter(os.fspath(target / "%06d.tar"), maxcount=n_shard, encoder=False, verbose=0) as writer:
        for record in source:
            key = record.name.removesuffix(".JPEG")
            writer.write({"__key__": key, "jpg": record.value, "cls": b"%d" % record.label})
    paths = sorted(target.glob("*.tar"))
    return [(path, min(n_shard, len(source) - place * n_shard)) for place, path in enumerate(paths)]


def _pipeline(shards: list[str], way: Way, ranks: Ranks, epoch: int) -> "Pipeline":
    """Return what yields the batches of a rank in an epoch, each a list of tuples of one value."""
    from webdataset import WebDataset as Pipeline
    from webdataset import split_by_node

    seed = ranks.seed + epoch
    shuffled = way == _SHUFFLED
    pipeline = Pipeline(shards, nodesplitter=split_by_node, shardshuffle=len(shards) if shuffled else 0, seed=seed)
    if shuffled:
        pipeline = pipeline.shuffle(_BUFFER_SIZE, seed=seed)
    return pipeline.to_tuple("jpg").listed(ranks.batch_size)


CONTESTANT = WebDataset()
