"""Readers that stand for all ranks of a job, read step by step in one process, and what they are to read."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from lmdbio.reader import ParallelReader
from lmdbio.reader.epoch import EpochReader
from lmdbio.reader.sequence import Order, Sequence

SIZES = [0, 1, 100, 3000, 5000, 20_000, 40_000] * 9
N = len(SIZES)
MORE: dict[str, Any] = {"streams": 3, "seed": 5, "shuffle_window": 1}


class Ranks:
    """Readers that stand for all ranks, in step, read one after the other."""

    def __init__(self, folder: Path, world_size: int, batch_size: int, **options: Any) -> None:
        self.readers = [
            ParallelReader(folder, rank=rank, world_size=world_size, batch_size=batch_size, **MORE | options)
            for rank in range(world_size)
        ]
        self.global_batch = world_size * batch_size

    def state(self) -> dict[str, Any]:
        """Return the state, which all must give alike and through JSON."""
        texts = {json.dumps(reader.state_dict()) for reader in self.readers}
        assert len(texts) == 1
        text = texts.pop()
        assert len(text) < 1024
        return json.loads(text)

    def load(self, state: dict[str, Any]) -> None:
        for reader in self.readers:
            reader.load_state_dict(state)

    def set_epoch(self, epoch: int) -> None:
        for reader in self.readers:
            reader.set_epoch(epoch)

    def begin(self) -> list[EpochReader]:
        return [iter(reader) for reader in self.readers]

    def step(self, epoch: list[EpochReader], values: list[bytes]) -> list[int] | None:
        """Return the records of a step, of all ranks, checked; None at the end."""
        batches = [next(rank, None) for rank in epoch]
        if batches[0] is None:
            assert batches == [None] * len(batches)
            return None
        numbers: list[int] = []
        for batch in batches:
            assert batch is not None
            assert [bytes(value) for value in batch.values] == [values[number] for number in batch.indices.tolist()]
            numbers += batch.indices.tolist()
        assert len({len(batch) for batch in batches if batch}) == 1
        return numbers

    def epoch(self, values: list[bytes]) -> list[list[int]]:
        """Return the records of each step of the next iteration."""
        steps, epoch = [], self.begin()
        while (step := self.step(epoch, values)) is not None:
            steps.append(step)
        return steps

    def close(self) -> None:
        for reader in self.readers:
            reader.close()


def sequence_of(folder: Path, order: Order, epoch: int) -> list[int]:
    with ParallelReader(folder, batch_size=1) as reader:
        index = reader.index
    sequence = Sequence(N, index.layout_order, index.partitions, order=order, epoch=epoch, **MORE)
    return sequence.records(np.arange(N)).tolist()


def assert_goes_on(steps: list[list[int]], wanted: list[int], first: list[int], ranks: Ranks) -> None:
    """Check that the steps are the wanted records in order, step by step, padded with the epoch's first."""
    size, world_size = ranks.global_batch, len(ranks.readers)
    assert len(steps) == -(-len(wanted) // size)
    for number, step in enumerate(steps):
        records = wanted[number * size : (number + 1) * size]
        assert sorted(step) == sorted(records + (first * world_size)[: -len(records) % world_size])
