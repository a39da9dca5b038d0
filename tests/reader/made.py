"""Databases with their sidecars, as convert makes them, and what stock LMDB reads in them."""

from pathlib import Path

import lmdb
import numpy as np

from lmdbio.layout import Index
from lmdbio.layout.datum import payload_offsets, wrap
from lmdbio.layout.file import DataFile
from lmdbio.layout.fingerprint import take_fingerprint
from lmdbio.layout.keys import Keys
from lmdbio.layout.meta import read_meta
from lmdbio.layout.writer import write_database


def make_datum_database(folder: Path, sizes: list[int], *, partition_size: int = 64 << 10) -> dict[bytes, bytes]:
    """Make a database of Datum values around images of these sizes, with sidecar; label of record i is i mod 7.

    Returns the images by key. Values are in key order in the file.
    """
    folder.mkdir()
    rng = np.random.default_rng(0)
    labels = [number % 7 for number in range(len(sizes))]
    images = {b"%08d_x.JPEG" % number: rng.bytes(size) for number, size in enumerate(sizes)}
    records = []
    for (key, image), label in zip(images.items(), labels, strict=True):
        header, trailer = wrap(len(image), label)
        records.append((key, header + image + trailer))
    data = folder / "data.mdb"
    written = write_database(data, records, partition_size=partition_size, align=4096)
    with DataFile(data) as file:
        fingerprint = take_fingerprint(file, read_meta(file))
    lengths = np.array(sizes, np.int64)
    Index.make(
        fingerprint=fingerprint,
        page_size=4096,
        keys=Keys.from_list(images),
        key_order="bytes",
        offsets=written.offsets,
        lengths=written.lengths,
        layout_order=written.layout_order,
        partitions=written.partitions,
        labels=np.array(labels, np.int64),
        checksums=written.checksums,
        payload_offsets=payload_offsets(lengths),
        payload_lengths=lengths,
        value_kind="datum",
    ).save(folder / "data.mdb.index")
    return images


def stock_values(folder: Path) -> list[bytes]:
    """Return all values in key order, as stock LMDB gives them."""
    with lmdb.open(str(folder), readonly=True, lock=False) as env, env.begin() as txn:
        return [bytes(value) for _, value in txn.cursor()]


def overwrite(path: Path, offset: int, content: bytes) -> None:
    """Change bytes of a file in place."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)
