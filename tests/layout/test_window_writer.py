import os
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lmdb
import lmdb.verify
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.errors import TargetError
from lmdbio.layout import window, window_writer
from lmdbio.layout.plan import DatabasePlan
from lmdbio.layout.writer import DatabaseWriter, Fill, write_database
from lmdbio.layout.written import WrittenDatabase
from tests.layout.crowd import Crowd
from tests.layout.databases import stock_records
from tests.layout.new_databases import assert_as_written_whole, assert_no_database, data_file, limits, plan_of
from tests.layout.page_owners import PageOwners
from tests.layout.record_sets import Record, RecordSet, record_sets

N_THREADS = 4
SIZE = 10_000
PAGES_SIZE = 3 * 4096  # what an extent of SIZE takes


def fill_from(records: list[Record], skip: frozenset[int] = frozenset()) -> Fill:
    """Return what fills windows from records, and leaves half a value where one is skipped."""

    def fill(numbers: np.ndarray, slots: list[memoryview]) -> Iterator[bool]:
        for number, slot in zip(numbers.tolist(), slots, strict=True):
            value = records[number][1]
            filled = len(value) // 2 if number in skip else len(value)
            slot[:filled] = value[:filled]
            yield number not in skip

    return fill


def write_rests(writer: DatabaseWriter, records: list[Record], skip: frozenset[int] = frozenset()) -> None:
    for region in range(writer.plan.n_regions):
        rest = writer.rest_records(region).tolist()
        writer.write_rest(region, [None if record in skip else [records[record][1]] for record in rest])


def write_by_windows(
    path: Path,
    records: list[Record],
    plan: DatabasePlan,
    *,
    seed: int = 0,
    skip: frozenset[int] = frozenset(),
    **options: bool,
) -> WrittenDatabase:
    """Fill windows of all regions from many threads in random order, then write the rest."""
    with DatabaseWriter(path, plan, **options) as writer, ThreadPoolExecutor(N_THREADS) as pool:
        windows = [each for region in range(plan.n_regions) for each in writer.windows(region)]
        random.Random(seed).shuffle(windows)
        fill = fill_from(records, skip)
        list(pool.map(lambda each: writer.fill_window(each, fill), windows))
        write_rests(writer, records, skip)
        return writer.finish()


def equal_records(n_records: int) -> list[Record]:
    return [(b"%02d" % number, bytes([1 + number]) * SIZE) for number in range(n_records)]


@given(
    made=record_sets(),
    seed=st.integers(0, 2**32),
    direct=st.booleans(),
    checksum=st.booleans(),
    window_size=st.sampled_from([1, 100_000, window.WINDOW_SIZE]),
    largest=st.sampled_from([0, 1 << 15, window.LARGEST_EXTENT]),
)
def test_windows_and_rest_are_the_bytes_of_whole_regions(
    made: RecordSet, seed: int, direct: bool, checksum: bool, window_size: int, largest: int
):
    plan = plan_of(made.records, page_size=made.page_size, **made.options)
    with data_file() as path, limits(window_size, largest):
        options = {"direct": direct, "checksum": checksum}
        expected = write_database(path, made.records, page_size=made.page_size, **made.options, **options)
        other = path.with_name("other.mdb")
        written = write_by_windows(other, made.records, plan, seed=seed, **options)
        assert other.read_bytes() == path.read_bytes()
        for name in ("offsets", "lengths", "partitions", "checksums" if checksum else "partitions"):
            assert getattr(written, name).tolist() == getattr(expected, name).tolist()
        assert (written.checksums is None) == (not checksum)


@given(
    made=record_sets(),
    share=st.sampled_from([0.05, 0.5, 0.95, 1.0]),
    seed=st.integers(0, 2**32),
    direct=st.booleans(),
    window_size=st.sampled_from([1, 100_000, window.WINDOW_SIZE]),
    largest=st.sampled_from([1 << 15, window.LARGEST_EXTENT]),
)
def test_skipped_records_leave_zeros_and_no_key(
    made: RecordSet, share: float, seed: int, direct: bool, window_size: int, largest: int
):
    rng = random.Random(seed)
    skip = frozenset(number for number in range(len(made.records)) if rng.random() < share)
    kept = sorted(record for number, record in enumerate(made.records) if number not in skip)
    plan = plan_of(made.records, page_size=made.page_size, **made.options)
    with data_file() as path:
        with limits(window_size, largest):
            written = write_by_windows(path, made.records, plan, seed=seed, skip=skip, direct=direct)
        assert [made.records[record] for record in written.records.tolist()] == kept
        assert stock_records(path) == kept
        assert lmdb.verify.verify(str(path)) == []
        owners = PageOwners(path)
        owners.check()
        for page in (page for pages in owners.free.values() for page in pages):
            begin = page * made.page_size
            assert not any(owners.content[begin : begin + made.page_size])


@pytest.mark.parametrize("n_flags", [0, 3, 5])
def test_a_flag_too_many_or_too_few_is_an_error(n_flags: int):
    records = equal_records(4)
    with data_file() as path, DatabaseWriter(path, plan_of(records)) as writer:
        (only,) = writer.windows(0)
        with pytest.raises(ValueError, match=r"zip\(\)"):
            writer.fill_window(only, lambda numbers, slots: [True] * n_flags)


@pytest.mark.parametrize("n_filled", [0, 2])
def test_a_window_whose_filling_failed_can_be_filled_again(n_filled: int):
    records = equal_records(4)

    def fail(numbers: np.ndarray, slots: list[memoryview]) -> Iterator[bool]:
        for slot in slots[:n_filled]:
            slot[:] = b"\xff" * len(slot)
            yield False
        raise KeyError("a source's own error")

    with data_file() as path:
        plan = plan_of(records)
        with DatabaseWriter(path, plan) as writer:
            (only,) = writer.windows(0)
            with pytest.raises(KeyError, match="a source's own error"):
                writer.fill_window(only, fail)
            assert_no_database(path)
            with pytest.raises(ValueError, match="region 0 missing"):
                writer.finish()
            assert_no_database(path)
            writer.fill_window(only, fill_from(records))
            write_rests(writer, records)
            writer.finish()
        assert_as_written_whole(path, records)


def test_a_record_skipped_before_a_failed_write_may_come_after_it(monkeypatch: pytest.MonkeyPatch):
    records = equal_records(4)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with data_file() as path:
        with DatabaseWriter(path, plan_of(records)) as writer:
            (only,) = writer.windows(0)
            with monkeypatch.context() as patch:
                patch.setattr(os, "pwritev", full)
                with pytest.raises(TargetError, match="no space left on device"):
                    writer.fill_window(only, fill_from(records, frozenset([1, 3])))
            writer.fill_window(only, fill_from(records))
            write_rests(writer, records)
            assert writer.finish().meta.main.entries == 4
        assert_as_written_whole(path, records)


# Memory


def filling(writer: DatabaseWriter, each: window.Window, records: list[Record]) -> Callable[[Callable[[], None]], None]:
    """Return what a thread does that fills a window, and stays in it for a while."""

    def go(inside: Callable[[], None]) -> None:
        def fill(numbers: np.ndarray, slots: list[memoryview]) -> Iterator[bool]:
            inside()
            yield from fill_from(records)(numbers, slots)

        writer.fill_window(each, fill)

    return go


@pytest.mark.parametrize(
    ("most", "n_inside"),
    [
        (3 * PAGES_SIZE, 3),
        (4 * PAGES_SIZE - 1, 3),
        (PAGES_SIZE - 1, 1),  # one that is too large alone
        (8 * PAGES_SIZE, 8),
    ],
)
def test_windows_held_at_the_same_time_are_bounded(most: int, n_inside: int, monkeypatch: pytest.MonkeyPatch):
    records = equal_records(8)
    crowd = Crowd(monkeypatch, window_writer)
    monkeypatch.setattr(window_writer, "_MOST_HELD", most)
    with data_file() as path, limits(window_size=1):
        with DatabaseWriter(path, plan_of(records)) as writer:
            windows = writer.windows(0)
            assert [each.n_pages * 4096 for each in windows] == [PAGES_SIZE] * 8
            with crowd.send([filling(writer, each, records) for each in windows]):
                assert len(crowd.inside) == n_inside
            assert sorted(crowd.inside) == list(range(8))
            write_rests(writer, records)
            writer.finish()
        assert_as_written_whole(path, records)


def test_failed_windows_hold_nothing(monkeypatch: pytest.MonkeyPatch):
    records = equal_records(3)
    crowd = Crowd(monkeypatch, window_writer)
    monkeypatch.setattr(window_writer, "_MOST_HELD", 2 * PAGES_SIZE)

    def fail(numbers: np.ndarray, slots: list[memoryview]) -> list[bool]:
        raise KeyError

    with data_file() as path, limits(window_size=1), DatabaseWriter(path, plan_of(records)) as writer:
        windows = writer.windows(0)
        for each in windows:
            with pytest.raises(KeyError):
                writer.fill_window(each, fail)
        with crowd.send([filling(writer, each, records) for each in windows]):
            assert len(crowd.inside) == 2


def test_a_window_that_was_left_out_is_an_error() -> None:
    records = [(b"%d" % number, bytes([number]) * SIZE) for number in range(3)]
    plan = plan_of(records)
    with limits(window_size=PAGES_SIZE), data_file() as path, DatabaseWriter(path, plan) as writer:
        first, *others = writer.windows(0)
        for each in others:
            writer.fill_window(each, fill_from(records))
        with pytest.raises(ValueError, match="region 0: expected all windows filled, found 1 missing"):
            write_rests(writer, records)
        writer.fill_window(first, fill_from(records))
        write_rests(writer, records)
        assert writer.finish().meta.main.entries == 3
