"""Many keys as two arrays: their bytes end to end, and where each begins. Pure: no I/O."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys, by number; ``keys[i]`` is bytes.

    >>> keys = Keys.from_list([b"a", b"bc"])
    >>> len(keys), keys[1], keys.sizes.tolist()
    (2, b'bc', [1, 2])
    """

    blob: NDArray[np.uint8]
    """The keys end to end, uint8, shape (sum of sizes,)."""
    offsets: NDArray[np.int64]
    """Where each key begins, and the end of the last, int64, shape (n_records + 1,)."""

    @classmethod
    def from_list(cls, keys: Iterable[bytes]) -> "Keys":
        """Return the keys given one by one."""
        held = list(keys)
        offsets = np.zeros(len(held) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, held), np.int64, len(held)), out=offsets[1:])
        return cls(np.frombuffer(b"".join(held), np.uint8), offsets)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Bytes of each key, int64, shape (n_records,)."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> bytes:
        return self.blob[self.offsets[number] : self.offsets[number + 1]].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        blob = self.blob.tobytes()
        bounds = self.offsets.tolist()
        return (blob[bounds[i] : bounds[i + 1]] for i in range(len(self)))
