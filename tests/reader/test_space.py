import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.reader.options import ReadOptions
from lmdbio.reader.plan import plan_reads
from lmdbio.reader.space import STRIDE, Space


def test_a_single_files_bytes_are_where_they_are() -> None:
    space = Space.of(["a"], [100])
    assert (space.size, space.place(0), space.place(99), space.place(1000)) == (100, ("a", 0), ("a", 99), ("a", 1000))
    assert space.ends(np.array([0, 100, 2**64 - 1], np.uint64)).tolist() == [100] * 3


@given(st.lists(st.sampled_from([0, 1, 5000, STRIDE - 1, STRIDE, STRIDE + 1]), min_size=1, max_size=9))
def test_each_byte_and_what_lies_behind_its_file_is_the_files(sizes: list[int]) -> None:
    paths = [f"{number}" for number in range(len(sizes))]
    space = Space.of(paths, sizes)
    assert space.bases[0] == 0
    for number, (base, size) in enumerate(zip(space.bases.tolist(), sizes, strict=True)):
        assert base % STRIDE == 0
        for offset in {0, max(0, size - 1), size, size + STRIDE - 1}:
            assert space.file_of(base + offset) == number
            assert space.place(base + offset) == (paths[number], offset)
            assert space.ends(np.array([base + offset], np.uint64)).tolist() == [base + size]


def test_reads_are_never_merged_from_one_file_into_the_next() -> None:
    space = Space.of(["a", "b"], [4096, 4096])
    offsets = np.array([0, int(space.bases[1])])
    widest = ReadOptions(gap=1 << 40)
    plan = plan_reads(offsets, np.array([4096, 4096]), gap=widest.gap, read_size=1 << 40, align=4096)
    assert plan.offsets.tolist() == offsets.tolist()
    assert plan.lengths.tolist() == [4096, 4096]
