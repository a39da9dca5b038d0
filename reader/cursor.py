"""Which epoch comes next, and from which position on. Pure."""

import operator
from dataclasses import dataclass, field


@dataclass(slots=True)
class Cursor:
    """Where a reader stands between its epochs."""

    epoch: int = 0
    """The epoch that is being read, or comes next."""
    start: int = 0
    """The position with which it begins, or has begun."""
    is_begun: bool = False
    """Whether it is being read, or was."""
    _is_loaded: bool = field(default=False)

    def begin(self, n_records: int) -> bool:
        """Begin to read, and return whether the epoch is the one that follows by itself, which nobody chose.

        An epoch of ``n_records`` positions that a state says is over is passed by.
        """
        follows = self.is_begun
        if follows or (self._is_loaded and self.start == n_records):
            self.epoch, self.start = self.epoch + 1, 0
        self.is_begun, self._is_loaded = True, False
        return follows

    def choose(self, epoch: int) -> None:
        """Take an epoch from its first position on; but the one that was just loaded from where it stood."""
        if self.is_begun or epoch != self.epoch:
            self.start = 0
        self.epoch = epoch
        self.is_begun = self._is_loaded = False

    def load(self, epoch: int, position: int) -> None:
        """Go on where another reader stood."""
        self.epoch, self.start = epoch, position
        self.is_begun, self._is_loaded = False, True


def check_epoch(epoch: int) -> None:
    """Raise ValueError for a number that no epoch has, TypeError for what is no number."""
    if operator.index(epoch) < 0:
        raise ValueError(f"epoch: expected 0 or more, found {epoch}")
