"""One contestant a file; a contestant's name is its module's."""

from importlib import import_module

from tools.compare.contestant import Contestant


def load(name: str) -> Contestant:
    """Return the contestant of that name."""
    contestant: Contestant = import_module(f"{__name__}.{name}").CONTESTANT
    return contestant
