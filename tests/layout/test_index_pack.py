"""One form for equal input: what a writer says of its database and what rebuilding finds become the same bytes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.layout import sidecar
from lmdbio.layout.build import build_index
from lmdbio.layout.file import DataFile
from lmdbio.layout.fingerprint import Fingerprint, take_fingerprint
from lmdbio.layout.index import Index
from lmdbio.layout.keys import Keys
from lmdbio.layout.meta import read_meta
from lmdbio.layout.writer import write_database


def fingerprint(n: int, *, file_size: int = 1 << 40) -> Fingerprint:
    return Fingerprint(3, file_size, 4096, 7, n, 255, "0" * 64, "1" * 64, "2" * 64)


def made(n: int, **changes: Any) -> Index:
    arguments = {
        "fingerprint": fingerprint(n),
        "page_size": 4096,
        "keys": Keys.from_list([b"%07d" % i for i in range(n)]),
        "key_order": "bytes",
        "offsets": np.arange(n, dtype=np.uint64) * np.uint64(4096) + np.uint64(16),
        "lengths": np.full(n, 3072),
    }
    return Index.make(**{**arguments, **changes})


def stored(index: Index) -> sidecar.Arrays:
    return sidecar.parse(np.frombuffer(index.to_bytes(), np.uint8), path="x")[0]


def written_index(path: Path, records: list[tuple[bytes, bytes]], **options: Any) -> tuple[Index, Index]:
    """Return the index as a converter makes it from what the writer says, and the one made from the file alone."""
    written = write_database(path, records, **options)
    with DataFile(path) as file:
        state = take_fingerprint(file, read_meta(file))
    keys = [records[number][0] for number in written.records.tolist()]
    converted = Index.make(
        fingerprint=state,
        page_size=written.meta.page_size,
        keys=Keys.from_list(keys),
        key_order="bytes",
        offsets=written.offsets,
        lengths=written.lengths,
        layout_order=written.layout_order,
        partitions=written.partitions,
        checksums=written.checksums,
    )
    return converted, build_index(path)


@given(
    records=st.dictionaries(
        st.binary(min_size=1, max_size=30), st.sampled_from([0, 1, 500, 2000, 2030, 4080, 9000]), max_size=60
    ),
    in_order=st.booleans(),
    page_size=st.sampled_from([4096, 16384]),
    n_partitions=st.none() | st.integers(1, 5),
)
def test_the_index_of_a_new_database_is_that_of_rebuilding(
    tmp_path: Path, records: dict[bytes, int], in_order: bool, page_size: int, n_partitions: int | None
) -> None:
    path = tmp_path / "data.mdb"
    path.unlink(missing_ok=True)
    items = [(key, key[:1] * size) for key, size in records.items()]
    converted, rebuilt = written_index(
        path, sorted(items) if in_order else items, page_size=page_size, n_partitions=n_partitions
    )
    bare, text = sidecar.parse(np.frombuffer(converted.to_bytes(), np.uint8), path="x")
    for name in ("partition", "checksum"):
        bare.pop(name, None)
    assert rebuilt.to_bytes() == sidecar.to_bytes(bare, text)
    assert (converted.checksums if converted.checksums is not None else np.zeros(0)).tolist() == (
        build_index(path, checksum=True).checksums
    ).tolist()  # type: ignore[union-attr]
    assert converted.to_bytes() == build_index(path, previous=converted).to_bytes()


def test_a_million_equal_values_take_little_and_the_same_each_time() -> None:
    n = 1_000_000
    partition, place = np.divmod(np.arange(n), 4069)
    offsets = ((1 << 20) + 16 + partition * (16 << 20) + place * 4096).astype(np.uint64)
    partitions = np.append(np.arange(0, n, 4069), n)
    rng = np.random.default_rng(0)
    labels, checksums = rng.integers(0, 1000, n), rng.integers(0, 1 << 63, n).astype(np.uint64)
    keys = Keys.from_list([b"%08d_n%08d/%d.JPEG" % (i, i % 977, i * 7919 % n) for i in range(n)])
    indexes = [
        made(n, keys=keys, offsets=offsets, partitions=partitions, labels=labels, checksums=checksums) for _ in range(2)
    ]
    content = indexes[0].to_bytes()
    assert content == indexes[1].to_bytes()
    arrays = stored(indexes[0])
    assert arrays["offset_runs"].nbytes + arrays["length"].nbytes < 4096
    known = sum(arrays[name].nbytes for name in ("key_bytes", "key_offset", "label", "checksum"))
    assert len(content) - known < 65536
    assert np.array_equal(offsets, Index.from_bytes(content).offsets)
    assert np.array_equal(partitions, Index.from_bytes(content).partitions)


def test_keys_that_follow_a_pattern_are_not_stored() -> None:
    index = made(500)
    assert stored(index).keys() == {"offset_runs", "length"}
    assert index.keys[499] == b"0000499"
    assert index.metadata["key_pattern"] == {"kind": "decimal", "start": 0, "size": 7}


def test_key_order_is_not_stored_as_layout_order() -> None:
    assert made(9).to_bytes() == made(9, layout_order=np.arange(9)).to_bytes()
    assert "layout_order" in stored(made(9, layout_order=np.arange(9)[::-1]))


def test_partitions_are_stored_where_they_are_not_the_usual_ones() -> None:
    n = 10_000
    usual = made(n)
    assert usual.to_bytes() == made(n, partitions=usual.partitions).to_bytes()
    assert [0, 7, n] == made(n, partitions=np.array([0, 0, 7, 7, n])).partitions.tolist()


def test_payloads_that_are_whole_values_are_not_stored() -> None:
    whole = made(9, payload_offsets=np.zeros(9, np.int64), payload_lengths=np.full(9, 3072))
    assert made(9).to_bytes() == whole.to_bytes()
    assert not whole.has_payloads
    part = made(9, payload_offsets=np.full(9, 4), payload_lengths=np.arange(9))
    assert (stored(part)["payload_offset"].tolist(), stored(part)["payload_length"].tolist()) == ([4], list(range(9)))
    assert part.payloads(np.array([3, 2]))[1].tolist() == [3, 2]
    assert part.has_payloads


def test_class_names_that_are_no_text_come_back() -> None:
    names = ["\udcff\udc80", "名前", 'quote"', ""]
    assert names == Index.from_bytes(made(3, class_names=names).to_bytes()).class_names


@pytest.mark.parametrize("n", [0, 1])
def test_few_records_make_an_index(n: int) -> None:
    index = Index.from_bytes(made(n, labels=np.zeros(n, np.int64), partitions=np.array([0, n])).to_bytes())
    assert (len(index), index.partitions.tolist()) == (n, [0, n][: n + 1])
    assert (index.offsets.tolist(), index.lengths.tolist(), len(index.keys)) == ([16][:n], [3072][:n], n)


@pytest.mark.parametrize(
    "change",
    [
        {"offsets": np.zeros(4, np.uint64)},
        {"lengths": np.zeros((5, 1), np.int64)},
        {"labels": np.zeros(6, np.int64)},
        {"checksums": np.zeros(6, np.uint64)},
        {"layout_order": np.zeros(6, np.int64)},
        {"layout_order": np.zeros(5, np.int64)},
        {"payload_offsets": np.zeros(5, np.int64)},
        {"payload_offsets": np.full(5, 4), "payload_lengths": np.full(5, 3070)},
        {"partitions": np.array([0, 6])},
        {"lengths": np.full(5, 1 << 41)},
        {"source": {"ratio": float("nan")}},
    ],
)
def test_arrays_that_do_not_fit_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        made(5, **change)
