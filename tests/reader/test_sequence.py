import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lmdbio.layout.permutation import Permutation
from lmdbio.reader.sequence import ORDERS, Order, Sequence, Steps

Epoch = dict[str, Any]
DOCS = Path(__file__).parents[2] / "docs"


@st.composite
def epochs(draw: st.DrawFn, max_records: int = 120) -> Epoch:
    sizes = draw(st.lists(st.integers(0, 12), max_size=max_records // 12))
    bounds = np.cumsum([0, *sizes])
    n_records = int(bounds[-1])
    layout_order = (
        np.random.default_rng(draw(st.integers(0, 9))).permutation(n_records) if draw(st.booleans()) else None
    )
    return {
        "n_records": n_records,
        "layout_order": layout_order,
        "partitions": bounds,
        "order": draw(st.sampled_from(ORDERS)),
        "seed": draw(st.integers(-5, 1 << 65)),
        "epoch": draw(st.integers(0, 1000)),
        "streams": draw(st.integers(1, 9)),
        "shuffle_window": draw(st.integers(1, 5)),
    }


def reference(
    n_records: int,
    layout_order: NDArray[np.int64] | None,
    partitions: NDArray[np.int64],
    order: Order,
    seed: int,
    epoch: int,
    streams: int,
    shuffle_window: int,
) -> tuple[list[int], list[int]]:
    """Records and units of a whole epoch in plain lists, as docs/format.md says."""
    layout = list(range(n_records)) if layout_order is None else layout_order.tolist()
    if order == "sequential":
        return layout, [-1] * n_records
    if order == "global":
        drawn = Permutation(n_records, seed=seed, purpose="global", numbers=(epoch,))
        return drawn(np.arange(n_records)).tolist(), [-1] * n_records
    kept = [layout[first:last] for first, last in pairwise(partitions.tolist()) if first < last]
    drawn = Permutation(len(kept), seed=seed, purpose="partitions", numbers=(epoch,))
    rest = [kept[i] for i in drawn(np.arange(len(kept))).tolist()]
    queues: list[list[tuple[int, int]]] = []
    unit = 0
    for stream in range(streams):
        wanted = n_records // streams + (stream < n_records % streams)
        pieces = []
        while wanted:
            pieces.append(rest[0][:wanted])
            rest[0] = rest[0][wanted:]
            wanted -= len(pieces[-1])
            if not rest[0]:
                del rest[0]
        queue = []
        for number, first in enumerate(range(0, len(pieces), shuffle_window)):
            group = [record for piece in pieces[first : first + shuffle_window] for record in piece]
            shuffled = Permutation(len(group), seed=seed, purpose="group", numbers=(epoch, stream, number))
            queue += [(group[i], unit) for i in shuffled(np.arange(len(group))).tolist()]
            unit += 1
        queues.append(queue)
    taken = [queues[position % streams][position // streams] for position in range(n_records)]
    return [record for record, _ in taken], [number for _, number in taken]


@given(epochs())
def test_records_and_units_are_the_specified_ones(epoch: Epoch) -> None:
    positions = np.arange(epoch["n_records"])
    sequence = Sequence(**epoch)
    records, units = reference(**epoch)
    assert sequence.records(positions).tolist() == records
    assert sequence.units(positions).tolist() == units
    assert len(sequence) == epoch["n_records"]


@given(epochs())
def test_every_epoch_is_a_permutation(epoch: Epoch) -> None:
    records = Sequence(**epoch).records(np.arange(epoch["n_records"]))
    assert records.dtype == np.int64
    assert sorted(records.tolist()) == list(range(epoch["n_records"]))


@given(epochs(), st.data())
def test_any_position_by_itself_is_that_of_the_whole(epoch: Epoch, data: st.DataObject) -> None:
    whole = Sequence(**epoch).records(np.arange(epoch["n_records"]))
    sequence = Sequence(**epoch)
    for _ in range(4):
        positions = np.array(data.draw(st.lists(st.sampled_from(range(len(whole))), max_size=9)) if len(whole) else [])
        assert sequence.records(positions).tolist() == whole[positions.astype(np.int64)].tolist()


@given(epochs())
def test_large_groups_are_drawn_element_by_element_and_are_the_same(epoch: Epoch) -> None:
    positions = np.arange(epoch["n_records"])
    expected = Sequence(**epoch).records(positions)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmdbio.reader.sequence._CACHED_RECORDS", 1)
        sequence = Sequence(**epoch)
        assert sequence.records(positions).tolist() == expected.tolist()
        if epoch["order"] == "block":
            assert all(len(group) == 1 for group in sequence._cached.values())


def test_only_groups_that_are_touched_are_shuffled_and_few_are_kept() -> None:
    bounds = np.arange(0, 100_001, 100)
    sequence = Sequence(100_000, None, bounds, order="block", seed=0, epoch=0, streams=8, shuffle_window=4)
    sequence.records(np.arange(64))
    assert len(sequence._cached) == 8
    sequence.records(np.arange(100_000))
    assert len(sequence._cached) == 16


@given(epochs(), st.integers(1, 5), st.integers(1, 9), st.booleans(), st.integers(0, 120))
def test_every_world_size_and_batch_size_sees_the_same_sequence_from_any_position_on(
    epoch: Epoch, world_size: int, batch_size: int, drop_last: bool, start: int
) -> None:
    n_records = epoch["n_records"]
    start = min(start, n_records)
    sequence = Sequence(**epoch)
    whole = sequence.records(np.arange(n_records)).tolist()
    steps = Steps(
        n_records,
        streams=sequence.streams,
        world_size=world_size,
        batch_size=batch_size,
        drop_last=drop_last,
        start=start,
    )
    global_batch = world_size * batch_size
    left = n_records - start
    assert len(steps) == steps.n_steps == (left // global_batch if drop_last else -(-left // global_batch))
    for step in range(steps.n_steps):
        slices = [sequence.records(steps.positions(step, rank)) for rank in range(world_size)]
        assert len({len(part) for part in slices}) == 1
        expected = whole[start + step * global_batch : start + (step + 1) * global_batch]
        expected += (whole * world_size)[: -len(expected) % world_size]
        assert sorted(np.concatenate(slices).tolist()) == sorted(expected)


@given(st.integers(0, 60), st.integers(1, 9), st.integers(1, 5), st.integers(1, 9))
def test_a_step_is_stably_sorted_by_stream_and_cut_into_ranks(
    n_records: int, streams: int, world_size: int, batch_size: int
) -> None:
    steps = Steps(n_records, streams=streams, world_size=world_size, batch_size=batch_size, drop_last=False)
    for step in range(steps.n_steps):
        first = step * world_size * batch_size
        taken = list(range(first, min(n_records, first + world_size * batch_size)))
        taken += [i % n_records for i in range(-len(taken) % world_size)]
        taken.sort(key=lambda position: position % streams)
        assert np.concatenate([steps.positions(step, rank) for rank in range(world_size)]).tolist() == taken


def test_ten_records_over_four_ranks_with_batch_three_give_one_equal_step() -> None:
    steps = Steps(10, streams=1, world_size=4, batch_size=3, drop_last=False)
    assert [steps.positions(0, rank).tolist() for rank in range(4)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 0, 1]]
    assert Steps(10, streams=1, world_size=4, batch_size=3, drop_last=True).n_steps == 0


def test_fewer_records_than_ranks_are_taken_again_from_the_first() -> None:
    steps = Steps(2, streams=8, world_size=5, batch_size=3, drop_last=False)
    assert [steps.positions(0, rank).tolist() for rank in range(5)] == [[0], [0], [0], [1], [1]]


def test_nodes_that_divide_the_streams_read_whole_partitions() -> None:
    n_records, world_size = 6400, 4
    bounds = np.arange(0, n_records + 1, 50)  # 128 partitions, 16 in a stream of 8
    sequence = Sequence(n_records, None, bounds, order="block", seed=1, epoch=2, streams=8, shuffle_window=4)
    steps = Steps(n_records, streams=8, world_size=world_size, batch_size=16, drop_last=False)
    read: list[set[int]] = []
    for rank in range(world_size):
        positions = np.concatenate([steps.positions(step, rank) for step in range(steps.n_steps)])
        read.append(set((sequence.records(positions) // 50).tolist()))
    assert [len(partitions) for partitions in read] == [32] * 4
    assert len(set.union(*read)) == 128


def test_epochs_and_seeds_differ_and_a_window_mixes_only_its_partitions() -> None:
    bounds = np.arange(0, 1001, 10)

    def records(**changed: Any) -> list[int]:
        settings: Epoch = {"order": "block", "seed": 0, "epoch": 0, "streams": 1, "shuffle_window": 4} | changed
        taken: list[int] = Sequence(1000, None, bounds, **settings).records(np.arange(1000)).tolist()
        return taken

    kinds = [records(), records(seed=1), records(epoch=1), records(shuffle_window=1), records(order="global")]
    assert len({tuple(kind) for kind in kinds}) == 5
    for first in range(0, 1000, 40):
        assert len({record // 10 for record in records()[first : first + 40]}) == 4


def test_other_orders_have_one_stream() -> None:
    for order, streams in (("block", 8), ("sequential", 1), ("global", 1)):
        sequence = Sequence(0, None, np.array([0]), order=order, seed=0, epoch=0, streams=8, shuffle_window=4)  # type: ignore[arg-type]
        assert sequence.streams == streams
        assert len(sequence.records(np.empty(0, np.int64))) == 0
        assert Steps(0, streams=streams, world_size=4, batch_size=2, drop_last=False).n_steps == 0


def test_a_whole_epoch_of_imagenet_holds_each_record_once() -> None:
    n_records = 1_281_167
    bounds = np.append(np.arange(0, n_records, 150), n_records)
    sequence = Sequence(n_records, None, bounds, order="block", seed=0, epoch=0, streams=8, shuffle_window=4)
    steps = Steps(n_records, streams=8, world_size=1, batch_size=256, drop_last=False)
    positions = np.concatenate([steps.positions(step, 0) for step in range(steps.n_steps)])
    records = sequence.records(positions)
    sequence.units(positions)
    assert np.all(np.bincount(records, minlength=n_records) == 1)


GOOD: Epoch = {
    "n_records": 10, "layout_order": None, "partitions": np.array([0, 5, 10]),
    "order": "block", "seed": 0, "epoch": 0, "streams": 2, "shuffle_window": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"order": "random"}, "order: expected one of sequential, block, global, found 'random'"),
        ({"epoch": -1}, "epoch: expected 0 or more, found -1"),
        ({"streams": 0}, "streams: expected 1 or more"),
        ({"shuffle_window": 0}, "shuffle_window: expected 1 or more"),
        ({"partitions": np.array([0, 5])}, "partitions: expected ascending bounds from 0 to 10"),
        ({"partitions": np.array([0, 12, 10])}, "partitions: expected ascending"),
        ({"partitions": np.array([], np.int64)}, "partitions: expected ascending"),
        ({"layout_order": np.arange(9)}, "layout_order: expected 10 records, found 9"),
    ],
)
def test_bad_arguments_are_named(changed: Epoch, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Sequence(**(GOOD | changed))


@pytest.mark.parametrize("order", ORDERS)
def test_positions_outside_the_epoch_are_an_index_error(order: Order) -> None:
    sequence = Sequence(**(GOOD | {"order": order}))
    for position in (-1, 10):
        with pytest.raises(IndexError, match="position: expected 0 to 9"):
            sequence.records(np.array([position]))
        with pytest.raises(IndexError, match="position: expected 0 to 9"):
            sequence.units(np.array([position]))
    steps = Steps(10, streams=2, world_size=2, batch_size=2, drop_last=False)
    for step, rank in ((-1, 0), (3, 0), (0, 2), (0, -1)):
        with pytest.raises(IndexError, match="expected 0 to 2, 0 to 1"):
            steps.positions(step, rank)
    for start in (-1, 11):
        with pytest.raises(ValueError, match=f"start: expected .* found {start}"):
            Steps(10, streams=2, world_size=2, batch_size=2, drop_last=False, start=start)
    with pytest.raises(ValueError, match="batch_size: expected 1 or more"):
        Steps(10, streams=2, world_size=2, batch_size=0, drop_last=False)


def documented(kind: str) -> list[dict[str, Any]]:
    text = "".join(path.read_text() for path in sorted(DOCS.glob("*.md")))
    return [json.loads(line) for line in "".join(re.findall(rf"```jsonl {kind}\n(.*?)```", text, re.S)).splitlines()]


@pytest.mark.skipif(not DOCS.is_dir(), reason="the documents are not beside the tests")
def test_the_documented_vectors_are_the_sequence_and_the_steps() -> None:
    sequences, steps = documented("sequence"), documented("steps")
    assert len(sequences) >= 6
    assert len(steps) >= 5
    for vector in sequences:
        records = vector.pop("records")
        layout_order = vector.pop("layout_order")
        layout_order = None if layout_order is None else np.array(layout_order)
        epoch = vector | {"n_records": 20, "layout_order": layout_order, "partitions": np.array(vector["partitions"])}
        assert Sequence(**epoch).records(np.arange(20)).tolist() == reference(**epoch)[0] == records
    for vector in steps:
        expected = vector.pop("steps")
        made = Steps(**vector)
        ranks = range(vector["world_size"])
        assert [[made.positions(step, rank).tolist() for rank in ranks] for step in range(made.n_steps)] == expected
