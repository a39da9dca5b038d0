"""Caffe's ``Datum``, the protobuf message that Caffe's LMDB databases hold: sizes, bytes and a bounded parser. Pure.

Of the message, by field number: ``channels`` 1, ``height`` 2, ``width`` 3 (int32), ``data`` 4 (bytes), ``label`` 5
(int32), ``float_data`` 6 (float), ``encoded`` 7 (bool). What is written here is what Caffe's ``convert_imageset
--encoded`` writes: ``data``, ``label`` and ``encoded``, in this order, each present even where it is the default.

Source of the encoding: the protocol buffers documentation, "Encoding"; an int32 below 0 is sign-extended to 64 bits, so
it takes a varint of 10 bytes.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lmdbio.errors import FormatError

MAX_DATUM_SIZE: Final = (1 << 31) - 1
"""Largest message in bytes that protobuf programs read."""
HEAD_SIZE: Final = 64
"""Bytes of a value that hold the start of ``data`` wherever a Datum has nothing before it but the image's shape."""

_CHANNELS, _HEIGHT, _WIDTH, _DATA, _LABEL, _ENCODED = 1, 2, 3, 4, 5, 7
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DATA_TAG: Final = bytes([_DATA << 3 | _BYTES])
_LABEL_TAG: Final = bytes([_LABEL << 3 | _VARINT])
_ENCODED_TRUE: Final = bytes([_ENCODED << 3 | _VARINT, 1])
_MAX_VARINT_SIZE: Final = 10
_VARINT_BORDERS: Final = np.array([1 << 7 * size for size in range(1, _MAX_VARINT_SIZE)], np.uint64)


@dataclass(frozen=True, slots=True)
class Datum:
    """What a Datum says, and where its payload lies; absent numbers are protobuf's default, 0."""

    payload_offset: int
    """First byte of ``data`` in the value; 0 where the message has none."""
    payload_length: int
    """Bytes of ``data``: an encoded image, or raw pixels in the order channel, height, width."""
    label: int | None
    """Class number, None where the message has none."""
    encoded: bool
    """Whether ``data`` is an encoded image (JPEG, PNG) and not raw pixels."""
    channels: int
    height: int
    width: int


def wrap(length: int, label: int) -> tuple[bytes, bytes]:
    r"""Return the bytes before and after an encoded image of ``length`` bytes that make a Datum of it.

    Raises
    ------
    ValueError
        If the label is no int32, or the message would be larger than 2 GiB - 1, which no protobuf program reads.

    Examples
    --------
    >>> wrap(300, 2)
    (b'"\xac\x02', b'(\x028\x01')
    """
    if length < 0:
        raise ValueError(f"length: expected 0 or more, found {length}")
    header, trailer = _DATA_TAG + _varint(length), _trailer(label)
    _check_size(len(header) + length + len(trailer))
    return header, trailer


def value_lengths(lengths: NDArray[np.int64], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the size in bytes of the Datum that :func:`wrap` makes of each image.

    Parameters
    ----------
    lengths
        Bytes of each encoded image, int64, shape (n_records,).
    labels
        Class number of each, int64, shape (n_records,).

    Returns
    -------
    NDArray[np.int64]
        Shape (n_records,).

    Raises
    ------
    ValueError
        As :func:`wrap`.
    """
    if len(labels):
        _check_label(int(labels.min()))
        _check_label(int(labels.max()))
    sizes: NDArray[np.int64] = payload_offsets(lengths) + lengths
    sizes += len(_LABEL_TAG) + len(_ENCODED_TRUE)
    sizes += _varint_sizes(labels)
    if len(sizes):
        _check_size(int(sizes.max()))
    return sizes


def payload_offsets(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where the image begins in each Datum made by :func:`wrap`, in bytes, int64, shape (n_records,).

    Raises
    ------
    ValueError
        If a length is below 0.
    """
    if len(lengths) and int(lengths.min()) < 0:
        raise ValueError(f"length: expected 0 or more, found {int(lengths.min())}")
    return _varint_sizes(lengths) + len(_DATA_TAG)


def parse(value: bytes | bytearray | memoryview) -> Datum:
    """Return what a value says as a Datum.

    As in protobuf, the last of a repeated field counts, and unknown fields, and known ones of another wire type, are
    passed over. Nothing is copied, and no byte outside the value is looked at, whatever it claims.

    Raises
    ------
    FormatError
        If the value is no protobuf message: a length beyond its end, a bad tag, a number cut short.
    """
    view = memoryview(value).cast("B")
    payload = (0, 0)
    numbers: dict[int, int] = {}
    position, end = 0, len(view)
    while position < end:
        field, wire_type, position = _tag(view, position)
        start, stop, number = _field(view, position, wire_type, end)
        if field == _DATA and wire_type == _BYTES:
            payload = (start, stop - start)
        elif wire_type == _VARINT:
            numbers[field] = number
        position = stop
    return Datum(
        *payload,
        label=_int32(numbers[_LABEL]) if _LABEL in numbers else None,
        encoded=numbers.get(_ENCODED, 0) != 0,
        channels=_int32(numbers.get(_CHANNELS, 0)),
        height=_int32(numbers.get(_HEIGHT, 0)),
        width=_int32(numbers.get(_WIDTH, 0)),
    )


def find_payload(head: bytes | bytearray | memoryview, *, length: int) -> tuple[int, int]:
    """Return the payload's (offset, length) from the first bytes of a value of ``length`` bytes.

    The first ``data`` field is taken: what comes after it is not looked at. :data:`HEAD_SIZE` bytes are enough for
    what Caffe writes.

    Raises
    ------
    FormatError
        If no ``data`` field starts within the head, or it ends beyond the value.
    """
    view = memoryview(head).cast("B")[:length]
    position = 0
    while position < len(view):
        field, wire_type, position = _tag(view, position)
        start, stop, _ = _field(view, position, wire_type, length)
        if field == _DATA and wire_type == _BYTES:
            return start, stop - start
        position = stop
    raise FormatError(f"datum: expected the data field within the first {len(view)} bytes, found none")


def _tag(view: memoryview, position: int) -> tuple[int, int, int]:
    """Return the field number and wire type of the tag at ``position``, and where the tag ends."""
    tag, position = _read_varint(view, position)
    field, wire_type = tag >> 3, tag & 7
    if field == 0 or tag >= 1 << 32:
        raise FormatError(f"datum: expected a field's tag before byte {position}, found {tag}")
    return field, wire_type, position


def _field(view: memoryview, position: int, wire_type: int, end: int) -> tuple[int, int, int]:
    """Return where a field's content begins and ends, at most ``end``, and its number if it is a varint."""
    start, number = position, 0
    if wire_type == _VARINT:
        number, stop = _read_varint(view, position)
    elif wire_type == _BYTES:
        size, start = _read_varint(view, position)
        stop = start + size
    elif wire_type in (_FIXED32, _FIXED64):
        stop = start + (4 if wire_type == _FIXED32 else 8)
    else:
        raise FormatError(f"datum: expected wire type 0, 1, 2 or 5 before byte {position}, found {wire_type}")
    if stop > end:
        raise FormatError(f"datum: expected a field of {stop - start} bytes at byte {start}, found {end - start} bytes")
    return start, stop, number


def _read_varint(view: memoryview, position: int) -> tuple[int, int]:
    """Return the unsigned 64-bit number at ``position``, and where it ends."""
    number = shift = 0
    for offset, byte in enumerate(view[position : position + _MAX_VARINT_SIZE], start=position + 1):
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & 0xFFFF_FFFF_FFFF_FFFF, offset
        shift += 7
    raise FormatError(f"datum: expected a number of 1 to {_MAX_VARINT_SIZE} bytes at byte {position}, found no end")


def _int32(number: int) -> int:
    """Return the low 32 bits of an unsigned number, read as two's complement."""
    return (number & 0xFFFF_FFFF ^ 0x8000_0000) - 0x8000_0000


def _varint(number: int) -> bytes:
    """Return the varint of an int64, in two's complement where it is below 0."""
    number &= 0xFFFF_FFFF_FFFF_FFFF
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _varint_sizes(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the bytes of the varint of each int64, shape (n_records,)."""
    unsigned = numbers.astype(np.int64, copy=False).view(np.uint64)
    return np.searchsorted(_VARINT_BORDERS, unsigned, side="right").astype(np.int64) + 1


@lru_cache(maxsize=4096)
def _trailer(label: int) -> bytes:
    _check_label(label)
    return _LABEL_TAG + _varint(label) + _ENCODED_TRUE


def _check_label(label: int) -> None:
    if not -(1 << 31) <= label < 1 << 31:
        raise ValueError(f"label: expected an int32, as a Datum holds, found {label}")


def _check_size(size: int) -> None:
    if size > MAX_DATUM_SIZE:
        raise ValueError(f"datum: expected at most {MAX_DATUM_SIZE} bytes, found {size}: store the values raw")
