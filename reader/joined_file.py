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
        file, own_offset, inside = self._place(offset, buffer)
        done = file.read_cached(own_offset, inside)
        return buffer.nbytes if done == inside.nbytes else done

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """See :meth:`RecordFile.read_into`; an error's offset is that of the space, its path the file's."""
        file, own_offset, inside = self._place(offset, buffer)
        try:
            file.read_into(own_offset, inside)
        except ReadError as exc:
            raise ReadError(exc.path, exc.offset + offset - own_offset, exc.length, exc.reason) from exc

    def _place(self, offset: int, buffer: memoryview) -> tuple[RecordFile, int, memoryview]:
        """Return (file, offset in it, the part of the buffer to fill).

        Files may differ in what reads must be multiples of. Where this one needs less than another, what alignment
        alone adds may reach beyond its end, and counts as filled.
        """
        number = self.space.file_of(offset)
        file, own_offset = self.files[number], offset - int(self.space.bases[number])
        left = file.size - own_offset
        reaches_beyond = file.align < self.align and 0 < left < buffer.nbytes < left + self.align
        return file, own_offset, buffer[:left] if reaches_beyond else buffer

    def stop_retrying(self) -> None:
        """See :meth:`RecordFile.stop_retrying`."""
        for file in self.files:
            file.stop_retrying()

    def close(self) -> None:
        """Close all files."""
        for file in self.files:
            file.close()


RecordFiles: TypeAlias = RecordFile | JoinedFile
"""What a reader reads from."""


def files_of(file: RecordFiles) -> tuple[RecordFile, ...]:
    """Return the file of each database."""
    return file.files if isinstance(file, JoinedFile) else (file,)
