"""Records made on demand into a laid-out database by the code that converts folders: same plan, writer and sidecar."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from lmdbio.convert.job import Job
from lmdbio.convert.options import DEFAULT_WORKERS, Options
from lmdbio.convert.planning import plan_conversion
from lmdbio.convert.source import BadInput, Inputs
from lmdbio.convert.target import Target
from lmdbio.convert.transfer import Progress
from lmdbio.layout.keys import Keys
from tools.compare.contestant import Source
from tools.compare.data import Synthetic


class SyntheticInputs:
    """Synthetic records as a conversion takes its inputs.

    Parameters
    ----------
    records
        The records.
    """

    split: None = None
    bad: tuple[BadInput, ...] = ()

    def __init__(self, records: Synthetic) -> None:
        self._records = records
        names, labels = zip(*records.names(), strict=True)
        self.name = "synthetic records"
        self.class_names = tuple(dict.fromkeys(name.partition("/")[0] for name in names))
        self.inputs = Inputs(
            Keys.from_list(name.encode() for name in names),
            records.sizes.astype(np.uint32),
            np.array(labels, np.int32),
        )
        self.ignored: Mapping[str, int] = {}

    def shown(self, number: int) -> str:
        """Return the name of a record."""
        return self.inputs.paths[number].decode()

    def read_into(self, number: int, memory: memoryview, *, on_wait: Callable[[], None]) -> None:
        """Fill memory with a record, which is at hand."""
        memory[:] = self._records.value(number)

    def pieces(self, number: int) -> Iterator[bytes]:
        """Yield a record in one piece."""
        yield bytes(self._records.value(number))

    def close(self) -> None:
        """Forget the inputs."""
        self.inputs = Inputs(Keys.from_list(()), np.empty(0, np.uint32), np.empty(0, np.int32))


def convert_records(
    source: Source, target: Path, *, order: str, partition_size: int | None = None, align: int | None = None
) -> None:
    """Make a database of raw values of synthetic records.

    Parameters
    ----------
    source
        The records.
    target
        Directory of the database.
    order, partition_size, align
        As for :func:`lmdbio.convert.convert`.

    Raises
    ------
    TypeError
        If the source is a folder, which ``convert`` takes.
    """
    if not isinstance(source, Synthetic):
        raise TypeError(
            f"source: expected synthetic records, found {type(source).__name__}: use lmdbio.convert.convert"
        )
    options = Options("folder", order, 0, "raw", "number", True, None, partition_size, None, align)
    inputs = SyntheticInputs(source)
    with Target(str(target), overwrite=False) as goal:
        job = Job(inputs, goal, plan_conversion(inputs.inputs, options))
        job.run(options, skip=False, workers=DEFAULT_WORKERS, progress=Progress(None))
        goal.publish()
