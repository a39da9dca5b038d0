"""Options out of their range are refused by name."""

import inspect
from dataclasses import fields

import pytest

from lmdbio.reader import ParallelReader, ReadOptions
from lmdbio.reader.options import options_or_default


def test_the_defaults_stand() -> None:
    assert ReadOptions().depth is None
    assert ReadOptions().gap == 64 << 10


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("depth", 0),
        ("depth", 1025),
        ("depth", "8"),
        ("gap", -1),
        ("gap", 1.5),
        ("gap", 1 << 62),
        ("read_size", 100),
        ("read_size", 1 << 62),
        ("coalesce", 0),
        ("coalesce", 1 << 70),
    ],
)
def test_an_option_out_of_range_is_named(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{name}: expected an integer from"):
        ReadOptions(**{name: value})


@pytest.mark.parametrize("value", [0, 1, None, "yes", "True"])
def test_direct_is_yes_no_or_auto(value: object) -> None:
    with pytest.raises(ValueError, match="direct: expected True, False or 'auto', found"):
        ReadOptions(direct=value)
    assert [ReadOptions(direct=value).direct for value in (True, False, "auto")] == [True, False, "auto"]


@pytest.mark.parametrize("hints", [{"cb_nodes": 2}, {"": "1"}, {"cb_nodes": "1" * 256}, {1: "1"}])
def test_hints_that_mpi_does_not_take_are_named(hints: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="hints: expected names and values that are short str, found"):
        ReadOptions(hints=hints)
    assert hash(ReadOptions(hints={"cb_nodes": "2"})) == hash(ReadOptions())


@pytest.mark.parametrize(("read_size", "depth"), [(2 << 20, 8), (1 << 18, 16), (110_000, 32), (0, 32)])
def test_by_default_more_small_reads_are_in_flight(read_size: int, depth: int) -> None:
    assert ReadOptions().depth_of(read_size) == depth
    assert ReadOptions(depth=3).depth_of(read_size) == 3


def test_help_has_a_text_for_each_option() -> None:
    lines = inspect.getdoc(ReadOptions).splitlines()
    for option in fields(ReadOptions):
        assert lines[lines.index(option.name) + 1].startswith("    ")


def test_no_options_are_the_defaults_and_anything_else_is_refused() -> None:
    options = ReadOptions(depth=3)
    assert options_or_default(options) is options
    assert options_or_default(None) == ReadOptions()
    for wrong in ({"direct": True}, {}, True, 0):
        with pytest.raises(TypeError, match=f"options: expected ReadOptions, found {type(wrong).__name__}"):
            options_or_default(wrong)


def test_a_reader_names_options_of_another_type_before_it_opens_anything() -> None:
    with pytest.raises(TypeError, match="options: expected ReadOptions, found dict"):
        ParallelReader("none.lmdb", batch_size=1, options={"direct": True})
