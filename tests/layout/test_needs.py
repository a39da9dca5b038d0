import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.layout.keys import Keys
from lmdbio.layout.needs import page_needs

records = st.lists(
    st.tuples(st.integers(1, 511), st.integers(0, 3000) | st.integers(0, (1 << 32) - 1)), min_size=1, max_size=50
)


@given(records, st.sampled_from([2048, 4096, 32768]))
def test_a_record_takes_pages_of_its_own_or_more_room_in_its_leaf(held: list[tuple[int, int]], page_size: int) -> None:
    keys = Keys.from_list(bytes(size) for size, _ in held)
    pages, node_sizes = page_needs(keys, np.array([length for _, length in held], np.int64), page_size=page_size)
    for (key_size, length), n_pages, node_size in zip(held, pages.tolist(), node_sizes.tolist(), strict=True):
        content = 8 if n_pages else length
        assert node_size == 8 + key_size + content + (key_size + content) % 2 + 2
        assert n_pages == (-(-(16 + length) // page_size) if n_pages else 0)
        assert bool(n_pages) == (8 + key_size + length > ((page_size - 16) // 2 & ~1) - 2)
