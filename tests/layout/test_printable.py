import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.layout.printable import printable


@given(st.binary())
def test_any_bytes_print_as_one_line_of_printable_text(name: bytes) -> None:
    assert printable(name).isprintable()


@given(st.text())
def test_any_text_prints_as_one_line_that_any_encoding_takes(text: str) -> None:
    assert printable(text).isprintable()
    printable(text).encode("utf-8")


@given(st.text(st.characters(exclude_categories=["C", "Z"])))
def test_printable_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


def test_bytes_that_are_no_utf8_are_told_apart() -> None:
    assert printable(b"a\xff/b\xfe") == r"a\xff/b\xfe"


@given(st.binary(max_size=50))
def test_a_printable_path_is_one_line_of_text(path: bytes) -> None:
    shown = printable(path)
    assert shown.isprintable()
    assert "\n" not in shown
    shown.encode("utf-8")


@pytest.mark.parametrize(
    ("path", "shown"), [(b"a b.png", "a b.png"), (b"caf\xe9", r"caf\xe9"), (b"a\nb", r"a\nb"), ("é".encode(), "é")]
)
def test_a_path_is_shown_as_a_person_would_name_it(path: bytes, shown: str) -> None:
    assert printable(path) == shown
