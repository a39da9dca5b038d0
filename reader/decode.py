"""Decoding each record by a function of the user's, in threads, some batches before they are needed."""

import operator
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final, TypeAlias

from lmdbio.reader.batch import Batch
from lmdbio.reader.epoch import EpochReader
from lmdbio.reader.loader import Loader
from lmdbio.reader.meter import Meter

Decode: TypeAlias = Callable[[memoryview], Any]
"""Given the data of a record, returns what is made of it; called in several threads at once."""
_AHEAD: Final = 2
"""Batches that are being decoded beside the one that is needed."""
_TASKS_PER_THREAD: Final = 4
"""Pieces of a batch for each thread: few, so that handing out costs little; some, since records differ."""


class Decoder:
    """Threads that decode.

    Parameters
    ----------
    decode
        What they call.
    n_threads
        How many there are; None: one for each CPU that this process may use.

    Raises
    ------
    TypeError, ValueError
        If it is no function, or the number is below 1.
    """

    def __init__(self, decode: Decode, n_threads: int | None) -> None:
        if not callable(decode):
            raise TypeError(f"decode: expected a function, found {type(decode).__name__}")
        if n_threads is not None and operator.index(n_threads) < 1:
            raise ValueError(f"decode_threads: expected 1 or more, found {n_threads}")
        self._decode = decode
        self.n_threads = n_threads or len(os.sched_getaffinity(0))
        self._executor = ThreadPoolExecutor(self.n_threads, thread_name_prefix="lmdbio-decode")

    def begin(self, batch: Batch) -> list[Future[list[Any]]]:
        """Have a batch's records decoded, and return what will give them, in order."""
        data = list(batch.data)
        size = max(1, -(-len(data) // (_TASKS_PER_THREAD * self.n_threads)))
        return [
            self._executor.submit(self._decode_all, data[first : first + size], batch, first)
            for first in range(0, len(data), size)
        ]

    def close(self) -> None:
        """Leave out what is not begun, and wait for the rest."""
        self._executor.shutdown(cancel_futures=True)

    def _decode_all(self, data: Sequence[memoryview], batch: Batch, first: int) -> list[Any]:
        decoded = []
        for place, payload in enumerate(data, first):
            try:
                decoded.append(self._decode(payload))
            except Exception as error:  # noqa: BLE001  # it is raised again, with a note
                # to an iterator StopIteration would mean the end of the epoch
                exc = RuntimeError("decode: raised StopIteration") if isinstance(error, StopIteration) else error
                exc.add_note(f"lmdbio: decode= was given record {batch.indices[place]}, key {batch.keys[place]!r}")
                raise exc from (error if exc is not error else None)
        return decoded


@dataclass(slots=True)
class _Ahead:
    """A batch on its way, or why there is none; and where the epoch stands once it is handed out."""

    position: int
    batch: Batch | None = None
    parts: Sequence[Future[list[Any]]] = ()
    error: BaseException | None = None


class DecodedEpoch(Iterator[Batch]):
    """The batches of an epoch with what was made of their records.

    Parameters
    ----------
    epoch_reader
        Gives the batches, and does not hand them out itself.
    decoder
        Decodes them.
    on_error
        Called with an error, of reading or decoding, before it is raised.
    meter
        Counts the time.
    """

    def __init__(
        self, epoch_reader: EpochReader, decoder: Decoder, *, on_error: Callable[[BaseException], None], meter: Meter
    ) -> None:
        self._epoch_reader = epoch_reader
        self._decoder = decoder
        self._on_error = on_error
        self._meter = meter
        self._ahead: deque[_Ahead] = deque()
        self._is_exhausted = False
        self.epoch = epoch_reader.epoch
        self.position = epoch_reader.position
        """See :attr:`EpochReader.position`: of the batches that were handed out, not of those being decoded."""

    def __next__(self) -> Batch:
        try:
            return self._next()
        except StopIteration:
            raise
        except BaseException as exc:
            # What was interrupted may have lost a batch: nothing more comes of this epoch.
            self._let_go()
            self._epoch_reader.abandon(exc)
            self._on_error(exc)
            raise

    def _next(self) -> Batch:
        begun_at = perf_counter()
        while len(self._ahead) <= _AHEAD and not self._is_exhausted:
            self._take()
        if not self._ahead:
            self.position = self._epoch_reader.position
            return next(self._epoch_reader)  # which says why there is none
        item = self._ahead[0]
        if item.error is not None:
            raise item.error
        assert item.batch is not None
        decoding_at = perf_counter()
        item.batch.decoded = [value for part in item.parts for value in part.result()]
        self._meter.note_decoded(decoding_at)
        self._meter.note_batch(begun_at, n_records=len(item.batch), n_bytes=int(item.batch.lengths.sum()))
        self._ahead.popleft()
        self.position = item.position
        return item.batch

    def next_loader(self) -> Loader | None:
        """See :meth:`EpochReader.next_loader`."""
        return None if self._ahead else self._epoch_reader.next_loader()

    def hand_on(self) -> None:
        """See :meth:`EpochReader.hand_on`."""
        self._epoch_reader.hand_on()

    def close(self) -> None:
        """End reading; what is being decoded is let go."""
        self._let_go()
        self._epoch_reader.close()

    def _let_go(self) -> None:
        for item in self._ahead:
            for part in item.parts:
                part.cancel()
        self._ahead.clear()

    def _take(self) -> None:
        """Take the next batch and have it decoded; an error comes when its batch would."""
        try:
            batch = next(self._epoch_reader, None)
        except Exception as exc:  # noqa: BLE001  # it is raised in its turn
            self._ahead.append(_Ahead(self._epoch_reader.position, error=exc))
            batch = None
        if batch is None:
            self._is_exhausted = True
        else:
            self._ahead.append(_Ahead(self._epoch_reader.position, batch, self._decoder.begin(batch)))
