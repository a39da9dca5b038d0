import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lmdbio.errors import FormatError
from lmdbio.layout import datum

VARINT_BORDERS = sorted({max(0, (1 << 7 * k) + d) for k in range(5) for d in (-1, 0, 1)} - {1 << 28, (1 << 28) + 1})
LABELS = st.integers(-(1 << 31), (1 << 31) - 1)


def message(payload: bytes, label: int) -> bytes:
    header, trailer = datum.wrap(len(payload), label)
    return header + payload + trailer


@pytest.mark.parametrize(
    ("payload", "label", "expected"),
    [  # serialized by protobuf 7.36 from Caffe's field numbers
        (b"", 0, b"\x22\x00\x28\x00\x38\x01"),
        (b"abc", 7, b"\x22\x03abc\x28\x07\x38\x01"),
        (b"x" * 128, 999, b"\x22\x80\x01" + b"x" * 128 + b"\x28\xe7\x07\x38\x01"),
        (b"x", -1, b"\x22\x01x\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x38\x01"),
        (b"x", -(1 << 31), b"\x22\x01x\x28\x80\x80\x80\x80\xf8\xff\xff\xff\xff\x01\x38\x01"),
        (b"x", (1 << 31) - 1, b"\x22\x01x\x28\xff\xff\xff\xff\x07\x38\x01"),
    ],
)
def test_a_wrapped_image_is_the_bytes_that_protobuf_writes(payload: bytes, label: int, expected: bytes) -> None:
    assert message(payload, label) == expected


@given(st.lists(st.tuples(st.sampled_from(VARINT_BORDERS) | st.integers(0, 1 << 28), LABELS), max_size=20))
@example([(length, label) for length in VARINT_BORDERS for label in (-1, 0, 127, 128, 16383, 16384)])
def test_planned_sizes_and_offsets_are_those_of_the_bytes(records: list[tuple[int, int]]) -> None:
    lengths = np.array([length for length, _ in records], np.int64)
    labels = np.array([label for _, label in records], np.int64)
    wrapped = [datum.wrap(*record) for record in records]
    sizes = [len(h) + length + len(t) for (h, t), (length, _) in zip(wrapped, records, strict=True)]
    assert datum.value_lengths(lengths, labels).tolist() == sizes
    assert datum.payload_offsets(lengths).tolist() == [len(header) for header, _ in wrapped]
    assert datum.value_lengths(lengths, labels).dtype == datum.payload_offsets(lengths).dtype == np.int64


@given(st.binary(max_size=300) | st.sampled_from([127, 128, 129, 16383, 16384]).map(bytes), LABELS)
def test_what_was_wrapped_is_found_again(payload: bytes, label: int) -> None:
    value = message(payload, label)
    parsed = datum.parse(value)
    assert value[parsed.payload_offset : parsed.payload_offset + parsed.payload_length] == payload
    assert (parsed.label, parsed.encoded, parsed.channels, parsed.height, parsed.width) == (label, True, 0, 0, 0)
    head = value[: datum.HEAD_SIZE]
    assert datum.find_payload(head, length=len(value)) == (parsed.payload_offset, parsed.payload_length)


def test_a_raw_datum_gives_its_shape_and_pixels() -> None:
    value = b"\x08\x03\x10\x20\x18\x20\x22\x80\x18" + bytes(3072) + b"\x28\x06"
    parsed = datum.parse(memoryview(value))
    assert parsed == datum.Datum(9, 3072, label=6, encoded=False, channels=3, height=32, width=32)
    assert datum.find_payload(value[:16], length=len(value)) == (9, 3072)


def test_a_datum_of_floats_or_without_data_has_an_empty_payload() -> None:
    assert datum.parse(b"") == datum.Datum(0, 0, label=None, encoded=False, channels=0, height=0, width=0)
    one_by_one = b"\x08\x02" + b"\x35\x00\x00\x80\x3f" * 2
    packed = b"\x08\x02\x32\x08" + bytes(8)
    assert datum.parse(one_by_one).payload_length == datum.parse(packed).payload_length == 0
    with pytest.raises(FormatError, match="expected the data field within the first 12 bytes"):
        datum.find_payload(one_by_one, length=len(one_by_one))


def test_the_last_of_a_repeated_field_counts_and_unknown_fields_are_passed_over() -> None:
    unknown = b"\x40\x05\x4a\x02hi\x51" + bytes(8) + b"\x5d" + bytes(4)
    other_wire_type = b"\x2a\x01\x09"  # a label as bytes
    parsed = datum.parse(unknown + b"\x22\x01a\x28\x01" + b"\x22\x02bc\x28\x02" + other_wire_type)
    assert (parsed.payload_offset, parsed.payload_length, parsed.label) == (len(unknown) + 7, 2, 2)


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (b"\x22\x05abcd", "expected a field of 5 bytes at byte 2, found 4 bytes"),
        (b"\x22" + b"\xff" * 9 + b"\x01", "found 0 bytes"),  # a length of 2^64 - 1
        (b"\x22", "expected a number"),
        (b"\x28\x80", "expected a number"),
        (b"\x28" + b"\x80" * 10 + b"\x01", "expected a number of 1 to 10 bytes at byte 1"),
        (b"\x00", "expected a field's tag before byte 1, found 0"),
        (b"\xff\xff\xff\xff\xff\x01\x00", "expected a field's tag"),
        (b"\x35\x00\x00", "expected a field of 4 bytes"),
        (b"\x2b", "found 3"),  # a group
        (b"\xff\xd8\xff\xe0\x00\x10JFIF", "datum: expected"),
        (b"\x89PNG\r\n\x1a\n", "datum: expected"),
    ],
)
def test_bytes_that_are_no_datum_are_refused(value: bytes, complaint: str) -> None:
    with pytest.raises(FormatError, match=complaint):
        datum.parse(value)


@given(
    st.binary(max_size=200) | st.lists(st.sampled_from(b"\x22\x28\x38\x08\x35\x80\xff\x01\x05"), max_size=40).map(bytes)
)
def test_hostile_bytes_give_a_format_error_or_an_extent_inside(value: bytes) -> None:
    try:
        parsed = datum.parse(value)
    except FormatError:
        return
    assert 0 <= parsed.payload_offset <= parsed.payload_offset + parsed.payload_length <= len(value)


@given(st.binary(max_size=80), st.integers(0, 300))
def test_a_hostile_head_gives_a_format_error_or_an_extent_inside_the_value(head: bytes, length: int) -> None:
    try:
        offset, size = datum.find_payload(head, length=length)
    except FormatError:
        return
    assert 0 <= offset <= offset + size <= length


def test_labels_and_sizes_that_a_datum_cannot_hold_are_refused() -> None:
    for label in (1 << 31, -(1 << 31) - 1):
        with pytest.raises(ValueError, match="label: expected an int32"):
            datum.wrap(1, label)
        with pytest.raises(ValueError, match="label: expected an int32"):
            datum.value_lengths(np.array([1, 1]), np.array([0, label]))
    with pytest.raises(ValueError, match="store the values raw"):
        datum.wrap((1 << 31) - 5, 0)
    with pytest.raises(ValueError, match="store the values raw"):
        datum.value_lengths(np.array([(1 << 31) - 5]), np.array([0]))
    with pytest.raises(ValueError, match="expected 0 or more, found -1"):
        datum.wrap(-1, 0)
    with pytest.raises(ValueError, match="expected 0 or more, found -1"):
        datum.payload_offsets(np.array([-1]))
