"""A picture of what a database holds: decoded images, one column for each class."""

import io
import os

import numpy as np
from PIL import Image, ImageDraw

from lmdbio.layout import Index
from lmdbio.reader import Dataset

_TILE = 96
_HEADER = 14
_MAX_CLASSES = 20


def write_contact_sheet(database: str | os.PathLike[str], path: str | os.PathLike[str], *, rows: int = 6) -> int:
    """Write a PNG of the first images of each class (of the first 20), read and decoded; return how many there are."""
    index = Index.open(database)
    labels = index.labels if index.labels is not None else np.zeros(len(index), np.int64)
    names = index.class_names or []
    classes = np.unique(labels)[:_MAX_CLASSES].tolist()
    sheet = Image.new("RGB", (_TILE * len(classes), _HEADER + _TILE * rows), "white")
    draw = ImageDraw.Draw(sheet)
    places, records = [], []
    for column, label in enumerate(classes):
        draw.text((column * _TILE + 3, 2), names[label] if 0 <= label < len(names) else str(label), fill="black")
        for row, record in enumerate(np.flatnonzero(labels == label)[:rows].tolist()):
            places.append((column * _TILE, _HEADER + row * _TILE))
            records.append(record)
    with Dataset(database) as dataset:
        for place, record in zip(places, dataset.fetch(records), strict=True):
            sheet.paste(_tile(record.data), place)
    sheet.save(path)
    return len(records)


def _tile(data: memoryview) -> Image.Image:
    with Image.open(io.BytesIO(data)) as image:
        image.draft("RGB", (_TILE * 2, _TILE * 2))  # a JPEG is decoded at a fraction of its size
        tile = image.convert("RGB")
    tile.thumbnail((_TILE - 2, _TILE - 2))
    return tile
