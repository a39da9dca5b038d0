import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.cli.text import print_json, print_line, print_table, printable


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


def test_a_name_with_a_newline_cannot_make_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    print_line("one\ntwo")
    print_table([("name", "one\ntwo"), ("n", "x")])
    assert capsys.readouterr().out == "one\\ntwo\nname  one\\ntwo\nn     x\n"


def test_json_is_ascii_whatever_the_names(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"path": "caf\udce9", "key": b"\xff", "name": "é"})
    text = capsys.readouterr().out
    assert text.isascii()
    assert json.loads(text) == {"path": "caf\udce9", "key": r"\xff", "name": "é"}
