import enum

import pytest
import typer

from lmdbio.cli.parsing import positive_number, seconds_from_1, whole_number, word_of


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


def test_what_is_meant_is_taken() -> None:
    assert (whole_number("-3"), whole_number(7), positive_number("1")) == (-3, 7, 1)
    assert (seconds_from_1("1.5"), seconds_from_1(60)) == (1.5, 60.0)
    assert word_of(Colour)("red") is Colour.RED
    assert word_of(Colour)(Colour.BLUE) is Colour.BLUE


@pytest.mark.parametrize("text", ["a", "1.5", ""])
def test_a_number_that_is_not_whole_is_refused_by_name(text: str) -> None:
    for parse in (whole_number, positive_number):
        with pytest.raises(typer.BadParameter, match=f"expected a whole number.*, found {text!r}"):
            parse(text)


@pytest.mark.parametrize("text", ["0", "-1"])
def test_a_count_begins_with_1(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=f"from 1, found {text!r}"):
        positive_number(text)


@pytest.mark.parametrize("text", ["0.9", "-5", "nan", "inf", "soon"])
def test_seconds_are_1_or_more_and_not_without_end(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=f"expected seconds, 1 or more, found {text!r}"):
        seconds_from_1(text)


def test_another_word_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(typer.BadParameter, match="expected red or blue, found 'green'"):
        word_of(Colour)("green")
