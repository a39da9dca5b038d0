"""How far reading may run ahead of the consumer: as far as it helps, never beyond a limit. Pure: no I/O, no lock."""

from typing import Final

_CLOSE_AFTER: Final = 16
"""Units in a row that were in memory, after which the window is as at first."""


class Window:
    """Bytes that may be read ahead, and what is ahead and held at present.

    It is at its least while all is in memory, opens with the first read that waits, doubles while the consumer waits
    for want of it, and closes again after many units that were in memory.

    Parameters
    ----------
    least
        Bytes to run ahead while all is in memory.
    first
        Bytes to run ahead once a read has had to wait.
    most
        Bytes of units that are held (being read, waiting, or not yet given back) beyond which no unit is begun ahead;
        bounds all windows.
    """

    def __init__(self, *, least: int, first: int, most: int) -> None:
        self._least = min(least, most)
        self._first = max(self._least, min(first, most))
        self._most = most
        self._n_cached = 0  # units in a row that were in memory
        self.size = self._least
        """Bytes that reading may run ahead at present."""
        self.is_open = False
        """Whether reads have had to wait lately."""
        self.ahead = 0
        """Bytes begun and not taken."""
        self.held = 0
        """Bytes begun and not given back."""

    def has_room(self, size: int) -> bool:
        """Return whether a unit of so many bytes may be begun ahead; one may always be ahead."""
        if self.held + size > self._most:
            return False
        return self.size > 0 and (not self.ahead or self.ahead + size <= self.size)

    def begin(self, size: int) -> None:
        """Count a unit as begun."""
        self.ahead += size
        self.held += size

    def take(self, size: int) -> None:
        """Count a unit as taken by the consumer."""
        self.ahead -= size

    def give_back(self, size: int) -> None:
        """Count a unit as held no longer."""
        self.held -= size

    def open(self) -> None:
        """A read is about to wait."""
        self.is_open = True
        self.size = self._first
        self._n_cached = 0

    def adapt(self, *, was_cached: bool, has_waited: bool, was_starved: bool) -> bool:
        """Learn how a unit was taken, and return whether the window has grown.

        Parameters
        ----------
        was_cached
            Whether all of it was in memory.
        has_waited
            Whether the consumer has waited for it.
        was_starved
            Whether threads stood idle for want of window since the consumer waited last: a slow read may come later.
        """
        self._n_cached = self._n_cached + 1 if was_cached else 0
        if self._n_cached >= _CLOSE_AFTER:
            self.size = self._least
            self.is_open = False
        elif has_waited and was_starved and self.is_open:
            self.size = min(2 * self.size, self._most)
            return True
        return False
