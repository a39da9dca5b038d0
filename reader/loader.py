"""What an epoch takes its units from, whatever way their bytes are read: two protocols, nothing else."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lmdbio.reader.unit import Unit


class Loaded(Protocol):
    """A unit that was taken."""

    @property
    def unit(self) -> Unit:
        """What was to be read."""

    buffer: NDArray[np.uint8] | None
    """The bytes that the unit's plan speaks of, uint8, shape (unit.plan.size,); set to None when it is given back."""
    error: BaseException | None
    """Why the bytes are not all there; None where they are."""


class Loader(Protocol):
    """The units of one epoch of one rank, or of several, in order of first need. One consumer."""

    def peek(self) -> Unit | None:
        """Return the next unit to be taken, without reading it; None after the epoch's last. Raises what planning it
        raised.
        """

    def take(self) -> Loaded:
        """Return the next unit, read; its ``error`` is set where that failed."""

    def give_back(self, load: Loaded) -> None:
        """Count a unit as held no longer."""

    def next_epoch(self) -> bool:
        """Go on to the next epoch after the last unit of one; False where there is none: it takes another loader."""

    def close(self) -> None:
        """End reading; a second call does nothing."""

    def abandon(self) -> None:
        """End reading without waiting for anything; a finalizer may call it."""
