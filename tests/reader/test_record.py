"""A record pickles as copies of its bytes."""

import pickle

import numpy as np

from lmdbio.reader import Record


def test_a_record_of_views_pickles() -> None:
    buffer = memoryview(np.frombuffer(b"..value..", np.uint8))
    record = Record(b"key", buffer[2:7], buffer[3:5], 4)
    again = pickle.loads(pickle.dumps(record))
    assert (again.key, bytes(again.value), bytes(again.data), again.label) == (b"key", b"value", b"al", 4)
    assert again == record
