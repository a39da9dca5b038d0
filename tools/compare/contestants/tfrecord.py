"""TFRecord: files of TensorFlow's examples, several of them read at once by tf.data."""

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.compare.contestant import Epoch, Ranks, Record, Source, Way

if TYPE_CHECKING:
    import tensorflow as tf

_N_SHARDS: Final = 16
"""Files: each rank takes whole ones, so 1, 2 and 4 ranks have equal shares. 1 to 4 GB give files of 64 to 250 MB."""
_N_BUFFERED: Final = 1000
"""Records of the shuffle buffer on each rank."""
_N_INTERLEAVED: Final = _N_SHARDS
"""Files that a rank reads at once: all of its own."""
_BUFFER_SIZE: Final = 1 << 20
"""Bytes of a file that one read fetches."""
_N_THREADS: Final = 16
"""Threads of tf.data: by itself it takes as many as there are cores, which wait for storage."""
_IMAGE: Final = "image/encoded"
_LABEL: Final = "image/class/label"

_SEQUENTIAL: Final = Way("sequential", "sequential", "none")
_SHUFFLED: Final = Way(
    "shuffled",
    "shuffled",
    f"{_N_SHARDS} shards dealt to ranks, each mixing its own, and a buffer of {_N_BUFFERED:,} records",
)


class TFRecord:
    """Shards are dealt to the ranks; not the newest version, whose environment is over 1.5 GB."""

    name = "tfrecord"
    requirements: tuple[str, ...] = ("tensorflow-cpu==2.18.1", "numpy==2.0.2")
    ways = (_SEQUENTIAL, _SHUFFLED)

    def convert(self, source: Source, target: Path) -> None:
        """Write every shard's run of records, one shard after the other."""
        import tensorflow as tf

        target.mkdir(parents=True)
        records = iter(source)
        for shard in range(_N_SHARDS):
            first, end = (len(source) * place // _N_SHARDS for place in (shard, shard + 1))
            path = target / f"train-{shard:05d}-of-{_N_SHARDS:05d}.tfrecord"
            with tf.io.TFRecordWriter(os.fspath(path)) as writer:
                for record in islice(records, end - first):
                    writer.write(_example(record))

    def open(self, target: Path, way: Way, ranks: Ranks) -> AbstractContextManager[Epoch]:
        """List the shards; an epoch is a data set of its own, with another seed."""
        import tensorflow as tf

        files = tf.data.Dataset.list_files(os.fspath(target / "*.tfrecord"), shuffle=False)

        def epoch(number: int) -> Iterator[Sequence[bytes]]:
            seed = ranks.seed + number if way == _SHUFFLED else None
            for batch in _batches(files, ranks, seed=seed).as_numpy_iterator():
                yield batch[_IMAGE].tolist()

        return nullcontext(epoch)


def _example(record: Record) -> bytes:
    import tensorflow as tf

    example = tf.train.Example()
    feature = example.features.feature
    feature[_IMAGE].bytes_list.value.append(record.value)
    feature[_LABEL].int64_list.value.append(record.label)
    return example.SerializeToString()


def _batches(files: "tf.data.Dataset", ranks: Ranks, *, seed: int | None) -> "tf.data.Dataset":
    """Return the batches that a rank reads from its files; without a seed in an order that does not change."""
    import tensorflow as tf

    features = {_IMAGE: tf.io.FixedLenFeature([], tf.string), _LABEL: tf.io.FixedLenFeature([], tf.int64)}
    options = tf.data.Options()
    options.deterministic = seed is None
    options.threading.private_threadpool_size = _N_THREADS
    if seed is not None:
        files = files.shuffle(_N_SHARDS, seed=seed)
    records = files.shard(ranks.size, ranks.rank).interleave(
        lambda path: tf.data.TFRecordDataset(path, buffer_size=_BUFFER_SIZE),
        cycle_length=_N_INTERLEAVED,
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    if seed is not None:
        records = records.shuffle(_N_BUFFERED, seed=seed)
    batches = records.batch(ranks.batch_size).map(
        lambda examples: tf.io.parse_example(examples, features), num_parallel_calls=tf.data.AUTOTUNE
    )
    return batches.prefetch(tf.data.AUTOTUNE).with_options(options)


CONTESTANT = TFRecord()
