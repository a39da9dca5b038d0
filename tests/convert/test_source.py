import errno

from hypothesis import given
from hypothesis import strategies as st

from lmdbio.convert.source import fault, text


@given(st.binary(max_size=50))
def test_text_keeps_every_byte(path: bytes) -> None:
    assert text(path).encode("utf-8", "surrogateescape") == path


def test_a_fault_is_a_few_words() -> None:
    assert fault(OSError(errno.EIO, "Input/output error")) == "cannot be read: input/output error"
    assert fault(OSError("odd")) == "cannot be read (OSError)"
