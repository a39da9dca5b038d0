"""One database of a conversion: write it, index it, report it."""

import os
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lmdbio.convert.options import Options
from lmdbio.convert.planning import ConversionPlan
from lmdbio.convert.report import DatabaseReport
from lmdbio.convert.source import BadInput, Source
from lmdbio.convert.space import free_space
from lmdbio.convert.target import Target
from lmdbio.convert.transfer import Progress, Transfer
from lmdbio.errors import LmdbioError, SourceError, TargetError
from lmdbio.layout.datum import payload_offsets
from lmdbio.layout.file import DataFile
from lmdbio.layout.fingerprint import take_fingerprint
from lmdbio.layout.index import Index
from lmdbio.layout.keys import Keys, key_offsets, take_keys
from lmdbio.layout.path import DATA_NAME, INDEX_SUFFIX
from lmdbio.layout.pieces import pieces
from lmdbio.layout.writer import DatabaseWriter
from lmdbio.layout.written import WrittenDatabase

_INDEX_BYTES_PER_RECORD: Final = 64
"""What a record takes in the sidecar at most, its key apart."""
_INDEX_BYTES: Final = 1 << 20


@dataclass(slots=True)
class Job:
    """One database to be made."""

    source: Source
    target: Target
    plan: ConversionPlan
    """Gone once :meth:`run` has written the data file."""

    def space(self) -> int:
        """Return the bytes that the database and its sidecar will take."""
        database = self.plan.database
        *_, key_ends = key_offsets(database.keys)
        return database.file_size + int(key_ends[-1]) + database.n_records * _INDEX_BYTES_PER_RECORD + _INDEX_BYTES

    def planned(self) -> DatabaseReport:
        """Return the report of the database as planned."""
        return self._report(
            numbers=self.plan.numbers,
            file_size=self.plan.database.file_size,
            n_partitions=self.plan.database.n_partitions,
            free=free_space(self.target.path),
            skipped=self.source.bad,
            misnamed={},
            misnamed_paths=(),
        )

    def run(self, options: Options, *, skip: bool, workers: int, progress: Progress) -> DatabaseReport:
        """Write the database and its sidecar under their temporary name; to be called once.

        The sidecar is made in memory, so what was planned and listed is given up before.
        """
        free = free_space(self.target.path)
        is_datum = options.value == "datum"
        transfer = Transfer(self.source, self.plan, wrapped=is_datum, skip=skip, workers=workers, progress=progress)
        try:
            written = self._write(transfer, checksum=options.checksum)
            report = self._report(
                numbers=_take(self.plan.numbers, written.reordered),
                file_size=os.stat(self.target.data).st_size,
                n_partitions=len(written.partitions) - 1,
                free=free,
                skipped=self.source.bad + transfer.skipped,
                misnamed=transfer.misnamed(),
                misnamed_paths=transfer.misnamed_paths(),
            )
            del transfer
            self._index(written, options).save(self.target.data + INDEX_SUFFIX)
        except LmdbioError:
            raise
        except OSError as exc:
            raise TargetError(f"{self.target.path}: cannot be written: {(exc.strerror or str(exc)).lower()}") from exc
        return report

    def _write(self, transfer: Transfer, *, checksum: bool) -> WrittenDatabase:
        """Write the data file; the writer's buffers are gone when the index is made."""
        with DatabaseWriter(self.target.data, self.plan.database, checksum=checksum) as writer:
            transfer.run(writer)
            if transfer.n_skipped == len(self.plan.numbers):
                raise SourceError(f"{self.source.name}: expected an image that can be read, found none")
            return writer.finish()

    def _index(self, written: WrittenDatabase, options: Options) -> Index:
        """Return the index, and forget the plan and the inputs on the way."""
        with DataFile(self.target.data) as file:
            fingerprint = take_fingerprint(file, written.meta)
        description = options.description()
        if self.source.split is not None:
            description["split"] = self.source.split
        keys, labels, sizes = self._give_up(written.reordered)
        is_datum = options.value == "datum"
        return Index.make(
            fingerprint=fingerprint,
            page_size=written.meta.page_size,
            keys=keys,
            key_order="bytes",
            offsets=written.offsets,
            lengths=written.lengths,
            layout_order=written.layout_order,
            partitions=written.partitions,
            labels=labels,
            checksums=written.checksums,
            payload_offsets=_payload_offsets(sizes) if is_datum else None,
            payload_lengths=sizes if is_datum else None,
            value_kind="datum" if is_datum else "raw",
            class_names=list(self.source.class_names),
            source=description,
        )

    def _give_up(self, records: NDArray[np.int64] | None) -> tuple[Keys, NDArray[np.int64], NDArray[np.uint32]]:
        """Return the keys, labels and input sizes of these records, by default all; forget the plan and the inputs."""
        made, numbers = self.plan.database.keys, self.plan.numbers
        labels, sizes = self.source.inputs.labels, self.source.inputs.sizes
        self.source.close()
        del self.plan
        keys = take_keys(made, records)
        del made  # and with it the paths
        numbers = _take(numbers, records)
        return keys, labels[numbers].astype(np.int64), sizes[numbers]

    def _report(
        self,
        *,
        numbers: NDArray[np.int64],
        file_size: int,
        n_partitions: int,
        free: int,
        skipped: tuple[BadInput, ...],
        misnamed: dict[str, int],
        misnamed_paths: tuple[str, ...],
    ) -> DatabaseReport:
        """Return the report of the records made of the inputs with these numbers."""
        inputs, database = self.source.inputs, self.plan.database
        n_classes = len(self.source.class_names)
        return DatabaseReport(
            path=self.target.path,
            index=os.path.join(self.target.path, DATA_NAME + INDEX_SUFFIX),
            split=self.source.split,
            records=len(numbers),
            classes=n_classes,
            empty_classes=int(np.count_nonzero(np.bincount(inputs.labels[numbers], minlength=n_classes) == 0)),
            input_bytes=int(inputs.sizes[numbers].sum()),
            file_size=file_size,
            hole_bytes=database.hole_bytes,
            partitions=n_partitions,
            partition_size=database.partition_size,
            align=database.align,
            align_fell_back=database.align_fell_back,
            inline_records=database.n_inline,
            keys_cut=self.plan.keys_cut,
            case_collisions=self.plan.case_collisions,
            skipped=skipped,
            ignored=dict(self.source.ignored),
            misnamed=misnamed,
            misnamed_paths=misnamed_paths,
            free_space=free,
        )


def _take(numbers: NDArray[np.int64], records: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Return the numbers of these records, by default all."""
    return numbers if records is None else numbers[records]


def _payload_offsets(sizes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return where the image begins in each Datum, uint32, shape (n_records,)."""
    offsets = np.empty_like(sizes)
    for piece in pieces(len(sizes)):
        offsets[piece] = payload_offsets(sizes[piece].astype(np.int64))
    return offsets
