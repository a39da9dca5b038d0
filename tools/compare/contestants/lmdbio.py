"""lmdbio: converted with the values as they are, read in each order and way that its reader has."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tools.compare.contestant import Buffer, Epoch, Order, Ranks, Source, Way

_SHUFFLES: Final = {
    "block": "blocks of 16 MiB, 8 streams, windows of 4",
    "global": "global",
}
_DIRECT: Final = "direct"
_COLLECTIVE: Final = "collective"


@dataclass(frozen=True, slots=True)
class Lmdbio:
    """One layout, and all ways to read it.

    The peers store the files' bytes alone, so the values are raw here as well, not Caffe's Datum.
    """

    name: str
    layout: str
    """``order`` of the conversion."""
    requirements: tuple[str, ...] = ()

    @property
    def ways(self) -> tuple[Way, ...]:
        """Each order buffered, with O_DIRECT, and collectively."""
        sequential = "once, when it was converted" if self.layout == "shuffle" else "none"
        shuffles: dict[str, tuple[Order, str]] = {"sequential": ("sequential", sequential)}
        shuffles |= {order: ("shuffled", shuffle) for order, shuffle in _SHUFFLES.items()}
        return tuple(
            Way(f"{order} {how}".strip(), asked, shuffle, uses_mpi=True)
            for how in ("", _DIRECT, _COLLECTIVE)
            for order, (asked, shuffle) in shuffles.items()
        )

    def convert(self, source: Source, target: Path) -> None:
        """Convert a folder as ``lmdbio-convert folder --value raw`` does; records without one by the same code."""
        from lmdbio.convert import convert

        if source.folder is None:
            from tools.compare.conversion import convert_records

            convert_records(source, target, order=self.layout)
        else:
            convert(source.folder, target, kind="folder", value="raw", order=self.layout)

    @contextmanager
    def open(self, target: Path, way: Way, ranks: Ranks) -> Iterator[Epoch]:
        """Open the database for all ranks."""
        from mpi4py import MPI

        from lmdbio.reader import ParallelReader

        order, _, how = way.name.partition(" ")
        with ParallelReader(
            target, comm=MPI.COMM_WORLD, batch_size=ranks.batch_size, order=order, seed=ranks.seed, **_settings(how)
        ) as reader:

            def epoch(number: int) -> Iterator[list[Buffer]]:
                reader.set_epoch(number)
                for batch in reader:
                    yield batch.values
                    batch.release()  # the next batch can have its buffer, which is in the processor's cache

            yield epoch


def _settings(how: str) -> dict[str, Any]:
    """Return the reader's settings of one way; buffered reads are asked for by name, lest two ways be the same."""
    from lmdbio.reader import ReadOptions

    if how == _COLLECTIVE:
        return {"io": "collective"}
    if how == _DIRECT:
        return {"options": ReadOptions(direct=True)}
    return {"options": ReadOptions(direct=False) if "direct" in ReadOptions.__slots__ else ReadOptions()}


CONTESTANT = Lmdbio("lmdbio", "shuffle")
