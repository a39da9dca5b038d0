"""Which epoch comes next, and from which position on. Pure."""

import operator
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a reader stands between its epochs; each step gives a new one."""

    epoch: int = 0
    """The epoch that is being read, or comes next."""
    start: int = 0
    """The position with which it begins, or has begun."""
    is_begun: bool = False
    """Whether it is being read, or was."""
    is_loaded: bool = False
    """Whether epoch and position are as a state said."""

    def begin(self, is_over: Callable[[int], bool]) -> "Cursor":
        """Return the cursor of the epoch to read now.

        It is the next one if this one was begun already, or if a state said that it stands where nothing is left:
        ``is_over`` tells that of a position.
        """
        if self.is_begun or (self.is_loaded and is_over(self.start)):
            return Cursor(self.epoch + 1, is_begun=True)
        return Cursor(self.epoch, self.start, is_begun=True)

    def choose(self, epoch: int) -> "Cursor":
        """Return the cursor of an epoch from its first position on; of the one that was just loaded, where it stood."""
        keeps = epoch == self.epoch and not self.is_begun
        return Cursor(epoch, self.start if keeps else 0)


def checked_epoch(epoch: int) -> int:
    """Return the number of an epoch as an int; ValueError for one that no epoch has, TypeError for what is none."""
    number = operator.index(epoch)
    if number < 0:
        raise ValueError(f"epoch: expected 0 or more, found {epoch}")
    return number
