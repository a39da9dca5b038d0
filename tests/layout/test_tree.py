import random
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.errors import CorruptDatabaseError, FormatError
from lmdbio.layout.file import DataFile
from lmdbio.layout.meta import Tree, read_meta
from lmdbio.layout.page import MAX_KEY_SIZE, NO_PAGE, node_max
from lmdbio.layout.tree import TreeRecords, walk
from tests.layout.databases import make_database, numbered_records, shuffled, stock_records
from tests.layout.pages import BLANK, PAGE_SIZE, big_node, branch, crafted, leaf, node

MIXED = [0, 1, 100, 1000, 2021, 2022, 2023, 4080, 4081, 9000]


def walked(path: Path, *, depth: int = 8) -> TreeRecords:
    with DataFile(path) as file:
        return walk(file, read_meta(file), depth=depth)


def records_at_extents(path: Path) -> list[tuple[bytes, bytes]]:
    content = path.read_bytes()
    found = walked(path)
    extents = zip(found.keys, found.offsets.tolist(), found.lengths.tolist(), strict=True)
    return [(key, content[offset : offset + length]) for key, offset, length in extents]


def ragged_keys(n_records: int, *, seed: int = 0) -> list[bytes]:
    rng = random.Random(seed)
    return sorted({rng.randbytes(rng.randint(1, MAX_KEY_SIZE)) for _ in range(n_records)})


def with_ragged_keys(records: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(key, value) for key, (_, value) in zip(ragged_keys(len(records)), records, strict=False)]


MIXED_RECORDS = numbered_records(700, MIXED)
HISTORIES = {
    "one record": {"records": [(b"key", b"value")]},
    "an empty value": {"records": [(b"key", b"")]},
    "no records": {"records": []},
    "append": {"records": MIXED_RECORDS, "append": True},
    "sorted": {"records": MIXED_RECORDS},
    "random order": {"records": shuffled(MIXED_RECORDS)},
    "many commits": {"records": shuffled(MIXED_RECORDS), "commit_every": 3},
    "overwritten": {"records": MIXED_RECORDS + [(key, value[: len(value) // 2]) for key, value in MIXED_RECORDS[::3]]},
    "deletions": {"records": shuffled(MIXED_RECORDS), "delete": [key for key, _ in MIXED_RECORDS[::2]]},
    "all deleted": {"records": MIXED_RECORDS, "delete": [key for key, _ in MIXED_RECORDS]},
    "keys of all sizes": {"records": shuffled(with_ragged_keys(MIXED_RECORDS)), "commit_every": 100},
    "inline only": {"records": shuffled(numbered_records(5000, [0, 5, 40]))},
    "reverse keys": {"records": with_ragged_keys(MIXED_RECORDS), "reverse_key": True},
    "integer keys": {
        "records": [(number.to_bytes(8, "little"), b"v" * (number % 5000)) for number in range(0, 90000, 70)],
        "integerkey": True,
    },
}


@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_bytes_at_the_extents_are_what_stock_reads(tmp_path, history):
    data = make_database(tmp_path / "db", **history)
    assert records_at_extents(data) == stock_records(data)


@pytest.mark.parametrize("page_size", [512, 1024, 2048, 8192, 16384, 32768])
def test_databases_of_other_page_sizes_are_read(tmp_path, page_size):
    data = make_database(tmp_path / "db", shuffled(numbered_records(500, MIXED)), page_size=page_size)
    with DataFile(data) as file:
        assert read_meta(file).page_size == page_size
    assert records_at_extents(data) == stock_records(data)


@given(
    st.dictionaries(
        st.binary(min_size=1, max_size=MAX_KEY_SIZE),
        st.one_of(
            st.integers(0, 20),
            st.integers(-3, 3).map(lambda near: node_max(PAGE_SIZE) - 16 + near),
            st.integers(-3, 3).map(lambda near: 2 * PAGE_SIZE - 16 + near),
        ),
        max_size=200,
    ),
    st.integers(1, 50),
    st.randoms(use_true_random=False),
)
def test_any_record_set_is_read_as_stock_reads_it(tmp_path_factory, sizes, commit_every, rng):
    records = [(key, rng.randbytes(size)) for key, size in sizes.items()]
    data = make_database(tmp_path_factory.mktemp("db") / "db", records, commit_every=commit_every)
    assert records_at_extents(data) == sorted(records)


def test_pages_and_slots_say_where_a_value_lies(tmp_path):
    data = make_database(tmp_path / "db", shuffled(MIXED_RECORDS))
    content = np.fromfile(data, np.uint8)
    found = walked(data)
    big = ~found.inline
    assert (found.offsets[big] == found.pages[big] * PAGE_SIZE + 16).all()
    assert (
        found.offsets[found.inline] // PAGE_SIZE - found.pages[found.inline] <= 1
    ).all()  # an empty value may end it
    for record in np.flatnonzero(found.inline):
        page, slot = int(found.pages[record]), int(found.slots[record])
        (pointer,) = struct.unpack_from("<H", content, page * PAGE_SIZE + 16 + 2 * slot)
        assert page * PAGE_SIZE + pointer + 8 + len(found.keys[record]) == found.offsets[record]


def test_layout_order_is_by_page_and_slot(tmp_path):
    found = walked(make_database(tmp_path / "db", shuffled(MIXED_RECORDS)))
    order = found.layout_order()
    slots = np.where(found.inline, found.slots, 0)
    assert order.tolist() == np.lexsort((slots, found.pages)).tolist()


def test_layout_order_that_is_key_order_is_none(tmp_path):
    assert walked(make_database(tmp_path / "a", numbered_records(300, [5000]), append=True)).layout_order() is None
    assert walked(make_database(tmp_path / "b", [])).layout_order() is None


@pytest.mark.parametrize("order", ["append", "random order"])
@pytest.mark.parametrize(("n_records", "size", "share"), [(8000, 3072, 0.015), (400, 112640, 0.003)])
def test_tree_pages_only_are_read(tmp_path, monkeypatch, order, n_records, size, share):
    records = [(b"%08d" % number, bytes(size)) for number in range(n_records)]
    append = order == "append"
    data = make_database(tmp_path / "db", records if append else shuffled(records), append=append)
    asked = []
    read_into = DataFile.read_into

    def counting(file, offset, buffer):
        asked.append((offset, buffer.nbytes))
        read_into(file, offset, buffer)

    monkeypatch.setattr(DataFile, "read_into", counting)
    found = walked(data)
    with DataFile(data) as file:
        main = read_meta(file).main
    assert (found.branch_pages, found.leaf_pages) == (main.branch_pages, main.leaf_pages)
    values = {page for first in found.pages.tolist() for page in (first, first + size // PAGE_SIZE)}
    assert values.isdisjoint(
        page for begin, n in asked for page in range(begin // PAGE_SIZE, -(-(begin + n) // PAGE_SIZE))
    )
    assert found.bytes_read <= sum(n for _, n in asked) <= found.bytes_read + 1024
    assert found.bytes_read <= share * data.stat().st_size


@pytest.mark.parametrize("depth", [1, 2, 50])
def test_reads_in_flight_change_nothing(tmp_path, depth):
    data = make_database(tmp_path / "db", shuffled(numbered_records(5000, [500])))
    expected, found = walked(data), walked(data, depth=depth)
    assert list(expected.keys) == list(found.keys)
    assert expected.offsets.tolist() == found.offsets.tolist()


def test_the_free_tree_can_be_walked(tmp_path):
    data = make_database(tmp_path / "db", MIXED_RECORDS, delete=[key for key, _ in MIXED_RECORDS[::2]])
    with DataFile(data) as file:
        meta = read_meta(file)
        free = walk(file, meta, tree=meta.free)
        lists = [
            np.frombuffer(file.read(int(at), int(n)), "<u8") for at, n in zip(free.offsets, free.lengths, strict=True)
        ]
        live = walk(file, meta)
    pages = np.concatenate([page_list[1 : 1 + int(page_list[0])] for page_list in lists])
    assert len(free) == meta.free.entries > 0
    assert len(np.unique(pages)) == len(pages) > 100
    assert np.intersect1d(pages, live.pages).size == 0


@pytest.mark.parametrize(
    ("options", "name"),
    [({"name": b"photos"}, r"named databases \(first: b'photos'\)"), ({"dupsort": True}, "found a dupsort database")],
)
def test_what_is_not_indexed_yet_is_refused_by_name(tmp_path, options, name):
    data = make_database(tmp_path / "db", [(b"key", b"value"), (b"key", b"value 2")], **options)
    with pytest.raises(FormatError, match=f"{name}.*: .*not indexed yet") as caught:
        walked(data)
    assert not isinstance(caught.value, CorruptDatabaseError)


GOOD = leaf(2, [node(b"key", b"value")])
LEAF_3 = leaf(3, [node(b"a", b"1")])
LEAF_4 = leaf(4, [node(b"b", b"2")])


def test_a_crafted_database_without_damage_is_read(tmp_path):
    assert records_at_extents(crafted(tmp_path, [GOOD])) == [(b"key", b"value")]
    path = crafted(tmp_path, [branch(2, [4, 3]), LEAF_3, leaf(4, [big_node(b"b", 5, 4080)]), BLANK], entries=2)
    assert records_at_extents(path) == [(b"b", bytes(4080)), (b"a", b"1")]


DAMAGE = {
    "a value on a page of the tree": (
        [leaf(2, [big_node(b"key", 2, 4000), node(b"l")])],
        "a page of the tree, found it within",
    ),
    "two values on one page": (
        [leaf(2, [big_node(b"a", 3, 5000), big_node(b"b", 4, 4000)]), BLANK, BLANK],
        "one value on a page, found two",
    ),
    "a branch that is its own child": ([branch(2, [3, 2]), LEAF_3], "one place in the tree"),
    "a branch with twice the same child": ([branch(2, [3, 3]), LEAF_3], "one place in the tree"),
    "a cycle": ([branch(2, [3, 4]), branch(3, [5, 6]), branch(4, [2, 7]), *[BLANK] * 3], "one place in the tree"),
    "children of two kinds": ([branch(2, [3, 4]), LEAF_3, branch(4, [5, 6]), *[BLANK] * 2], "a leaf page, found other"),
    "a leaf and then a branch": ([branch(2, [4, 3]), LEAF_3, branch(4, [5, 6]), *[BLANK] * 2], "a branch page, found"),
    "an overflow page as child": ([branch(2, [3, 4]), LEAF_3, leaf(4, [node(b"b")], kind=4)], "found other flags"),
    "too many records": ([branch(2, [3, 4]), LEAF_3, LEAF_4], "expected 1 records.*found more"),
}


@pytest.mark.parametrize(("pages", "message"), DAMAGE.values(), ids=DAMAGE)
def test_damage_is_refused_by_name(tmp_path, pages, message):
    path = crafted(tmp_path, pages, entries=1 if "more" in message else 2)
    with pytest.raises(CorruptDatabaseError, match=message) as caught:
        walked(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("entries", [0, 2, NO_PAGE])
def test_a_wrong_count_of_records_is_refused(tmp_path, entries):
    with pytest.raises(CorruptDatabaseError, match=f"expected {entries} records"):
        walked(crafted(tmp_path, [GOOD], entries=entries))


@pytest.mark.parametrize("root", [0, 1, 3, 1 << 40, NO_PAGE - 1])
def test_a_root_out_of_range_is_refused(tmp_path, root):
    with DataFile(crafted(tmp_path, [GOOD])) as file:
        meta = read_meta(file)
        with pytest.raises(CorruptDatabaseError, match="a root page within pages 2 to 2"):
            walk(file, meta, tree=Tree(**{**{name: getattr(meta.main, name) for name in Tree.__slots__}, "root": root}))


@pytest.mark.parametrize(
    ("pages", "missing"),
    [
        ([branch(2, [3, 4]), LEAF_3], "a child page on page 4 is missing"),
        ([branch(2, [3, 4]), LEAF_3, LEAF_4[:-1]], "a child page on page 4 is missing"),
        ([leaf(2, [big_node(b"key", 3, 9000)])], "a value's first page on page 3 is missing"),
        ([leaf(2, [big_node(b"key", 3, 9000)]), BLANK, BLANK], "the end of the value on page 3 is missing"),
    ],
)
def test_a_file_cut_short_says_what_is_missing(tmp_path, pages, missing):
    with pytest.raises(CorruptDatabaseError, match=f"the file is cut short, {missing}: copy it again"):
        walked(crafted(tmp_path, pages, entries=2, last_page=9))


def test_a_file_that_lacks_only_free_pages_at_its_end_is_read(tmp_path):
    path = crafted(tmp_path, [GOOD], last_page=9)
    assert records_at_extents(path) == [(b"key", b"value")]


def test_every_cut_of_a_database_is_a_named_error_or_harmless(tmp_path):
    data = make_database(tmp_path / "db", shuffled(numbered_records(60, MIXED)))
    expected = described(walked(data))
    content = data.read_bytes()
    refused = 0
    for size in range(len(content) - 1, 0, -1021):
        data.write_bytes(content[:size])
        try:
            assert described(walked(data)) == expected
        except FormatError:
            refused += 1
    assert refused > size // 1021


def described(found: TreeRecords) -> dict[bytes, tuple[int, int]]:
    return dict(zip(found.keys, zip(found.offsets.tolist(), found.lengths.tolist(), strict=True), strict=True))


def flips(content: bytes, n_flips: int, *, rng: random.Random) -> Iterator[bytes]:
    """Yield copies with one bit flipped: half of them where the structure is dense, at the start of a page."""
    for number in range(n_flips):
        damaged = bytearray(content)
        at = rng.randrange(len(content))
        if number % 2:
            at -= at % PAGE_SIZE - rng.randrange(200)
        damaged[min(at, len(content) - 1)] ^= 1 << rng.randrange(8)
        yield bytes(damaged)


def page_swaps(content: bytes, n_swaps: int, *, rng: random.Random) -> Iterator[bytes]:
    """Yield copies with two pages swapped, or one written over another."""
    for number in range(n_swaps):
        pages = [content[begin : begin + PAGE_SIZE] for begin in range(0, len(content), PAGE_SIZE)]
        one, other = rng.sample(range(len(pages)), 2)
        pages[one], pages[other] = pages[other], pages[one if number % 2 else other]
        yield b"".join(pages)


def overwrites(content: bytes, n_overwrites: int, *, rng: random.Random) -> Iterator[bytes]:
    """Yield copies with a run of random bytes, or of zeros, somewhere."""
    for number in range(n_overwrites):
        size = rng.choice([2, 8, 16, 100, PAGE_SIZE])
        at = rng.randrange(len(content) - size)
        yield content[:at] + (rng.randbytes(size) if number % 2 else bytes(size)) + content[at + size :]


@pytest.mark.parametrize(
    ("records", "commit_every"),
    [
        (shuffled(numbered_records(100, MIXED)), None),
        (shuffled(numbered_records(900, [0, 30, 60])), 400),
        (shuffled(with_ragged_keys(numbered_records(100, [0, 200, 3000]))), 30),
    ],
    ids=["mixed", "inline", "keys of all sizes"],
)
@pytest.mark.parametrize("damage", [flips, page_swaps, overwrites])
def test_random_damage_gives_the_right_records_or_a_named_error(tmp_path, records, commit_every, damage):
    data = make_database(tmp_path / "db", records, commit_every=commit_every)
    content = data.read_bytes()
    expected = described(walked(data))
    with DataFile(data) as file:
        meta = read_meta(file)
    rng = random.Random(5)
    outcomes = {"right": 0, "refused": 0, "older": 0}
    for damaged in damage(content, 300, rng=rng):
        data.write_bytes(damaged)
        try:
            with DataFile(data) as file:
                found_meta = read_meta(file)
                found = described(walk(file, found_meta, depth=rng.choice([1, 1, 1, 8])))
        except FormatError:
            outcomes["refused"] += 1
            continue
        if found_meta.slot != meta.slot:
            assert found_meta.torn_slot == meta.slot  # the snapshot before, and said to be
            outcomes["older"] += 1
            continue
        # LMDB keeps no checksum: damage within a record's node may change that record, or its key into another's, and
        # no more.
        wrong = sum(found.get(key) != extent for key, extent in expected.items())
        assert wrong <= 2 * n_tree_bytes_changed(content, damaged)
        for offset, length in found.values():
            assert offset + length <= len(damaged)
        outcomes["right"] += 1
    assert outcomes["right"] > 0
    assert outcomes["refused"] > 0


def n_tree_bytes_changed(content: bytes, damaged: bytes) -> int:
    """Return how many bytes of branch, leaf and meta pages differ, of live and of old ones."""
    before, after = (np.frombuffer(each, np.uint8).reshape(-1, PAGE_SIZE) for each in (content, damaged))
    flags = before[:, 10:12].view("<u2")[:, 0]
    numbers = before[:, :8].view("<u8")[:, 0]
    tree = (numbers == np.arange(len(before))) & (flags != 4)
    return int((before[tree] != after[tree]).sum())
