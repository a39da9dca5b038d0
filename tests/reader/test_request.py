"""A request brings every byte of a plan to its place, asking for none twice."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.reader.plan import part_repeats, plan_reads
from lmdbio.reader.request import EMPTY, Request, request_of

CONTENT = np.random.default_rng(0).integers(0, 256, 5000, np.uint8)


def fill(request: Request, size: int) -> np.ndarray:
    """Return a buffer as a collective read leaves it, copies made."""
    buffer = np.zeros(size, np.uint8)
    if len(request.offsets):
        ranges = zip(request.offsets.tolist(), request.lengths.tolist(), strict=True)
        buffer[: request.size] = np.concatenate([CONTENT[offset : offset + length] for offset, length in ranges])
    request.repeat(buffer)
    return buffer


@given(st.lists(st.integers(0, 29), max_size=40), st.integers(0, 300), st.randoms())
def test_every_record_is_at_its_place_however_often_it_is_asked_for(records: list[int], gap: int, random) -> None:
    # extents that overlap, touch, lie apart, hold nothing
    starts = np.array([random.randint(0, 4500) for _ in range(30)], np.int64)
    sizes = np.array([random.choice([0, 1, 50, 400]) for _ in range(30)], np.int64)
    numbers = np.array(records, np.int64)
    plan = plan_reads(starts[numbers], sizes[numbers], gap=gap, read_size=1 << 40, align=1)
    plan = part_repeats(plan, numbers, starts[numbers], align=1)
    request = request_of(plan)
    ends = request.offsets + request.lengths
    assert (request.offsets[1:] > ends[:-1]).all()
    assert (request.lengths > 0).all()
    assert request.end == (max(ends) if len(ends) else 0)
    buffer = fill(request, plan.size)
    for number, place in zip(records, plan.record_places.tolist(), strict=True):
        wanted = CONTENT[starts[number] : starts[number] + sizes[number]]
        assert buffer[place : place + sizes[number]].tolist() == wanted.tolist()


@given(st.lists(st.integers(1, 50), max_size=8), st.integers(1, 60))
def test_pieces_cover_the_ranges_and_are_short(lengths: list[int], most: int) -> None:
    offsets = np.arange(len(lengths), dtype=np.int64) * 100
    none = np.zeros(0, np.int64)
    request = Request(offsets, np.array(lengths, np.int64), sum(lengths), none, none, none)
    pieces = list(zip(*(part.tolist() for part in request.pieces(most)), strict=True))
    assert all(0 < length <= most for _, length in pieces)
    covered = [byte for offset, length in pieces for byte in range(offset, offset + length)]
    assert covered == [
        byte
        for offset, length in zip(offsets.tolist(), lengths, strict=True)
        for byte in range(offset, offset + length)
    ]


def test_a_rank_that_needs_nothing_asks_for_nothing() -> None:
    assert (EMPTY.size, EMPTY.end, len(EMPTY.pieces(1)[0])) == (0, 0, 0)
    fill(EMPTY, 0)
