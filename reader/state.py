"""Where a reader stands: small, the same on every rank, enough to go on anywhere else."""

import operator
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

import numpy as np
import xxhash
from numpy.typing import NDArray

VERSION: Final = 1
_SETTINGS: Final = ("order", "seed", "streams", "shuffle_window")
_MOST: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class State:
    """A position in the epochs of a database.

    The record at each position follows from the other fields alone; not from world size, batch size, or how bytes are
    read. So any reader that agrees in them goes on where another stopped.
    """

    version: int
    """Of this form: 1."""
    fingerprint: str
    """Of the data file, 32 hexadecimal digits."""
    layout: str
    """Hash of the layout order and the partitions' bounds, 32 hexadecimal digits."""
    order: str
    seed: int
    streams: int
    shuffle_window: int
    epoch: int
    """From 0."""
    position: int
    """Records of the epoch that all ranks together have handed out, without padding; n_records once it is over."""

    def to_fields(self) -> dict[str, Any]:
        """Return what :meth:`from_fields` takes: str and int by name, for JSON."""
        return asdict(self)

    @classmethod
    def from_fields(cls, found: Mapping[str, Any]) -> "State":
        """Return the state, checked by itself.

        Raises
        ------
        ValueError
            If it is none, or one of an unknown version; the message says *expected X, found Y*.
        """
        if not isinstance(found, Mapping):
            raise ValueError(f"state: expected a mapping as state_dict() gives, found {type(found).__name__}")
        version = found.get("version")
        if version != VERSION:
            raise ValueError(f"state: expected version {VERSION}, found {version!r:.40}: did another lmdbio save it?")
        names = [field.name for field in fields(cls)]
        missing = [name for name in names if name not in found]
        if missing:
            raise ValueError(f"state: expected {missing[0]}, found none: was it cut short?")
        texts = {name: found[name] for name in ("fingerprint", "layout", "order")}
        numbers = {name: _number(name, found[name]) for name in names if name not in texts}
        for name, text in texts.items():
            if not isinstance(text, str):
                raise ValueError(f"state: expected {name} to be str, found {text!r:.40}")
        for name in ("epoch", "position"):
            if not 0 <= numbers[name] <= _MOST:
                raise ValueError(f"state: expected {name} to be 0 or more, found {numbers[name]}")
        values: dict[str, Any] = texts | numbers
        return cls(**values)

    def check(self, own: "State", *, n_records: int, any_streams: bool) -> None:
        """Raise ValueError where a reader that stands at ``own`` cannot go on from here; it names the first reason.

        Parameters
        ----------
        own
            A state of that reader, whichever.
        n_records
            Records of its epochs.
        any_streams
            Whether the reader takes the number of streams from the state.
        """
        if self.fingerprint != own.fingerprint:
            raise ValueError(
                f"state: expected one of this database ({own.fingerprint}), found one of another, or of another state "
                f"of it ({self.fingerprint})"
            )
        if self.layout != own.layout:
            raise ValueError(
                f"state: expected layout order and partitions as in this index ({own.layout}), found others "
                f"({self.layout}): was the index built anew, with another partition size?"
            )
        for name in _SETTINGS:
            wanted, found = getattr(own, name), getattr(self, name)
            if wanted != found and not (name == "streams" and any_streams):
                raise ValueError(
                    f"state: expected {name} {wanted!r} as this reader has, found {found!r}: make the reader with "
                    f"{name}={found!r}, or start anew"
                )
        if self.position > n_records:
            raise ValueError(f"state: expected a position of at most {n_records}, found {self.position}")


def hash_layout(layout_order: NDArray[np.int64] | None, partitions: NDArray[np.int64]) -> str:
    """Return the XXH3-128, in hexadecimal, of the layout order (nothing where it is key order), then the bounds.

    Numbers are hashed as little-endian int64.
    """
    digest = xxhash.xxh3_128()
    for numbers in (layout_order, partitions):
        if numbers is not None:
            digest.update(np.ascontiguousarray(numbers, "<i8").view(np.uint8).data)
    return digest.hexdigest()


def _number(name: str, value: object) -> int:
    try:
        return operator.index(value)  # type: ignore[arg-type]  # that is what it finds out
    except TypeError:
        raise ValueError(f"state: expected {name} to be int, found {value!r:.40}") from None
