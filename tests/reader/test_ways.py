from lmdbio.reader.ways import Way, choose_ways


def test_all_ways_of_one_process_where_the_cache_is_empty() -> None:
    names = [f"{way.name}, {way.order}" for way in choose_ways("cold", n_ranks=1, has_direct=True)]
    assert names == [
        "stock cursor, key",
        "stock cursor, no readahead, key",
        "stock get, random",
        "stock get, no readahead, random",
        "lmdbio independent, sequential",
        "lmdbio independent, direct, sequential",
        "lmdbio independent, block",
        "lmdbio independent, direct, block",
        "lmdbio independent, global",
        "lmdbio independent, direct, global",
        "plain reads, file",
        "plain reads, direct, file",
    ]


def test_several_ranks_read_collectively_too() -> None:
    orders = [way.order for way in choose_ways("warm", n_ranks=2, has_direct=True) if way.io == "collective"]
    assert orders == ["sequential", "block", "global"]


def test_what_makes_no_difference_is_left_out() -> None:
    for way in choose_ways("warm", n_ranks=1, has_direct=True):
        assert not way.direct
        assert way.readahead
    assert not any(way.direct for way in choose_ways("cold", n_ranks=1, has_direct=False))


def test_a_kind_of_order_is_told_from_the_other() -> None:
    assert [order for order in ("key", "random", "sequential", "block", "global", "file") if _is_shuffled(order)] == [
        "random",
        "block",
        "global",
    ]


def _is_shuffled(order: str) -> bool:
    return Way("lmdbio", order, "independent").is_shuffled  # type: ignore[arg-type]
