"""Record sets for tests: keys of every size and kind, values around every threshold of the page, in every order."""

import random
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

Record = tuple[bytes, bytes]

PAGE_SIZES = [2048, 4096, 8192, 16384, 32768]
_MAX_BYTES = 6 << 20  # of values, so that an example's file stays within 8 MiB


@dataclass(frozen=True)
class RecordSet:
    """Records in plan order, and how to write them."""

    records: list[Record]
    page_size: int
    options: dict[str, int] = field(default_factory=dict)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # hypothesis would print every byte
        printer.text(repr(self))

    def __repr__(self) -> str:
        sizes = [(len(key), len(value)) for key, value in self.records[:12]]
        return f"RecordSet({len(self.records)} records, sizes {sizes}, page_size={self.page_size}, {self.options})"


def threshold_sizes(page_size: int, key_size: int) -> list[int]:
    """Return value sizes next to each border: inline or not, the last byte of an extent's first and third page."""
    inline_most = (((page_size - 16) // 2) & ~1) - 2 - 8 - key_size
    borders = [0, inline_most, page_size - 16, 3 * page_size - 16]
    return [size for border in borders for size in range(border - 2, border + 3) if size >= 0]


def make_records(
    n_records: int, *, page_size: int, seed: int, keys: str, values: str, order: str, longest: int = 511
) -> list[Record]:
    """Return up to ``n_records`` records, fewer where their values would exceed the bound on bytes."""
    rng = random.Random(seed)
    made: dict[bytes, bytes] = {}
    left = _MAX_BYTES
    for number in range(n_records):
        key = _key(rng, number, keys, longest)
        size = min(_size(rng, page_size, len(key), values), 300_000)
        if size > left:
            break
        left -= size
        made[key] = rng.randbytes(size)
    records = list(made.items())
    if order == "shuffled":
        rng.shuffle(records)
    else:
        records.sort(reverse=order == "descending")
    return records


def _key(rng: random.Random, number: int, kind: str, longest: int) -> bytes:
    if kind == "numbers":
        return b"%08d" % number
    if kind == "long":
        return rng.randbytes(rng.randint(longest - 30, longest))
    if kind == "zeros":  # that differ in trailing zeros, and share long prefixes
        return b"\0" * rng.randint(0, 20) + number.to_bytes(3, "big") + b"\0" * rng.randint(0, 20)
    return rng.randbytes(rng.randint(1, longest))


def _size(rng: random.Random, page_size: int, key_size: int, kind: str) -> int:
    if kind == "thresholds":
        return rng.choice(threshold_sizes(page_size, key_size))
    if kind == "inline":
        return rng.randint(0, page_size // 2 - 300 if page_size > 1024 else 100)
    if kind == "tiny":
        return rng.randint(0, 9)
    if kind == "large":
        return rng.choice([300_000, 299_999, rng.randint(0, 300_000)])
    return rng.choice([0, rng.randint(0, page_size), rng.choice(threshold_sizes(page_size, key_size))])


def partition_options(page_size: int) -> st.SearchStrategy[dict[str, int]]:
    """Return a strategy for every way of cutting and aligning."""
    return st.one_of(
        st.just({}),
        st.builds(lambda pages: {"partition_size": pages * page_size}, st.sampled_from([1, 2, 5, 64])),
        st.builds(
            lambda pages, times: {"align": pages * page_size, "partition_size": times * pages * page_size},
            st.sampled_from([1, 2, 16, 64]),
            st.integers(1, 4),
        ),
        st.builds(lambda count: {"n_partitions": count}, st.integers(1, 40)),
        st.builds(
            lambda count, pages: {"n_partitions": count, "align": pages * page_size},
            st.integers(1, 9),
            st.sampled_from([1, 8, 32]),
        ),
        st.just({"align": 1 << 20}),
    )


@st.composite
def record_sets(draw: st.DrawFn, *, page_sizes: tuple[int, ...] = tuple(PAGE_SIZES)) -> RecordSet:
    """Return a strategy for record sets of 0 to 5,000 records."""
    page_size = draw(st.sampled_from(page_sizes))
    n_records = draw(st.one_of(st.integers(0, 5), st.integers(0, 300), st.integers(300, 5000)))
    records = make_records(
        n_records,
        page_size=page_size,
        seed=draw(st.integers(0, 2**32)),
        keys=draw(st.sampled_from(["numbers", "any", "long", "zeros"])),
        values=draw(st.sampled_from(["thresholds", "inline", "tiny", "large", "mixed"])),
        order=draw(st.sampled_from(["ascending", "shuffled", "descending"])),
        longest=511 if page_size > 1024 else 486,
    )
    return RecordSet(records, page_size, draw(partition_options(page_size)))
