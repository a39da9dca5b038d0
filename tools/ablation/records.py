"""The made records that every database of an ablation holds: seeded, in classes, of two sizes. No I/O."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lmdbio.convert.source import NO_MORE, BadInput, Content, Inputs
from lmdbio.layout.keys import Keys

N_CLASSES: Final = 100
_NOISE_SIZE: Final = 4 << 20
_SIGMA: Final = 0.4
_MEAN_SIZE: Final = 110_000
_FIXED_SIZE: Final = 3_072


@dataclass(frozen=True, slots=True)
class RecordKind:
    """Records of one size."""

    name: str
    n_records: int
    """Unless the caller asks for others."""
    about: str


KINDS: Final = {
    kind.name: kind
    for kind in (
        RecordKind("3KB", 300_000, f"{_FIXED_SIZE:,} bytes each"),
        RecordKind("110KB", 20_000, f"{_MEAN_SIZE:,} bytes in the mean, lognormal (sigma {_SIGMA})"),
    )
}


class MadeRecords:
    """Records by number, class by class: a source of conversions (see :class:`lmdbio.convert.source.Source`).

    A value is a stretch of one block of noise, so that making it costs a copy and no two are alike.

    Parameters
    ----------
    kind
        A name of ``KINDS``.
    n_records
        How many.
    """

    name = "made records"
    split = None
    bad: tuple[BadInput, ...] = ()
    ignored: Mapping[str, int] = {}

    def __init__(self, kind: str, n_records: int) -> None:
        rng = np.random.default_rng(0)
        self.kind = kind
        self.n_records = n_records
        self._noise = rng.bytes(_NOISE_SIZE)
        if kind == "3KB":
            self._sizes = np.full(n_records, _FIXED_SIZE, np.int64)
        else:
            spread = rng.lognormal(-(_SIGMA**2) / 2, _SIGMA, n_records)
            self._sizes = np.clip(spread * _MEAN_SIZE, 1, _NOISE_SIZE // 2).astype(np.int64)
        self._starts = rng.integers(0, _NOISE_SIZE - self._sizes + 1)

    @property
    def labels(self) -> NDArray[np.int64]:
        """Class of each record, int64, ascending, shape (n_records,)."""
        return np.arange(self.n_records) * N_CLASSES // max(1, self.n_records)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Name of each class."""
        return tuple(f"{number:03d}" for number in range(N_CLASSES))

    @cached_property
    def inputs(self) -> Inputs:
        """All records, as a conversion lists them."""
        keys = Keys.from_list(self.key(number) for number in range(self.n_records))
        return Inputs(keys, self._sizes.astype(np.uint32), self.labels.astype(np.int32))

    def key(self, number: int) -> bytes:
        """Return the path of a record, which sorts by class."""
        return b"%03d/%08d.bin" % (number * N_CLASSES // self.n_records, number)

    def value(self, number: int) -> bytes:
        """Return the bytes of a record."""
        start = int(self._starts[number])
        return self._noise[start : start + int(self._sizes[number])]

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return ((self.key(number), self.value(number)) for number in range(self.n_records))

    def shown(self, number: int) -> str:
        """Return a record's name."""
        return self.key(number).decode()

    def read(self, number: int) -> Content:
        """Return a record as a conversion reads it."""
        return self.value(number), NO_MORE

    def close(self) -> None:
        """Keep everything: many conversions read the same records."""
