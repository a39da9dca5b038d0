"""Which image format bytes are, by their first few: enough to notice a PNG or a text that is named ``.JPEG``.

Pure: no I/O.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.keys import Keys

HEAD_SIZE: Final = 12
"""First bytes that tell the format."""

FORMATS: Final = ("unknown", "jpeg", "png", "pnm", "bmp", "tiff", "webp", "gif", "jpeg2000", "jpegxl", "heif")
"""Names of the formats, by their number; AVIF counts as the HEIF that it is."""

UNKNOWN, _JPEG, _PNG, _PNM, _BMP, _TIFF, _WEBP, _GIF, _JPEG2000, _JPEGXL, _HEIF = range(len(FORMATS))
_BY_EXTENSION: Final = {
    b".jpg": _JPEG,
    b".jpeg": _JPEG,
    b".png": _PNG,
    b".ppm": _PNM,
    b".pgm": _PNM,
    b".bmp": _BMP,
    b".tif": _TIFF,
    b".tiff": _TIFF,
    b".webp": _WEBP,
}
_BY_FIRST_BYTES: Final = (
    (b"\xff\xd8\xff", _JPEG),
    (b"\x89PNG\r\n\x1a\n", _PNG),
    (b"BM", _BMP),
    (b"II*\0", _TIFF),
    (b"MM\0*", _TIFF),
    (b"II+\0", _TIFF),  # BigTIFF
    (b"MM\0+", _TIFF),
    (b"GIF8", _GIF),
    (b"\0\0\0\x0cjP  ", _JPEG2000),
    (b"\xff\x4f\xff\x51", _JPEG2000),
    (b"\0\0\0\x0cJXL ", _JPEGXL),
    (b"\xff\x0a", _JPEGXL),
)
_HEIF_BRANDS: Final = (b"avi", b"hei", b"hev", b"mif", b"msf")
_NAMED_AS_HELD: Final = len(FORMATS)


def image_format(head: bytes) -> int:
    r"""Return the number of the format that first bytes belong to.

    >>> FORMATS[image_format(b"\x89PNG\r\n\x1a\n....")]
    'png'
    """
    for first, number in _BY_FIRST_BYTES:
        if head.startswith(first):
            return number
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return _WEBP
    if head[4:8] == b"ftyp" and head[8:11] in _HEIF_BRANDS:
        return _HEIF
    if head[:1] == b"P" and head[1:2] in b"1234567Ff" and len(head) > 1:
        return _PNM
    return UNKNOWN


class FormatCount:
    """Which records hold another format than their name says; one byte for each record. Threads may share it.

    Parameters
    ----------
    n_records
        Number of records.
    """

    def __init__(self, n_records: int) -> None:
        self._found: NDArray[np.uint8] = np.full(n_records, _NAMED_AS_HELD, np.uint8)

    def look(self, record: int, path: bytes, head: bytes) -> None:
        """Note the format of a record, given its path and its first bytes."""
        found = image_format(head)
        if _BY_EXTENSION.get(extension(path)) != found:
            self._found[record] = found

    def misnamed(self, paths: Keys, numbers: NDArray[np.int64]) -> dict[str, int]:
        """Return how many are misnamed, by ``<extension> holding <format>``.

        Parameters
        ----------
        paths
            The inputs' paths.
        numbers
            Number of the input of each record, int64, shape (n_records,).
        """
        counts: dict[str, int] = {}
        for record in np.flatnonzero(self._found != _NAMED_AS_HELD).tolist():
            named = extension(paths[int(numbers[record])]).decode("ascii")
            kind = f"{named} holding {FORMATS[self._found[record]]}"
            counts[kind] = counts.get(kind, 0) + 1
        return dict(sorted(counts.items()))

    def first(self, limit: int, numbers: NDArray[np.int64]) -> list[int]:
        """Return the inputs' numbers of the first misnamed records in the source's order, ``limit`` at most."""
        found = numbers[np.flatnonzero(self._found != _NAMED_AS_HELD)]
        return [int(number) for number in np.sort(found)[:limit]]


def extension(path: bytes) -> bytes:
    """Return a file name's extension in lower case, with its dot.

    >>> extension(b"a.b/c.tar.JPEG")
    b'.jpeg'
    """
    return b"." + path.rpartition(b".")[2].lower()
