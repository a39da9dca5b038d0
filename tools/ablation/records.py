"""The made records that every database of an ablation holds: seeded, in classes, of two sizes."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from tools.compare.data import DataSet, Synthetic

N_CLASSES: Final = 100
_SEED: Final = 0


@dataclass(frozen=True, slots=True)
class RecordKind:
    """Records of one size."""

    name: str
    data: str
    """The kind of :mod:`tools.compare.data` that they are."""
    n_records: int
    """Unless the caller asks for others."""
    about: str


KINDS: Final = {
    kind.name: kind
    for kind in (
        RecordKind("3KB", "cifar", 300_000, "3,072 bytes each"),
        RecordKind("110KB", "lognormal", 20_000, "110,000 bytes in the mean, lognormal"),
    )
}


def made_records(kind: str, n_records: int) -> Synthetic:
    """Return records sorted by class, of 100 classes of like size."""
    records = Synthetic(DataSet(KINDS[kind].data, n_records, _SEED))
    records.labels = np.arange(n_records) * N_CLASSES // max(1, n_records)
    return records
