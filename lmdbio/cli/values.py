"""What the values of a database look like, told from one of them: a hint for people, never a decision."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lmdbio.layout.index import Index

_MAX_VALUE_SIZE = 16 << 20  # one value is read whole; a larger one is not looked at


def datum_hint(data: Path, index: "Index") -> str:
    """Return what to know where values that the index takes for plain bytes look like Caffe's Datum; '' otherwise."""
    import numpy as np

    from lmdbio.errors import LmdbioError
    from lmdbio.layout.datum import parse
    from lmdbio.layout.file import DataFile

    if index.value_kind != "raw" or len(index) == 0:
        return ""
    offsets, lengths = index.extents(np.zeros(1, np.int64))
    if int(lengths[0]) > _MAX_VALUE_SIZE:
        return ""
    try:
        with DataFile(data) as file:
            datum = parse(file.read(int(offsets[0]), int(lengths[0])))
    except LmdbioError:
        return ""
    if datum.label is None or datum.payload_length == 0:
        return ""
    return (
        "values look like Caffe's Datum (an image and its label); the index takes them as plain bytes: "
        "parse them with lmdbio.layout.datum.parse"
    )
