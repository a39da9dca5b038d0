"""Contestants of the comparison: what a module of theirs must say of itself, with no peer installed."""

import re

import pytest

from tools.compare.contestants import all_names, load

_PIN = re.compile(r"[A-Za-z0-9_.-]+(\[[a-z,]+\])?==[0-9][A-Za-z0-9.+]*")


@pytest.mark.parametrize("name", all_names())
def test_a_contestant_is_named_as_its_module_pins_what_it_needs_and_reads_in_ways_of_unique_names(name: str) -> None:
    contestant = load(name)
    assert contestant.name == name
    assert [pin for pin in contestant.requirements if not _PIN.fullmatch(pin)] == []
    names = [way.name for way in contestant.ways]
    assert names
    assert len(set(names)) == len(names)
    for way in contestant.ways:
        assert way.order in ("sequential", "shuffled")
        assert way.shuffle
        assert way.order == "sequential" or way.shuffle != "none"
