import numpy as np
import pytest

from lmdbio.convert.image_format import FORMATS, HEAD_SIZE, FormatCount, extension, image_format
from lmdbio.layout.keys import Keys

HEADS = {
    b"\xff\xd8\xff\xe0\0\x10JFIF": "jpeg",
    b"\x89PNG\r\n\x1a\n\0\0\0\r": "png",
    b"P6\n2 2\n255\n": "pnm",
    b"P5 2 2 255 ": "pnm",
    b"BM\x46\0\0\0": "bmp",
    b"II*\0\x08\0\0\0": "tiff",
    b"MM\0*\0\0\0\x08": "tiff",
    b"II+\0\x08\0\0\0": "tiff",
    b"RIFF\x24\0\0\0WEBPVP8 ": "webp",
    b"GIF89a": "gif",
    b"P7\nWIDTH 1": "pnm",
    b"\0\0\0\x0cjP  \r\n\x87\n": "jpeg2000",
    b"\xff\x0a\xfa\x1f": "jpegxl",
    b"\0\0\0\x1cftypavif": "heif",
    b"\0\0\0\x18ftypheic": "heif",
    b"\0\0\0\x18ftypmp42": "unknown",
    b"RIFF\x24\0\0\0WAVE": "unknown",
    b"<html>": "unknown",
    b"P": "unknown",
    b"P9": "unknown",
    b"": "unknown",
}


@pytest.mark.parametrize(("head", "name"), HEADS.items())
def test_the_first_bytes_tell_the_format(head: bytes, name: str) -> None:
    assert FORMATS[image_format(head[:HEAD_SIZE])] == name


@pytest.mark.parametrize(
    ("path", "expected"), [(b"c/a.JPEG", b".jpeg"), (b"c.d/a.b.png", b".png"), (b"c/.jpg", b".jpg")]
)
def test_an_extension_is_what_follows_the_last_dot(path: bytes, expected: bytes) -> None:
    assert extension(path) == expected


def test_files_that_are_not_what_their_name_says_are_counted() -> None:
    paths = [b"a.JPEG", b"b.jpg", b"c.png", b"d.jpeg", b"e.ppm", b"f.tif"]
    png, jpeg = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
    heads = [png, jpeg, png, png, b"P5\n", b"nothing"]
    numbers = np.array([5, 0, 1, 2, 3, 4], np.int64)
    count = FormatCount(len(paths))
    for record, number in enumerate(numbers.tolist()):
        count.look(record, paths[number], heads[number])
    assert count.misnamed(Keys.from_list(paths), numbers) == {".jpeg holding png": 2, ".tif holding unknown": 1}
