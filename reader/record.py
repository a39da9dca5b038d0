"""One record of a data set."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Record:
    """A record as :class:`lmdbio.reader.Dataset` returns it; pickles as copies of its bytes."""

    key: bytes
    """LMDB's key."""
    value: memoryview
    """LMDB's value; read-only."""
    data: memoryview
    """The payload within the value (the image within a Datum), else the value; read-only, not a copy."""
    label: int
    """Class number, -1 where there is none."""

    def __reduce__(self) -> tuple[object, tuple[bytes, bytes, bytes, int]]:
        return _restore, (self.key, bytes(self.value), bytes(self.data), self.label)


def _restore(key: bytes, value: bytes, data: bytes, label: int) -> Record:
    return Record(key, memoryview(value), memoryview(data), label)
