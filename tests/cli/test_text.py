import json

import pytest

from lmdbio.cli.text import print_json, print_line, print_table


def test_a_name_with_a_newline_cannot_make_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    print_line("one\ntwo")
    print_table([("name", "one\ntwo"), ("n", "x")])
    assert capsys.readouterr().out == "one\\ntwo\nname  one\\ntwo\nn     x\n"


def test_json_is_ascii_whatever_the_names(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"path": "caf\udce9", "key": b"\xff", "name": "é"})
    text = capsys.readouterr().out
    assert text.isascii()
    assert json.loads(text) == {"path": "caf\udce9", "key": r"\xff", "name": "é"}
