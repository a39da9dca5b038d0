import random
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import lmdb
import lmdb.verify
import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from lmdbio.errors import SourceError
from lmdbio.layout.file import DataFile
from lmdbio.layout.meta import read_meta
from lmdbio.layout.tree import walk
from lmdbio.layout.writer import DatabaseWriter, write_database
from lmdbio.layout.written import WrittenDatabase
from tests.layout.databases import stock_records
from tests.layout.new_databases import data_file, plan_of, write_regions
from tests.layout.page_owners import PageOwners
from tests.layout.record_sets import RecordSet, make_records, record_sets


@contextmanager
def stock(path: Path, *, room: int = 0):
    options = {"map_size": path.stat().st_size + room} if room else {"readonly": True}
    with lmdb.open(str(path), subdir=False, lock=False, **options) as env:
        yield env


def write(path: Path, made: RecordSet, **options: object) -> WrittenDatabase:
    return write_database(path, made.records, page_size=made.page_size, **made.options, **options)


# What stock LMDB makes of the files


@given(made=record_sets())
def test_stock_lmdb_iterates_and_looks_up_exactly_the_input(made: RecordSet):
    expected = dict(made.records)
    with data_file() as path:
        write(path, made)
        assert stock_records(path) == sorted(expected.items())
        with stock(path) as env, env.begin() as txn:
            assert all(txn.get(key) == value for key, value in expected.items())


@given(made=record_sets())
def test_every_page_has_one_owner_and_every_counter_is_exact(made: RecordSet):
    with data_file() as path:
        written = write(path, made)
        owners = PageOwners(path)
        owners.check()
        assert owners.records == sorted(made.records)
        assert lmdb.verify.verify(str(path)) == []
        main = written.meta.main
        with stock(path) as env:
            assert env.stat() == {
                "psize": made.page_size,
                "depth": main.depth,
                "branch_pages": main.branch_pages,
                "leaf_pages": main.leaf_pages,
                "overflow_pages": main.overflow_pages,
                "entries": len(made.records),
            }
            assert env.info()["last_pgno"] == written.meta.last_page
            # Free pages of transaction 1 are for the next but one; an empty free database is right only before it.
            assert env.info()["last_txnid"] == written.meta.txnid == (2 if owners.free else 1)
        assert path.stat().st_size == (written.meta.last_page + 1) * made.page_size


@given(made=record_sets(), seed=st.integers(0, 2**32))
def test_stock_lmdb_changes_the_file_and_loses_no_page(made: RecordSet, seed: int):
    rng = random.Random(seed)
    expected = dict(made.records)
    with data_file() as path:
        write(path, made)
        with stock(path, room=64 << 20) as env:
            for _ in range(3):
                changed = [key for key in expected if rng.random() < 0.2][:200]
                with env.begin(write=True) as txn:
                    for key in changed:
                        if rng.random() < 0.5:
                            assert txn.delete(key)
                            del expected[key]
                        else:
                            expected[key] = rng.randbytes(rng.randint(0, 9000))
                            txn.put(key, expected[key])
                    for _ in range(5):
                        key, value = rng.randbytes(rng.randint(1, 300)), rng.randbytes(rng.randint(0, 9000))
                        expected[key] = value
                        txn.put(key, value)
                with env.begin() as txn:
                    assert dict(txn.cursor()) == expected
        PageOwners(path).check()


@given(made=record_sets())
def test_a_compact_copy_holds_the_same_records(made: RecordSet):
    with data_file() as path:
        write(path, made)
        copy = path.with_name("copy.mdb")
        with stock(path) as env:
            env.copy(str(copy), compact=True)
        assert stock_records(copy) == sorted(made.records)
        PageOwners(copy).check()


@pytest.mark.skipif(shutil.which("mdb_stat") is None, reason="needs lmdb-utils")
@given(made=record_sets())
def test_the_tools_of_lmdb_agree(made: RecordSet):
    with data_file() as path:
        written = write(path, made)
        main = written.meta.main

        def run(*command: str) -> str:
            return subprocess.run(command, check=True, capture_output=True, text=True).stdout

        stat = run("mdb_stat", "-e", "-f", "-n", str(path))
        assert f"Number of pages used: {written.meta.last_page + 1}" in stat
        n_free = sum(map(len, PageOwners(path).free.values()))
        assert f"Free pages: {n_free}\n" in stat
        shape = stat[stat.index("Status of Main DB") :]
        for name, count in (
            ("Tree depth", main.depth),
            ("Branch pages", main.branch_pages),
            ("Leaf pages", main.leaf_pages),
            ("Overflow pages", main.overflow_pages),
            ("Entries", len(made.records)),
        ):
            assert f"{name}: {count}\n" in shape
        dump = run("mdb_dump", "-n", str(path)).split("HEADER=END\n")[1]
        assert dump == "".join(f" {key.hex()}\n {value.hex()}\n" for key, value in sorted(made.records)) + "DATA=END\n"
        for number, options in enumerate(([], ["-c"])):
            copy = path.with_name(f"copy{number}.mdb")
            run("mdb_copy", "-n", *options, str(path), str(copy))
            assert stock_records(copy) == sorted(made.records)


@given(made=record_sets(page_sizes=(1024,)))
@settings(max_examples=10)
def test_pages_of_1_kib_work_where_keys_fit(made: RecordSet):
    with data_file() as path:
        write(path, made)
        assert stock_records(path) == sorted(made.records)
        PageOwners(path).check()


def test_free_pages_are_used_by_the_very_next_transaction():
    records = make_records(40, page_size=4096, seed=1, keys="numbers", values="large", order="ascending")
    with data_file() as path:
        written = write_database(path, records, align=1 << 20, partition_size=1 << 20)
        n_free = len(PageOwners(path).free[1])
        assert n_free > 300
        with stock(path, room=1 << 20) as env:
            with env.begin(write=True) as txn:
                for number in range(n_free // 4):
                    txn.put(b"new%d" % number, bytes(4000))
            assert env.info()["last_pgno"] == written.meta.last_page
        owners = PageOwners(path)
        owners.check()
        assert sum(owner == "free" for owner in owners.owners.values()) <= n_free - n_free // 4


@given(made=record_sets(page_sizes=(4096,)))
@settings(max_examples=15)
def test_one_partition_is_as_full_as_appending_with_stock_lmdb(made: RecordSet):
    with data_file() as path, TemporaryDirectory() as folder:
        main = write_database(path, sorted(made.records), n_partitions=1).meta.main
        with lmdb.open(folder, map_size=64 << 20, sync=False, lock=False) as env:
            with env.begin(write=True) as txn:
                for key, value in sorted(made.records):
                    txn.put(key, value, append=True)
            stat = env.stat()
        assert (main.leaf_pages, main.overflow_pages) == (stat["leaf_pages"], stat["overflow_pages"])
        # Stock LMDB splits a full branch page in the middle, where long keys make its fan-out small.
        assert main.depth <= stat["depth"]
        assert main.branch_pages <= stat["branch_pages"]


@pytest.mark.parametrize("order", ["ascending", "shuffled"])
@pytest.mark.parametrize("n_records", [0, 1, 2])
def test_a_database_of_hardly_any_records_opens(n_records: int, order: str):
    records = make_records(n_records, page_size=4096, seed=3, keys="any", values="mixed", order=order)
    with data_file() as path:
        written = write_database(path, records)
        assert stock_records(path) == sorted(records)
        assert written.partitions[-1] == n_records and len(written.partitions) == 1 + (n_records > 0)
        assert (written.meta.main.entries, len(written.records)) == (n_records, n_records)


def test_a_tree_of_many_levels_opens():
    records = make_records(2000, page_size=2048, seed=5, keys="long", values="tiny", order="shuffled")
    with data_file() as path:
        written = write_database(path, records, page_size=2048)
        assert written.meta.main.depth >= 6
        assert stock_records(path) == sorted(records)
        PageOwners(path).check()


# What the writer says that it wrote


@given(made=record_sets(), checksum=st.booleans())
def test_the_result_says_where_each_value_lies(made: RecordSet, checksum: bool):
    with data_file() as path:
        written = write(path, made, checksum=checksum)
        content = path.read_bytes()
        records = [made.records[record] for record in written.records.tolist()]
        assert records == sorted(made.records)
        for (_, value), offset, length in zip(records, written.offsets.tolist(), written.lengths.tolist(), strict=True):
            assert content[offset : offset + length] == value
        if checksum:
            assert written.checksums.tolist() == [xxhash.xxh3_64_intdigest(value) for _, value in records]
        else:
            assert written.checksums is None


@given(made=record_sets())
def test_the_result_equals_what_a_walk_of_the_file_finds(made: RecordSet):
    with data_file() as path:
        written = write(path, made)
        with DataFile(path) as file:
            meta = read_meta(file)
            found = walk(file, meta)
        assert meta == written.meta
        assert found.offsets.tolist() == written.offsets.tolist()
        assert found.lengths.tolist() == written.lengths.tolist()
        order = found.layout_order()
        assert (order is None) == (written.layout_order is None)
        if order is not None:
            assert order.tolist() == written.layout_order.tolist()


@given(made=record_sets())
def test_partitions_are_runs_of_the_layout_order_that_lie_apart(made: RecordSet):
    with data_file() as path:
        written = write(path, made)
        plan = plan_of(made.records, page_size=made.page_size, **made.options)
        n = len(written.records)
        assert written.partitions[0] == 0 and written.partitions[-1] == n
        assert np.all(np.diff(written.partitions) > 0)
        assert len(written.partitions) - 1 == plan.n_partitions
        order = np.arange(n) if written.layout_order is None else written.layout_order
        pages = (written.offsets[order].astype(np.int64) - 1) // made.page_size  # an empty value may end its page
        regions = np.searchsorted(plan.region_pages, pages, "right")
        for begin, end in zip(written.partitions[:-1], written.partitions[1:], strict=True):
            assert len(set(regions[begin:end])) == 1
        assert path.stat().st_size == plan.file_size


@given(made=record_sets(), seed=st.integers(0, 2**32))
def test_threads_and_both_ways_of_writing_give_equal_bytes(made: RecordSet, seed: int):
    with data_file() as path:
        write(path, made, direct=False)
        plan = plan_of(made.records, page_size=made.page_size, **made.options)
        other = path.with_name("other.mdb")
        regions = list(range(plan.n_regions))
        random.Random(seed).shuffle(regions)
        with DatabaseWriter(other, plan, direct=True) as writer, ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda region: write_regions(writer, made.records, regions=[region]), regions))
            writer.finish()
        assert other.read_bytes() == path.read_bytes()


def test_databases_of_equal_shape_differ_in_their_digest():
    with data_file() as path:
        first = write_database(path, [(b"k", b"one")])
        second = write_database(path.with_name("other"), [(b"k", b"two")])
        assert first.meta.digest != second.meta.digest
        content = path.read_bytes()
        assert content[4096 - 16 : 4096] == content[8192 - 16 : 8192] == first.meta.digest


# Skipped records


@given(made=record_sets(), data=st.data())
def test_skipped_records_leave_free_pages_and_no_key(made: RecordSet, data: st.DataObject):
    share = data.draw(st.sampled_from([0.05, 0.5, 0.95, 1.0]))
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    skip = frozenset(number for number in range(len(made.records)) if rng.random() < share)
    kept = sorted(record for number, record in enumerate(made.records) if number not in skip)
    plan = plan_of(made.records, page_size=made.page_size, **made.options)
    regions = list(range(plan.n_regions))
    rng.shuffle(regions)
    with data_file() as path:
        with DatabaseWriter(path, plan, direct=data.draw(st.booleans())) as writer:
            write_regions(writer, made.records, skip=skip, regions=regions)
            written = writer.finish()
        assert [made.records[record] for record in written.records.tolist()] == kept
        assert written.partitions[-1] == len(kept)
        owners = PageOwners(path)
        owners.check()
        assert owners.records == kept
        assert lmdb.verify.verify(str(path)) == []
        for (_, value), offset in zip(kept, written.offsets.tolist(), strict=True):
            assert owners.content[offset : offset + len(value)] == value
        with stock(path, room=16 << 20) as env:
            with env.begin(write=True) as txn:
                txn.put(b"after", bytes(5000))
            with env.begin() as txn:
                assert dict(txn.cursor()) == {**dict(kept), b"after": bytes(5000)}
        PageOwners(path).check()


# Values as parts


def test_a_value_may_come_in_parts_of_any_buffer():
    records = [(b"a", b"headbodytail" * 1000), (b"b", b"xyz")]
    plan = plan_of(records)
    with data_file() as path:
        body = np.frombuffer(records[0][1][4:-4], np.uint8).reshape(2, -1)
        with DatabaseWriter(path, plan) as writer:
            parts = [b"head", bytearray(b""), memoryview(body), np.frombuffer(b"tail", "<u4")]
            writer.write_region(0, [parts, (b"x", b"", b"yz")])
            writer.finish()
        assert stock_records(path) == records


@pytest.mark.parametrize("direct", [False, True])
def test_the_buffer_of_a_lazy_value_may_be_used_again(direct: bool):
    plan = plan_of([(b"big", bytes(30_000)), (b"small", bytes(30))])

    def lazy(n_parts: int):
        buffer = bytearray(10)
        for number in range(n_parts):
            buffer[:] = b"%010d" % number
            yield buffer

    with data_file() as path:
        with DatabaseWriter(path, plan, direct=direct) as writer:
            writer.write_region(0, [lazy(3000), lazy(3)])
            writer.finish()
        assert [len(value) for _, value in stock_records(path)] == [30_000, 30]
        assert stock_records(path)[0][1] == b"".join(b"%010d" % number for number in range(3000))
        assert lmdb.verify.verify(str(path)) == []


@pytest.mark.parametrize("found", [b"", b"12345678", b"1" * 10, b"1" * 20_000])
@pytest.mark.parametrize("planned", [9, 9000])
@pytest.mark.parametrize("kind", [list, iter])
def test_a_value_of_another_length_is_an_error_that_names_its_key(planned: int, found: bytes, kind: type):
    plan = plan_of([(b"the-key", bytes(planned))])
    with data_file() as path, DatabaseWriter(path, plan) as writer:
        with pytest.raises(SourceError, match=rf"data\.mdb: key b'the-key': expected a value of {planned} bytes"):
            writer.write_region(0, [kind([found])])
        with pytest.raises(ValueError, match="region 0 missing"):
            writer.finish()
        writer.write_region(0, [[bytes(planned)]])
        assert writer.finish().meta.main.entries == 1


@pytest.mark.parametrize("n_values", [0, 1, 3])
@pytest.mark.parametrize("size", [5, 5000])
def test_more_or_fewer_values_than_a_region_wants_are_an_error(size: int, n_values: int):
    plan = plan_of([(b"a", bytes(size)), (b"b", bytes(size))])
    with data_file() as path, DatabaseWriter(path, plan) as writer, pytest.raises(ValueError, match="region 0: exp"):
        writer.write_region(0, [[bytes(size)]] * n_values)
