"""Direct reads are aligned, bring what stock LMDB reads up to the file's last byte, and give way where refused."""

import errno
import logging
import mmap
import os
from pathlib import Path

import lmdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.errors import MissingDatabaseError, ReadError
from lmdbio.layout import build_index
from lmdbio.layout.pool import BufferPool
from lmdbio.layout.writer import write_database
from lmdbio.reader import Dataset, ParallelReader, ReadOptions, direct
from lmdbio.reader.direct import DirectFile, open_records, pays_direct
from lmdbio.reader.fetch import RecordFile, read_all, reads_of
from lmdbio.reader.file_state import is_cached
from lmdbio.reader.plan import plan_reads
from lmdbio.reader.sequence import ORDERS, Order
from tests.layout.databases import make_database
from tests.reader.direct_reads import DirectReads, skip_unless_direct

CONTENT = np.random.default_rng(0).bytes(200_777)
SIZES = [0, 1, 100, 800, 3000, 5000, 0, 20_000, 40_000] * 9 + [4000]


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("direct")
    skip_unless_direct(folder)
    return folder


@pytest.fixture(scope="module")
def path(disk: Path) -> Path:
    path = disk / "raw.mdb"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture(scope="module", params=["pages of 1 KiB", "an odd tail", "whole pages"])
def database(request: pytest.FixtureRequest, disk: Path) -> Path:
    """Return a database, mostly of a size that is no multiple of what direct reads are of, its index beside it."""
    rng = np.random.default_rng(1)
    folder = disk / request.param
    records = [(b"%08d" % number, rng.bytes(size)) for number, size in enumerate(SIZES)]
    if request.param == "an odd tail":  # whose last whole pages are a value's
        data = make_database(folder, records)
        with data.open("ab") as file:
            file.write(b"T" * 777)
    else:
        folder.mkdir()
        data = folder / "data.mdb"
        page_size = 1024 if "1" in request.param else 4096
        write_database(data, records, page_size=page_size, align=page_size, partition_size=1 << 16)
    assert (data.stat().st_size % 4096 == 0) == (request.param == "whole pages")
    build_index(data, partition_size=1 << 16).save(folder / "data.mdb.index")
    return folder


def stock_values(folder: Path) -> list[bytes]:
    with lmdb.open(str(folder), readonly=True, lock=False) as env, env.begin() as txn:
        return [bytes(txn.get(b"%08d" % number)) for number in range(len(SIZES))]


def whole(file: RecordFile, offset: int, length: int | None = None) -> bytes:
    """Read so many bytes, or up to the end of the file and as far beyond it as alignment wants."""
    if length is None:
        length = file.size - offset + -file.size % file.align
    buffer = BufferPool(keep=0).take(length)
    file.read_into(offset, buffer.data)
    return buffer.tobytes()[: file.size - offset]


def check_aligned(seen: DirectReads, align: int) -> None:
    assert seen.extents
    assert not [address for address in seen.addresses if address % align]
    assert not [extent for extent in seen.extents if extent[0] % align or extent[1] % align]


@given(
    st.lists(st.tuples(st.integers(0, len(CONTENT)), st.integers(0, 30_000)), min_size=1, max_size=30),
    st.sampled_from([512, 4096]),
    st.sampled_from([4096, 10_000, 1 << 20]),
    st.integers(0, 10_000),
    st.sampled_from([None, 0, 2]),
)
def test_records_are_what_the_file_holds_and_reads_are_aligned(
    path: Path, drawn: list[tuple[int, int]], align: int, read_size: int, gap: int, refused_at: int | None
) -> None:
    offsets = np.array([offset for offset, _ in drawn])
    lengths = np.array([min(length, len(CONTENT) - offset) for offset, length in drawn])

    def answer(number: int, offset: int, length: int) -> int | None:
        return errno.EINVAL if refused_at is not None and number >= refused_at else None

    with DirectReads(answer) as seen, pytest.MonkeyPatch.context() as patch:
        patch.setattr(direct, "direct_align", lambda fd: align)
        file = DirectFile(path, in_order=False)
        plan = plan_reads(offsets, lengths, gap=gap, read_size=read_size, align=file.align)
        buffer = BufferPool(keep=0).take(plan.size)
        read_all(file, reads_of(plan), buffer.data, on_miss=lambda: None)
        file.close()
    for offset, length, place in zip(offsets, lengths, plan.record_places, strict=True):
        assert buffer[place : place + length].tobytes() == CONTENT[offset : offset + length]
    if lengths.any():
        check_aligned(seen, align)
    if refused_at is not None:
        assert len(seen.extents) <= refused_at + 1


@given(
    st.sampled_from(ORDERS),
    st.integers(1, 40),
    st.integers(1, 3),
    st.sampled_from([512, 4096]),
    st.sampled_from([4096, 10_000, 1 << 21]),
)
def test_readers_read_directly_what_stock_lmdb_reads(
    database: Path, order: Order, batch_size: int, world_size: int, align: int, read_size: int
) -> None:
    values = stock_values(database)
    options = ReadOptions(direct=True, read_size=read_size, coalesce=1 << 16, gap=1000, depth=2)
    seen_records: list[int] = []
    with DirectReads() as seen, pytest.MonkeyPatch.context() as patch:
        patch.setattr(direct, "direct_align", lambda fd: align)
        for rank in range(world_size):
            with ParallelReader(
                database, rank=rank, world_size=world_size, batch_size=batch_size, order=order, options=options
            ) as reader:
                for batch in reader:
                    for number, value in zip(batch.indices.tolist(), batch.values, strict=True):
                        assert value == values[number]
                        seen_records.append(number)
    check_aligned(seen, align)
    assert set(seen_records) == set(range(len(values)))
    assert len(seen_records) == len(values) + -len(values) % world_size


def test_a_data_set_reads_directly_what_stock_lmdb_reads(database: Path) -> None:
    values = stock_values(database)
    with DirectReads() as seen, Dataset(database, options=ReadOptions(direct=True, gap=100)) as data:
        for asked in ([len(values) - 1], [0], range(len(values)), [5, 3, 5, 8, 8]):
            assert [record.value for record in data.fetch(asked)] == [values[number] for number in asked]
    check_aligned(seen, 512)


@pytest.mark.parametrize("refusal", [errno.EINVAL, errno.EOPNOTSUPP])
def test_a_read_that_is_refused_midway_is_read_through_the_page_cache_for_good_and_said_once(
    path: Path, refusal: int, caplog: pytest.LogCaptureFixture
) -> None:
    with DirectReads(lambda number, *_: refusal if number else -8192) as seen:
        file = DirectFile(path, in_order=False)
        assert file.align > 1
        assert whole(file, 0, 1 << 16) == CONTENT[: 1 << 16]
        assert whole(file, 0) == CONTENT
        assert (file.align, seen.extents) == (1, [(0, 65_536), (8192, 57_344)])
        file.close()
    (said,) = caplog.records
    assert (said.name, said.levelno) == ("lmdbio.reader", logging.WARNING)
    assert "direct reads are refused" in said.getMessage()


def test_a_file_that_cannot_be_opened_for_direct_reads_is_read_all_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    open_any = os.open

    def refuse(name: str, flags: int, *rest: int) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return open_any(name, flags, *rest)

    monkeypatch.setattr(os, "open", refuse)
    file = open_records(path, direct=True, in_order=False)
    assert (file.align, whole(file, 8192)) == (1, CONTENT[8192:])
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: direct reads are refused (Invalid argument): reading through the page cache"
    ]


def test_a_file_that_was_replaced_meanwhile_is_not_read(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, other = disk / "replaced.mdb", disk / "other.mdb"
    path.write_bytes(CONTENT)
    other.write_bytes(bytes(len(CONTENT)))

    def replace(fd: int) -> int:
        os.replace(other, path)
        return 4096

    monkeypatch.setattr(direct, "direct_align", replace)
    file = DirectFile(path, in_order=False)
    assert (file.align, whole(file, 0, 8192)) == (1, CONTENT[:8192])


@pytest.mark.parametrize("count", [4096, 8192, 100, 5000])
def test_short_reads_are_completed(path: Path, count: int) -> None:
    with DirectReads(lambda *_: -count) as seen:
        file = DirectFile(path, in_order=False)
        assert whole(file, 4096) == CONTENT[4096:]
        assert (len(seen.extents) > 1) == (count >= file.align)
        file.close()


def test_an_error_of_the_device_is_an_error_and_no_refusal(path: Path) -> None:
    with DirectReads(lambda number, offset, _: errno.EIO if offset else None):
        file = DirectFile(path, in_order=False)
        with pytest.raises(ReadError, match=r"expected 8192 bytes at offset 4096, EIO: Input/output error"):
            whole(file, 4096, 8192)
        assert (whole(file, 0, 4096), file.align > 1) == (CONTENT[:4096], True)
        file.close()


@pytest.mark.parametrize("order", ORDERS)
def test_an_error_of_the_device_names_the_record(database: Path, order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    offset = int(build_index(database).extents(np.array([17]))[0][0])
    read_into = RecordFile.read_into

    def fail(self: RecordFile, start: int, buffer: memoryview) -> None:
        if start <= offset < start + buffer.nbytes:
            raise ReadError(self.path, start, buffer.nbytes, "EIO: Input/output error")
        read_into(self, start, buffer)

    monkeypatch.setattr(RecordFile, "read_into", fail)
    with (
        DirectReads(lambda _, start, length: errno.EIO if start <= offset < start + length else None),
        ParallelReader(database, batch_size=8, order=order, options=ReadOptions(direct=True)) as reader,
        pytest.raises(ReadError, match=r"key b'00000017', expected 40000 bytes at offset \d+, EIO"),
    ):
        for _ in reader:
            pass


def test_a_file_cut_short_is_an_error(disk: Path) -> None:
    path = disk / "cut.mdb"
    path.write_bytes(CONTENT)
    with DirectReads():
        file = DirectFile(path, in_order=False)
        os.truncate(path, 10_000)
        with pytest.raises(ReadError, match=r"before the file ends: is it cut short\?"):
            whole(file, 8192, 8192)
        with pytest.raises(ReadError, match=r"before the file ends: is it cut short\?"):
            whole(file, 1 << 18, 8192)
        file.close()


def test_what_is_not_aligned_goes_through_the_page_cache(path: Path) -> None:
    memory = mmap.mmap(-1, 1 << 14)
    with DirectReads() as seen:
        file = DirectFile(path, in_order=False)
        for offset, view in ((100, memoryview(memory)[:8192]), (0, memoryview(memory)[:1000])):
            file.read_into(offset, view)
            assert view == CONTENT[offset : offset + len(view)]
        view = memoryview(memory)[1:8193]
        file.read_into(0, view)
        assert (view == CONTENT[:8192], seen.extents, file.align > 1) == (True, [], True)
        file.close()


def test_what_the_page_cache_holds_is_taken_from_there(path: Path) -> None:
    with DirectReads(cached=True) as seen:
        file = DirectFile(path, in_order=False)
        buffer = BufferPool(keep=0).take(len(CONTENT) + -len(CONTENT) % file.align)
        assert file.read_cached(0, buffer.data) in (0, len(buffer))
        file._tells_cached = False  # as where the file system cannot promise not to wait
        assert file.read_cached(0, buffer.data) == len(buffer)
        assert (buffer.tobytes()[: len(CONTENT)], seen.extents) == (CONTENT, [])
        file.close()


@pytest.mark.parametrize("cached", [False, None])
def test_what_is_not_in_the_page_cache_or_not_known_to_be_is_left_out_of_it(disk: Path, cached: bool | None) -> None:
    path = disk / f"cold{cached}.mdb"
    path.write_bytes(CONTENT)
    with path.open("rb") as opened, DirectReads(cached=cached):
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if is_cached(opened.fileno(), 0, 4096) is not False:
            pytest.skip("the kernel does not tell what is in the page cache, or keeps all")
        file = DirectFile(path, in_order=False)
        assert file.read_cached(0, BufferPool(keep=0).take(1 << 18).data) == 0
        assert whole(file, 0) == CONTENT
        assert is_cached(opened.fileno(), 0, 4096) is False
        file.close()


def test_only_alignment_may_reach_beyond_the_end_of_the_file(path: Path) -> None:
    with DirectReads():
        file = DirectFile(path, in_order=False)
        length = len(CONTENT) + -len(CONTENT) % file.align
        with pytest.raises(ReadError, match="before the file ends"):
            whole(file, 0, length + file.align)
        with pytest.raises(ReadError, match="found 200777 before the file ends"):
            file.read(0, length)
        assert file.read(0, len(CONTENT)) == CONTENT
        file.close()


def test_closing_closes_both_descriptors(path: Path) -> None:
    file = DirectFile(path, in_order=False)
    fds = file.fileno(), file._direct_fd
    del file
    for fd in fds:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
    with pytest.raises(MissingDatabaseError):
        DirectFile(path.parent / "none", in_order=False)


@pytest.mark.parametrize(
    ("file_system", "file_size", "memory_size", "expected"),
    [
        ("fuse", 101, 200, True),
        ("lustre", 300, 200, True),
        ("nfs", 100, 200, False),
        (None, 1 << 40, 200, False),
    ],
)
def test_direct_reads_pay_on_networks_for_what_does_not_fit_in_memory(
    file_system: str | None, file_size: int, memory_size: int, expected: bool
) -> None:
    assert pays_direct(file_system, file_size=file_size, memory_size=memory_size) is expected


@pytest.mark.parametrize(
    ("wanted", "file_system", "expected"),
    [(True, None, True), (False, "nfs", False), ("auto", "nfs", True), ("auto", None, False)],
)
def test_a_file_is_opened_as_wanted(
    path: Path, monkeypatch: pytest.MonkeyPatch, wanted: direct.Direct, file_system: str | None, expected: bool
) -> None:
    monkeypatch.setattr(direct, "network_file_system", lambda fd: file_system)
    monkeypatch.setattr(direct, "available_memory", lambda: 1000)
    file = open_records(path, direct=wanted, in_order=False)
    assert (isinstance(file, DirectFile), file.align > 1) == (expected, expected)
