"""One database of a conversion: what it holds in memory while it is planned, finished and indexed."""

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmdbio.convert.job import Job
from lmdbio.convert.planning import plan_conversion
from lmdbio.convert.source import BadInput, Inputs
from lmdbio.convert.target import Target
from lmdbio.convert.transfer import Progress, Transfer
from lmdbio.layout.index import Index
from lmdbio.layout.keys import Keys
from lmdbio.layout.writer import DatabaseWriter
from tests.convert.defaults import options

MOST_BYTES_PER_RECORD = 150


class ListedSource:
    """As many inputs as wished, named like ImageNet's, of which none is read."""

    name, split, class_names = "listed", None, ("one", "two")
    bad: tuple[BadInput, ...] = ()

    def __init__(self, n_inputs: int) -> None:
        self.ignored: dict[str, int] = {}
        rng = np.random.default_rng(0)
        numbers = np.arange(n_inputs)
        blob = np.frombuffer(b"n00000000/n01440764_00000.JPEG" * n_inputs, np.uint8).reshape(n_inputs, -1).copy()
        blob[:, 1:9] = numbers[:, None] // 10**5 // 10 ** np.arange(7, -1, -1) % 10 + ord("0")
        blob[:, 20:25] = numbers[:, None] // 10 ** np.arange(4, -1, -1) % 10 + ord("0")
        self.inputs = Inputs(
            Keys(blob.reshape(-1), np.arange(n_inputs + 1) * blob.shape[1]),
            rng.integers(1, 200_000, n_inputs, np.uint32),
            (numbers % 2).astype(np.int32),
        )

    def shown(self, number: int) -> str:
        return str(number)

    def close(self) -> None:
        self.inputs = Inputs(Keys.from_list([]), np.empty(0, np.uint32), np.empty(0, np.int32))


def write_nothing(transfer: Transfer, writer: DatabaseWriter) -> None:
    """Claim every region, so that the file has its trees and nothing but holes below."""
    writer._regions_done[:] = True


def peak_bytes(path: Path, n_records: int, **changed: Any) -> int:
    """Return the most bytes held at a time, the inputs included."""
    chosen = options(**changed)
    tracemalloc.start()
    try:
        source = ListedSource(n_records)
        tracemalloc.reset_peak()
        with Target(str(path), overwrite=False) as target:
            job = Job(source, target, plan_conversion(source.inputs, chosen))  # type: ignore[arg-type]
            job.run(chosen, skip=False, workers=1, progress=Progress(None))
            target.publish()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "options", [{}, {"order": "stratified"}, {"key": "path"}, {"value": "raw"}], ids=lambda options: str(options)
)
def test_memory_grows_by_at_most_150_bytes_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    monkeypatch.setattr(Transfer, "run", write_nothing)
    peak_bytes(tmp_path / "first.lmdb", 1, **options)  # what is imported on the way
    fewer, more = 150_000, 300_000  # what all sizes take alike is in both
    grown = peak_bytes(tmp_path / "b.lmdb", more, **options) - peak_bytes(tmp_path / "a.lmdb", fewer, **options)
    assert grown / (more - fewer) <= MOST_BYTES_PER_RECORD
    assert len(Index.open(tmp_path / "b.lmdb")) == more
