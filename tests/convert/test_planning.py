from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lmdbio.convert.planning import ConversionPlan, plan_conversion
from lmdbio.convert.source import Inputs
from lmdbio.errors import SourceError
from lmdbio.layout.datum import wrap
from lmdbio.layout.keys import Keys
from tests.convert.defaults import options


def make_inputs(labels: NDArray[np.int64], sizes: NDArray[np.int64]) -> Inputs:
    paths = [b"c%d/%d" % (label, number) for number, label in enumerate(labels.tolist())]
    return Inputs(Keys.from_list(paths), sizes, labels)


def some_inputs(*, classes: int, per_class: int, mean: int) -> Inputs:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(classes), per_class)
    return make_inputs(labels, rng.integers(1, 2 * mean, len(labels)))


def keys_of(plan: ConversionPlan) -> list[bytes]:
    return list(plan.database.keys)


def test_source_order_numbers_the_inputs_as_found() -> None:
    plan = plan_conversion(some_inputs(classes=2, per_class=2, mean=100), options(order="source"))
    assert keys_of(plan) == [b"00000000_c0/0", b"00000001_c0/1", b"00000002_c1/2", b"00000003_c1/3"]


@given(
    st.sampled_from(["shuffle", "stratified", "source"]),
    st.sampled_from(["number", "path"]),
    st.sampled_from(["datum", "raw"]),
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 20_000)), min_size=1, max_size=60),
    st.integers(1, 70) | st.none(),
)
def test_every_input_becomes_one_record_with_its_own_key_and_size(
    order: str, key: str, value: str, held: list[tuple[int, int]], limit: int | None
) -> None:
    labels, sizes = (np.array([each[i] for each in sorted(held)], np.int64) for i in (0, 1))
    inputs = make_inputs(labels, sizes)
    plan = plan_conversion(inputs, options(order=order, key=key, value=value, limit=limit, partition_size=1 << 16))
    assert len(np.unique(plan.numbers)) == plan.database.n_records == min(len(held), limit or len(held))
    for place, number in enumerate(plan.numbers.tolist()):
        path = inputs.paths[number]
        assert plan.database.keys[place] == (path if key == "path" else b"%08d_%s" % (place, path))
        around = sum(map(len, wrap(int(sizes[number]), int(labels[number])))) if value == "datum" else 0
        assert plan.database.lengths[place] == sizes[number] + around


@pytest.mark.parametrize("cut", [{"partition_size": 1 << 20}, {"n_partitions": 7}])
@pytest.mark.parametrize("key", ["number", "path"])
@pytest.mark.parametrize(("classes", "mean"), [(10, 20_000), (100, 20_000), (10, 300), (10, 1500)])
def test_a_stratified_partition_holds_each_class_within_two_of_its_share(
    classes: int, mean: int, key: str, cut: dict[str, int]
) -> None:
    inputs = some_inputs(classes=classes, per_class=2000 // classes, mean=mean)
    plan = plan_conversion(inputs, options(order="stratified", key=key, **cut))
    labels = inputs.labels[plan.numbers]
    bounds = np.unique(plan.database.region_records_bounds)
    for start, stop in pairwise(bounds.tolist()):
        counts = np.bincount(labels[start:stop], minlength=classes)
        assert np.all(np.abs(counts - (stop - start) / classes) <= 2)
    if "partition_size" in cut:
        assert np.all(plan.database.region_sizes * plan.database.page_size <= cut["partition_size"])
    else:
        assert plan.database.n_partitions <= 7


def test_a_stratified_partition_is_shuffled_within() -> None:
    inputs = some_inputs(classes=2, per_class=100, mean=100)
    labels = inputs.labels[plan_conversion(inputs, options(order="stratified")).numbers]
    assert np.any(np.diff(labels) == 0)  # classes do not just take turns


def test_cut_keys_are_counted() -> None:
    inputs = Inputs(Keys.from_list([b"c/" + b"x" * 600, b"c/y"]), np.array([5, 5]), np.array([0, 0]))
    plan = plan_conversion(inputs, options())
    assert plan.keys_cut == 1
    assert sorted(plan.database.keys.sizes_at(np.arange(2)).tolist()) == [12, 511]


def test_paths_too_long_for_keys_are_refused_before_anything_is_written() -> None:
    inputs = Inputs(Keys.from_list([b"c/" + b"x" * 600]), np.array([5]), np.array([0]))
    with pytest.raises(SourceError, match="use --key number"):
        plan_conversion(inputs, options(key="path"))


def test_paths_that_differ_in_case_only_are_counted() -> None:
    inputs = Inputs(Keys.from_list([b"c/x.jpg", b"c/X.jpg"]), np.array([5, 5]), np.array([0, 0]))
    assert plan_conversion(inputs, options(key="path")).case_collisions == 1
    assert plan_conversion(inputs, options()).case_collisions == 0
