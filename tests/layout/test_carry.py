"""A new index keeps what only the source knew, by key, and reads the rest from changed Datums."""

from pathlib import Path

import lmdb
import numpy as np
import pytest

from lmdbio.layout.build import build_index
from lmdbio.layout.datum import wrap
from lmdbio.layout.index import Index
from lmdbio.layout.index_parts import ValueKind
from tests.layout.databases import make_database


def datum(payload: bytes, label: int) -> bytes:
    head, tail = wrap(len(payload), label)
    return head + payload + tail


def known_index(path: Path, *, value_kind: ValueKind) -> Index:
    """Return the index of the database as its converter would have made it: label i for record i."""
    bare = build_index(path)
    n = len(bare)
    offsets = np.where(bare.lengths > 2 + 127 + 4, 3, 2)  # a tag, a varint of the length; behind the payload 4 bytes
    return Index.make(
        fingerprint=bare.fingerprint,
        page_size=bare.page_size,
        keys=bare.keys.expand(),
        key_order=bare.key_order,
        offsets=bare.offsets,
        lengths=bare.lengths,
        labels=np.arange(n),
        class_names=["a", "b"],
        source={"kind": "folder"},
        value_kind=value_kind,
        payload_offsets=offsets if value_kind == "datum" else None,
        payload_lengths=bare.lengths - offsets - 4 if value_kind == "datum" else None,
    )


def change(path: Path, puts: dict[bytes, bytes], deletes: tuple[bytes, ...] = ()) -> None:
    with lmdb.open(str(path), map_size=1 << 24) as env, env.begin(write=True) as txn:
        for key, value in puts.items():
            txn.put(key, value)
        for key in deletes:
            txn.delete(key)


@pytest.fixture
def datums(tmp_path: Path) -> Path:
    path = tmp_path / "a.lmdb"
    make_database(path, [(b"key%d" % i, datum(b"%d" % i * (20 * i), i)) for i in range(1, 10)])
    return path


def test_labels_names_and_source_go_with_their_keys(tmp_path: Path) -> None:
    path = tmp_path / "a.lmdb"
    make_database(path, [(b"%d" % i, b"v" * i) for i in range(5)])
    previous = known_index(path, value_kind="raw")
    change(path, {b"00": b"new", b"3": b"other"}, (b"1",))
    found = build_index(path, previous=previous)
    assert list(found.keys) == [b"0", b"00", b"2", b"3", b"4"]
    assert found.labels is not None
    assert found.labels.tolist() == [0, -1, 2, 3, 4]
    assert found.class_names == ["a", "b"]
    assert found.source == {"kind": "folder"}
    assert not found.has_payloads


def test_an_index_that_knew_no_labels_gives_none(tmp_path: Path) -> None:
    path = tmp_path / "a.lmdb"
    make_database(path, [(b"%d" % i, b"v" * i) for i in range(5)])
    assert build_index(path, previous=build_index(path)).labels is None


def test_payloads_of_changed_and_new_datums_are_read_from_them(datums: Path) -> None:
    previous = known_index(datums, value_kind="datum")
    change(datums, {b"key3": datum(b"changed!", 77), b"key30": datum(b"n" * 300, 5), b"key4": b"no datum"})
    found = build_index(datums, previous=previous)
    content = (datums / "data.mdb").read_bytes()
    offsets, lengths = found.extents(np.arange(len(found)))
    within, sizes = found.payloads(np.arange(len(found)))
    payloads = {
        key: content[int(start) : int(start) + int(size)]
        for key, start, size in zip(found.keys, offsets.astype(np.int64) + within, sizes, strict=True)
    }
    expected = {b"key%d" % i: b"%d" % i * (20 * i) for i in range(1, 10)}
    expected |= {b"key3": b"changed!", b"key30": b"n" * 300, b"key4": b"no datum"}
    assert expected == payloads
    assert found.value_kind == "datum"
    assert found.labels is not None
    labels = dict(zip(found.keys, found.labels.tolist(), strict=True))
    assert (labels[b"key3"], labels[b"key30"], labels[b"key9"]) == (2, 5, 8)
    assert (lengths >= sizes).all()


def test_rebuilding_an_unchanged_database_loses_nothing(datums: Path) -> None:
    previous = known_index(datums, value_kind="datum")
    assert previous.to_bytes() == build_index(datums, previous=previous).to_bytes()
