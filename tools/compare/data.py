"""The data sets to store and read: photographs in class folders, and synthetic records made on demand; seeded."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tools.compare.contestant import Record, Source

PHOTOS: Final = ("photos", "few_photos")
"""The kinds that are photographs; decoding takes so long that few must do."""
_N_PHOTO_CLASSES: Final = 100
_NOISE_SIZE: Final = 8 << 20
_HEAD_SIZE: Final = 8
"""Bytes at the start of a synthetic value that no other value has, so that a record read twice shows."""
_ODD: Final = 0x9E3779B97F4A7C15


@dataclass(frozen=True, slots=True)
class Kind:
    """What the records of a data set are like."""

    name: str
    n_records: int
    """Where the user names no number."""
    mean_size: int
    """Bytes of a value, about."""
    n_classes: int
    spread: float = 0.0
    """Standard deviation of the natural logarithm of the sizes."""


KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind("photos", 12_000, 110 << 10, _N_PHOTO_CLASSES, 0.5),
        Kind("few_photos", 2_000, 110 << 10, _N_PHOTO_CLASSES, 0.5),
        Kind("cifar", 400_000, 3072, 10),
        Kind("lognormal", 12_000, 110_000, 100, 0.5),
        Kind("fixed", 6_000, 196_608, 100),
        Kind("tiny", 1_000_000, 20, 100),
    )
}
"""By name."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """One data set of a certain size."""

    kind: str
    n_records: int
    seed: int

    @property
    def name(self) -> str:
        """What its files are called in the cache."""
        kind = PHOTOS[0] if self.kind in PHOTOS else self.kind
        return f"{kind}-{self.n_records}-{self.seed}"

    @property
    def n_bytes(self) -> int:
        """Bytes of all values, about."""
        return self.n_records * KINDS[self.kind].mean_size


class Synthetic:
    """Records of random bytes, made on demand from one piece of noise; any of them alone, too.

    Parameters
    ----------
    data
        How many of which kind.
    """

    folder: None = None

    def __init__(self, data: DataSet) -> None:
        kind = KINDS[data.kind]
        rng = np.random.default_rng(data.seed)
        self._seed = data.seed
        self._noise = rng.bytes(_NOISE_SIZE)
        spread = rng.lognormal(-(kind.spread**2) / 2, kind.spread, data.n_records)
        sizes = np.rint(kind.mean_size * spread) if kind.spread else np.full(data.n_records, kind.mean_size)
        self.sizes: NDArray[np.int64] = np.clip(sizes, _HEAD_SIZE, _NOISE_SIZE).astype(np.int64)
        """Bytes of each value, int64, shape (n_records,)."""
        self.labels: NDArray[np.int64] = np.arange(data.n_records) * kind.n_classes // max(1, data.n_records)
        """Class of each record, int64, shape (n_records,)."""
        self._starts = rng.integers(0, _NOISE_SIZE - self.sizes + 1)

    def __len__(self) -> int:
        return len(self.sizes)

    def __iter__(self) -> Iterator[Record]:
        for number, (name, label) in enumerate(self.names()):
            yield Record(name, label, self.value(number))

    def names(self) -> Iterator[tuple[str, int]]:
        """Yield (name, label) of all records."""
        for number, label in enumerate(self.labels.tolist()):
            yield f"class_{label:04d}/{number:09d}.JPEG", label

    def value(self, number: int) -> bytes:
        """Return the bytes of one record."""
        start = int(self._starts[number])
        # An odd factor maps numbers to heads one to one.
        head = ((number + 1) * _ODD + self._seed) % (1 << 64)
        return head.to_bytes(_HEAD_SIZE, "little") + self._noise[start : start + int(self.sizes[number]) - _HEAD_SIZE]


class Folder:
    """The files of class folders, in the order of torchvision's ImageFolder.

    Parameters
    ----------
    folder
        The folder of class folders.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._names = [
            (f"{class_name}/{name}", label)
            for label, class_name in enumerate(sorted(os.listdir(folder)))
            for name in sorted(os.listdir(folder / class_name))
        ]

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[Record]:
        for name, label in self._names:
            with open(self.folder / name, "rb", buffering=0) as file:
                yield Record(name, label, file.read())

    def names(self) -> Iterator[tuple[str, int]]:
        """Yield (name, label) of all records."""
        return iter(self._names)


def open_source(data: DataSet, cache: Path) -> Source:
    """Return a data set that :func:`prepare` has made."""
    if data.kind in PHOTOS:
        return Folder(_photos(data, cache) / "train")
    return Synthetic(data)


def prepare(data: DataSet, cache: Path) -> Source:
    """Make what a data set needs in the cache, unless it is there, and return it."""
    if data.kind in PHOTOS and not _photos(data, cache).exists():
        _make_photos(data, cache)
    return open_source(data, cache)


def check_packages(data: DataSet, cache: Path) -> None:
    """Refuse to make photographs without the packages that they come from, at once rather than in the midst of it.

    Raises
    ------
    ValueError
        If one is missing, and the photographs are not in the cache.
    """
    from tools.make_imagenet_like import PHOTOGRAPHS

    if data.kind not in PHOTOS or _photos(data, cache).exists():
        return
    missing = [package for package in PHOTOGRAPHS if find_spec(package) is None]
    if missing:
        raise ValueError(
            f"photographs: expected the packages {' and '.join(PHOTOGRAPHS)}, found no {' and no '.join(missing)}: "
            "pip install -e '.[demo]'"
        )


def _photos(data: DataSet, cache: Path) -> Path:
    return cache / "data" / data.name


def _make_photos(data: DataSet, cache: Path) -> None:
    from tools.make_imagenet_like import make_imagenet_like

    n_classes = min(_N_PHOTO_CLASSES, data.n_records)
    make_imagenet_like(_photos(data, cache), n_classes=n_classes, n_train=data.n_records, n_val=0, seed=data.seed)
