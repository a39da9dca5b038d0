import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.layout.leaf_records import LeafRecords


def records_of(pages: list[list[bytes]]) -> LeafRecords:
    """Return the records of pages given as lists of keys, the other arrays counting up."""
    keys = [key for page in pages for key in page]
    numbers = np.arange(len(keys))
    return LeafRecords(
        counts=np.array([len(page) for page in pages], np.int64),
        key_blob=np.frombuffer(b"".join(keys), np.uint8),
        key_sizes=np.array([len(key) for key in keys], np.int64),
        offsets=numbers.astype(np.uint64),
        lengths=numbers + 1,
        pages=numbers + 2,
        slots=numbers + 3,
        inline=numbers % 2 == 0,
    )


def rows_of(records: LeafRecords) -> list[tuple[object, ...]]:
    ends = np.cumsum(records.key_sizes).tolist()
    keys = [records.key_blob[end - size : end].tobytes() for end, size in zip(ends, records.key_sizes, strict=True)]
    columns = (records.offsets, records.lengths, records.pages, records.slots, records.inline)
    return list(zip(keys, *(column.tolist() for column in columns), strict=True))


PAGES = st.lists(st.lists(st.binary(min_size=1, max_size=5), min_size=1, max_size=5), max_size=8)


@given(PAGES, st.randoms(use_true_random=False))
def test_pages_are_put_in_another_order_with_all_their_records(pages, rng):
    places = rng.sample(range(len(pages)), len(pages))
    records = records_of(pages)
    rows = rows_of(records)
    begins = np.concatenate(([0], np.cumsum(records.counts))).tolist()
    expected = [row for place in places for row in rows[begins[place] : begins[place + 1]]]
    moved = records.with_pages_in(np.array(places, np.int64))
    assert rows_of(moved) == expected
    assert moved.counts.tolist() == [len(pages[place]) for place in places]


@given(PAGES)
def test_parts_are_joined_end_to_end(pages):
    parts = [records_of([page]) for page in pages]
    joined = LeafRecords.concatenate(parts)
    assert rows_of(joined) == [row for part in parts for row in rows_of(part)]
    assert joined.offsets.dtype == np.uint64
