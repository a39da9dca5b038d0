"""At 1 to 7 ranks, of 0 to 5,000 records in one file or several: each record once, one sequence, stock's bytes."""

from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest

from lmdbio.layout import build_index
from lmdbio.reader import ParallelReader
from lmdbio.reader.sequence import ORDERS, Order

WORLD_SIZES = (1, 2, 3, 4, 7)
Made = tuple[list[Path], list[bytes]]


def make(folder: Path, n_records: int, n_files: int) -> Made:
    """Make files that stock LMDB wrote, with sidecars, and return them with what stock reads, in order of numbers."""
    folder.mkdir()
    rng = np.random.default_rng(n_records)
    cuts = [n_records * number // n_files for number in range(n_files + 1)]
    paths, values = [], []
    for number in range(n_files):
        path = folder / f"{number}.mdb"
        with lmdb.open(str(path), subdir=False, map_size=1 << 28, lock=False) as env:
            with env.begin(write=True) as txn:
                for record in rng.permutation(np.arange(cuts[number], cuts[number + 1])).tolist():
                    txn.put(b"%06d" % record, rng.bytes(int(rng.integers(1, 6000))))
            with env.begin() as txn:
                values += [bytes(value) for _, value in txn.cursor()]
        build_index(path, partition_size=256 << 10).save(f"{path}.index")
        paths.append(path)
    return paths, values


@pytest.fixture(scope="module", params=[(0, 1), (1, 1), (10, 1), (10, 3), (5000, 1), (5000, 4)], ids=str)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    n_records, n_files = request.param
    return make(tmp_path_factory.mktemp("every") / "d", n_records, n_files)


def read(made: Made, *, world_size: int, batch_size: int, state: dict[str, Any] | None = None, **options: Any) -> Any:
    """Return (records of each step, of all ranks end to end; what each reader's state is after each step)."""
    paths, values = made
    n_steps = set()
    steps: list[list[int]] = []
    states: list[dict[str, Any]] = []
    for rank in range(world_size):
        with ParallelReader(
            paths, rank=rank, world_size=world_size, batch_size=batch_size, streams=3, seed=1, **options
        ) as reader:
            if state is not None:
                reader.load_state_dict(state)
                reader.set_epoch(state["epoch"])
            own = [reader.state_dict()]
            for step, batch in enumerate(reader):
                numbers = batch.indices.tolist()
                assert [bytes(value) for value in batch.values] == [values[number] for number in numbers]
                steps += [[]] * (step + 1 - len(steps))
                assert len(steps[step]) == rank * len(numbers)
                steps[step] = steps[step] + numbers
                own.append(reader.state_dict())
            n_steps.add(len(own) - 1)
            states = states or own
            assert own == states
    assert len(n_steps) == 1
    return steps, states


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("drop_last", [False, True])
def test_each_record_comes_once_in_one_sequence(made: Made, order: Order, drop_last: bool) -> None:
    n = len(made[1])
    alone, _ = read(made, world_size=1, batch_size=84, order=order, drop_last=drop_last)
    assert sorted(number for step in alone for number in step) == sorted({number for step in alone for number in step})
    for world_size in WORLD_SIZES[1:]:
        steps, _ = read(made, world_size=world_size, batch_size=84 // world_size, order=order, drop_last=drop_last)
        assert steps[:-1] == alone[:-1]
        seen = [number for step in steps for number in step]
        if drop_last:
            assert steps == alone
            assert len(seen) == n // 84 * 84
        else:
            assert len(seen) == n + -n % world_size
            assert set(seen) == set(range(n))


@pytest.mark.parametrize("order", ORDERS)
def test_what_is_left_of_an_epoch_is_read_at_any_size(made: Made, order: Order) -> None:
    n = len(made[1])
    _, states = read(made, world_size=2, batch_size=150, order=order)
    for state in [states[0], states[len(states) // 2], states[-1]]:
        read_before = alone_until(made, state["position"], order)
        for world_size, batch_size in ((3, 50), (7, 12)):
            steps, after = read(made, world_size=world_size, batch_size=batch_size, order=order, state=state)
            left = n - state["position"]
            seen = [number for step in steps for number in step]
            assert len(seen) == left + -left % world_size
            assert set(seen) >= set(range(n)) - read_before
            assert len(set(seen) & read_before) <= world_size - 1
            assert after[-1]["position"] == n


def alone_until(made: Made, position: int, order: Order) -> set[int]:
    """Return the records before a position, as a single process of another batch size reads them."""
    steps, _ = read(made, world_size=1, batch_size=max(1, position), order=order)
    return set(steps[0]) if position else set()
