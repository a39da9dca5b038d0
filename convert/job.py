"""One database of a conversion: write it, index it, publish it, report it."""

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
from lmdbio.layout.keys import Keys
from lmdbio.layout.path import DATA_NAME, INDEX_SUFFIX
from lmdbio.layout.ragged import gather
from lmdbio.layout.writer import DatabaseWriter, WrittenDatabase

_INDEX_BYTES_PER_RECORD: Final = 64
"""What a record takes in the sidecar at most, its key apart."""
_INDEX_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Job:
    """One database to be made."""

    source: Source
    target: Target
    plan: ConversionPlan

    def space(self) -> int:
        """Return the bytes that the database and its sidecar will take."""
        database = self.plan.database
        index = len(database.keys.blob) + database.n_records * _INDEX_BYTES_PER_RECORD + _INDEX_BYTES
        return database.file_size + index

    def planned(self) -> DatabaseReport:
        """Return the report of the database as planned."""
        numbers = self.plan.numbers
        return self._report(
            numbers=numbers,
            file_size=self.plan.database.file_size,
            n_partitions=self.plan.database.n_partitions,
            free=free_space(self.target.path),
            skipped=self.source.bad,
            misnamed={},
        )

    def run(self, options: Options, *, skip: bool, workers: int, progress: Progress) -> DatabaseReport:
        """Write the database and its sidecar, and publish them."""
        free = free_space(self.target.path)
        transfer = Transfer(self.source, self.plan, wrapped=options.value == "datum", skip=skip, progress=progress)
        try:
            written = self._write(transfer, checksum=options.checksum, workers=workers)
            self._index(written, options).save(self.target.data + INDEX_SUFFIX)
            file_size = os.stat(self.target.data).st_size
            self.target.publish()
        except LmdbioError:
            raise
        except OSError as exc:
            raise TargetError(f"{self.target.path}: cannot be written: {(exc.strerror or str(exc)).lower()}") from exc
        return self._report(
            numbers=self.plan.numbers[written.records],
            file_size=file_size,
            n_partitions=len(written.partitions) - 1,
            free=free,
            skipped=self.source.bad + transfer.skipped,
            misnamed=transfer.misnamed(),
        )

    def _write(self, transfer: Transfer, *, checksum: bool, workers: int) -> WrittenDatabase:
        """Write the data file; the writer's buffers are gone when the index is made."""
        with DatabaseWriter(self.target.data, self.plan.database, checksum=checksum) as writer:
            transfer.run(writer, workers=workers)
            if transfer.n_skipped == len(self.plan.numbers):
                raise SourceError(f"{self.source.name}: expected an image that can be read, found none")
            return writer.finish()

    def _index(self, written: WrittenDatabase, options: Options) -> Index:
        inputs, database = self.source.inputs, self.plan.database
        numbers = self.plan.numbers[written.records]
        sizes = inputs.sizes[numbers]
        is_datum = options.value == "datum"
        with DataFile(self.target.data) as file:
            fingerprint = take_fingerprint(file, written.meta)
        description = options.description()
        if self.source.split is not None:
            description["split"] = self.source.split
        return Index.make(
            fingerprint=fingerprint,
            page_size=database.page_size,
            keys=_take(database.keys, written.records),
            key_order="bytes",
            offsets=written.offsets,
            lengths=written.lengths,
            layout_order=written.layout_order,
            partitions=written.partitions,
            labels=inputs.labels[numbers],
            checksums=written.checksums,
            payload_offsets=payload_offsets(sizes) if is_datum else None,
            payload_lengths=sizes if is_datum else None,
            value_kind="datum" if is_datum else "raw",
            class_names=list(self.source.class_names),
            source=description,
        )

    def _report(
        self,
        *,
        numbers: NDArray[np.int64],
        file_size: int,
        n_partitions: int,
        free: int,
        skipped: tuple[BadInput, ...],
        misnamed: dict[str, int],
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
            free_space=free,
        )


def _take(keys: Keys, numbers: NDArray[np.int64]) -> Keys:
    """Return the keys with these numbers."""
    if np.array_equal(numbers, np.arange(len(keys))):
        return keys
    sizes = keys.sizes[numbers]
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return Keys(gather(keys.blob, keys.offsets[numbers], sizes), offsets)
