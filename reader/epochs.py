"""The units of one epoch after the other, each epoch planned when the one before it is. Pure: no I/O of its own."""

from collections.abc import Callable, Iterator

from lmdbio.reader.unit import Unit, UnitPlanner


class Epochs(Iterator[Iterator[Unit]]):
    """All epochs from one on, without an end.

    Parameters
    ----------
    make_planner
        Gives the planner of an epoch's units from a position on.
    epoch, start
        The first epoch, and the position at which it begins; later ones begin at 0.
    is_cold
        Says whether reads of the epoch to come will have to wait.
    """

    def __init__(
        self, make_planner: Callable[[int, int], UnitPlanner], *, epoch: int, start: int, is_cold: Callable[[], bool]
    ) -> None:
        self._make_planner = make_planner
        self._epoch = epoch
        self._start = start
        self._is_cold = is_cold
        self._planner: UnitPlanner | None = None

    def __next__(self) -> Iterator[Unit]:
        planner = self._make_planner(self._epoch, self._start)
        self._epoch, self._start = self._epoch + 1, 0
        if self._is_cold():
            planner.expect_waits()
        self._planner = planner
        return planner.units()

    def expect_waits(self) -> None:
        """Learn that bytes are not in memory; see :meth:`UnitPlanner.expect_waits`. Any thread may call."""
        if self._planner is not None:
            self._planner.expect_waits()
