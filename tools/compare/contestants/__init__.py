"""One contestant a file; a contestant's name is its module's."""

from importlib import import_module
from pathlib import Path

from tools.compare.contestant import Contestant


def load(name: str) -> Contestant:
    """Return the contestant of that name, or one that lives elsewhere: ``package.module:OBJECT``.

    Raises
    ------
    ValueError
        If there is none.
    """
    module, _, attribute = name.partition(":")
    if attribute:
        try:
            elsewhere: Contestant = getattr(import_module(module), attribute)
        except (ImportError, AttributeError) as exc:
            raise ValueError(f"contestants: expected module:OBJECT, found {name!r}: {exc}") from exc
        return elsewhere
    if name not in all_names():
        raise ValueError(f"contestants: expected one of {', '.join(all_names())}, found {name!r}")
    contestant: Contestant = import_module(f"{__name__}.{name}").CONTESTANT
    return contestant


def all_names() -> list[str]:
    """Return the names of all contestants, sorted."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))
