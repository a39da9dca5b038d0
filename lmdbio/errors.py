"""Every error that lmdbio raises on purpose. A plain bad argument stays ``ValueError`` or ``TypeError``.

::

    LmdbioError
    ├── FormatError (ValueError)             not an LMDB file, or a format that is not read
    │   ├── CorruptDatabaseError             an LMDB file that contradicts itself
    │   └── NewerFormatError                 an index of a version that this lmdbio does not know
    ├── StaleIndexError                      the index describes another state of the data file
    ├── MissingIndexError (FileNotFoundError)
    ├── MissingDatabaseError (FileNotFoundError)
    ├── SourceError                          an input of a conversion is missing, unreadable or bad
    ├── TargetError (OSError)                an output exists, or cannot be written
    ├── ReadError (OSError)                  bytes of a record could not be read
    └── ChecksumError                        bytes of a record are not the ones that were written

A message is one line: *file: expected X, found Y*, and what to do about it.
"""

import os


class LmdbioError(Exception):
    """Base of all of lmdbio's errors."""


class FormatError(LmdbioError, ValueError):
    """The file is not an LMDB database or an index, or is one of a format that is not read."""


class CorruptDatabaseError(FormatError):
    """The database contradicts itself: a bad offset, count, page number or flag, or a missing tail."""


class NewerFormatError(FormatError):
    """The index is of a version that this lmdbio does not know: upgrade, or build the index again elsewhere."""


class StaleIndexError(LmdbioError):
    """The index describes another state of the data file. Build it again with ``lmdbio-index``."""


class MissingIndexError(LmdbioError, FileNotFoundError):
    """The database has no index where it was looked for."""


class MissingDatabaseError(LmdbioError, FileNotFoundError):
    """No database stands at the path given."""


class SourceError(LmdbioError):
    """An input of a conversion is missing, unreadable, empty or not what it should be."""


class TargetError(LmdbioError, OSError):
    """An output exists already, or cannot be written (no parent directory, no space, no permission)."""


class ReadError(LmdbioError, OSError):
    """Bytes that the index or the database speaks of could not be read.

    Parameters
    ----------
    path
        The file that was read.
    offset, length
        The byte range that was asked for; no bytes, and no key, where it is the file as a whole that cannot be read.
    reason
        What was found instead, in a few words.
    key
        The record's key, where one record is concerned.
    """

    def __init__(
        self, path: str | os.PathLike[str], offset: int, length: int, reason: str, key: bytes | None = None
    ) -> None:
        self.path = os.fspath(path)
        self.offset = offset
        self.length = length
        self.reason = reason
        self.key = key
        super().__init__(self._message())

    def _message(self) -> str:
        if self.key is None and not self.length:
            return f"{self.path}: {self.reason}"
        record = "" if self.key is None else f"key {self.key!r}, "
        return f"{self.path}: {record}expected {self.length} bytes at offset {self.offset}, {self.reason}"

    def __str__(self) -> str:
        return self._message()

    def __reduce__(self) -> tuple[type["ReadError"], tuple[str, int, int, str, bytes | None]]:
        return type(self), (self.path, self.offset, self.length, self.reason, self.key)


class ChecksumError(LmdbioError):
    """The bytes of a record differ from the ones that its checksum was taken of."""
