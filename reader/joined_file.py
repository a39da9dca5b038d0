"""Several data files read as one, by the offsets of a :class:`Space`."""

from collections.abc import Sequence
from typing import TypeAlias

from lmdbio.errors import ReadError
from lmdbio.reader.fetch import RecordFile
from lmdbio.reader.space import Space


class JoinedFile:
    """Data files one behind the other, each open as it would be alone; reads never reach from one into the next.

    Parameters
    ----------
    files
        One at least.
    """

    def __init__(self, files: Sequence[RecordFile]) -> None:
        self.files = tuple(files)
        self.space = Space.of([file.path for file in files], [file.size for file in files])

    @property
    def align(self) -> int:
        """What offset, length and place of reads should be multiples of; 1: nothing."""
        return max(file.align for file in self.files)

    @property
    def n_retries(self) -> int:
        """How many reads were tried again so far."""
        return sum(file.n_retries for file in self.files)

    def is_cold(self) -> bool:
        """Return whether most of the bytes of most files are known not to be in memory."""
        return 2 * sum(file.is_cold() for file in self.files) > len(self.files)

    def read_cached(self, offset: int, buffer: memoryview) -> int | None:
        """See :meth:`RecordFile.read_cached`."""
        number = self.space.file_of(offset)
        return self.files[number].read_cached(offset - int(self.space.bases[number]), buffer)

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """See :meth:`RecordFile.read_into`; an error's offset is that of the space, its path the file's."""
        number = self.space.file_of(offset)
        base = int(self.space.bases[number])
        try:
            self.files[number].read_into(offset - base, buffer)
        except ReadError as exc:
            raise ReadError(exc.path, exc.offset + base, exc.length, exc.reason) from exc

    def close(self) -> None:
        """Close all files."""
        for file in self.files:
            file.close()


RecordFiles: TypeAlias = RecordFile | JoinedFile
"""What a reader reads from."""


def files_of(file: RecordFiles) -> tuple[RecordFile, ...]:
    """Return the file of each database."""
    return file.files if isinstance(file, JoinedFile) else (file,)
