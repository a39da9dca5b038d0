"""About how long a comparison takes, by what such runs took before. Pure: no I/O."""

from collections.abc import Sequence
from typing import Final

from tools.compare.ceilings import equal_ways, trial_ways
from tools.compare.questions import Cache, Place, Question

_OVERHEAD_S: Final[dict[Place, float]] = {"local": 1.2, "testbed": 3.0}
"""Of each run: interpreters, emptied caches, opening."""
_PROCESS_S: Final = 0.3
"""For each process more."""
_TRIAL_S: Final[dict[Place, float]] = {"local": 0.1, "testbed": 0.6}
"""Of each trial of a way of dd, beside its reading."""
_RATES: Final[dict[tuple[Place, Cache], float]] = {
    ("local", "cold"): 500e6,
    ("local", "warm"): 900e6,
    ("testbed", "cold"): 260e6,
    ("testbed", "warm"): 400e6,
}
"""Bytes a second."""
_STORING_RATES: Final[dict[Cache, float]] = {"cold": 180e6, "warm": 350e6}
_DECODING_RATE: Final = 20e6
"""Bytes of JPEG a second of each processor."""
_N_DECODING: Final = 2
_RECORD_S: Final = 20e-6
_SLOW_ON_TESTBED: Final[dict[str, float]] = {"stock": 3.5, "webdataset": 3.5}
"""How many times as long these read there."""


def run_s(question: Question, contestant: str, *, n_records: int, n_bytes: int) -> float:
    """Return about how long one run of a contestant takes."""
    overhead = _OVERHEAD_S[question.place] + _PROCESS_S * (question.processes - 1)
    return overhead + question.n_epochs * _epoch_s(question, contestant, n_records, n_bytes)


def _epoch_s(question: Question, contestant: str, n_records: int, n_bytes: int) -> float:
    if question.work == "convert":
        return n_bytes / _STORING_RATES[question.cache] + n_records * _RECORD_S
    reading = n_bytes / _RATES[question.place, question.cache] + n_records * _RECORD_S
    if question.place == "testbed":
        reading *= _SLOW_ON_TESTBED.get(contestant, 1.0)
    if question.work == "decode":
        reading += n_bytes / _DECODING_RATE / min(question.processes, _N_DECODING)
    return reading


def trials_s(questions: Sequence[Question], sizes: Sequence[int]) -> float:
    """Return about how long it takes to find the fastest ways of dd for the questions, whose data have these bytes."""
    trials = {
        (question.data, question.place, question.cache, question.processes): n_bytes
        for question, n_bytes in zip(questions, sizes, strict=True)
        if question.work == "read"
    }
    total = 0.0
    for (_, place, cache, processes), n_bytes in trials.items():
        cold = cache == "cold"
        n_ways = len(trial_ways(cold=cold)) + len(equal_ways(n_ranks=processes, cold=cold))
        total += n_ways * (_TRIAL_S[place] + n_bytes / _RATES[place, cache])
    return total
