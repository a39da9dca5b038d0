import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.convert.source import fault, printable, text


@given(st.binary(max_size=50))
def test_a_printable_path_is_one_line_of_text(path: bytes) -> None:
    shown = printable(path)
    assert shown.isprintable()
    assert "\n" not in shown
    shown.encode("utf-8")


@given(st.binary(max_size=50))
def test_text_keeps_every_byte(path: bytes) -> None:
    assert text(path).encode("utf-8", "surrogateescape") == path


@pytest.mark.parametrize(
    ("path", "shown"), [(b"a b.png", "a b.png"), (b"caf\xe9", r"caf\xe9"), (b"a\nb", r"a\nb"), ("é".encode(), "é")]
)
def test_a_path_is_shown_as_a_person_would_name_it(path: bytes, shown: str) -> None:
    assert printable(path) == shown


def test_a_fault_is_a_few_words() -> None:
    assert fault(OSError(errno.EIO, "Input/output error")) == "cannot be read: input/output error"
    assert fault(OSError("odd")) == "cannot be read (OSError)"
