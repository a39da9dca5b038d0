"""Progress on standard error: a bar on a terminal, a plain line now and then in a job's log, nothing when quiet."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TextIO

from lmdbio.cli.launch import find_launch
from lmdbio.cli.sizes import format_rate

_LINE_EVERY_S = 10.0
_BAR_EVERY_S = 0.2


class Progress:
    """A count of records and bytes on its way to a total; called by what does the work.

    Parameters
    ----------
    quiet
        Whether nothing is shown. Ranks other than 0 never show anything.
    stream
        Where it goes; standard error, unless given.
    clock
        Seconds, monotonic.
    """

    def __init__(
        self,
        *,
        quiet: bool,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._shown = not quiet and find_launch().rank == 0
        self._bar: Any = None
        self._reset("", None, "records")

    def _reset(self, title: str, total: int | None, unit: str) -> None:
        self._title = title
        self._total = total
        self._unit = unit
        self._started = self._spoke = self._clock()

    def begin(self, title: str, total: int | None = None, *, unit: str = "records") -> None:
        """Start counting anew, towards ``total`` records, or what else is counted, if it is known."""
        self.close()
        self._reset(title, total, unit)
        if self._shown and self._stream.isatty():
            from tqdm import tqdm

            self._bar = tqdm(
                desc=title, total=total, unit=f" {unit}", file=self._stream, leave=False, mininterval=_BAR_EVERY_S
            )

    def __call__(self, records: int, n_bytes: int) -> None:
        """Show that so many records, of so many bytes together, are done by now."""
        if self._shown:
            self.show(records, format_rate(n_bytes, self._clock() - self._started))

    def show(self, done: int, note: str) -> None:
        """Show that so many are done by now, and a few words on it."""
        now = self._clock()
        if self._bar is not None:
            self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(done - self._bar.n)
        elif self._shown and now - self._spoke >= _LINE_EVERY_S:
            self._spoke = now
            of_total = f" of {self._total:,}" if self._total is not None else ""
            print(f"{self._title}: {done:,}{of_total} {self._unit}, {note}", file=self._stream, flush=True)

    def close(self) -> None:
        """Take the bar off the terminal; a second call does nothing."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
