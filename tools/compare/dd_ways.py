"""Which ways of dd take part: found by trying, once for each state of the cache and number of ranks."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from tools.compare import caches, ceilings
from tools.compare.places import Roots
from tools.compare.questions import Cache, Question
from tools.compare.ranks import RankFailure

Condition: TypeAlias = tuple[Cache, int]
"""State of the cache, and number of ranks."""


def dd_ways(questions: Sequence[Question], roots: Roots, *, timeout_s: float) -> dict[Condition, list[ceilings.DdWay]]:
    """Return the fastest ways, and the fastest with as many reads in flight as lmdbio, by condition.

    Parameters
    ----------
    questions
        What will be asked; only reading has such a ceiling.
    roots
        Where the flat file lies.
    timeout_s
        For one trial.
    """
    chosen: dict[Condition, list[ceilings.DdWay]] = {}
    for question in questions:
        condition = (question.cache, question.processes)
        if question.work == "read" and condition not in chosen:
            folders = roots.folders(ceilings.FLAT, n_ranks=question.processes)
            trial = _Trial(question, folders, timeout_s)
            cold = question.cache == "cold"
            equal = ceilings.equal_ways(n_ranks=question.processes, cold=cold)
            chosen[condition] = ceilings.choose(ceilings.trial_ways(cold=cold), trial.seconds)
            chosen[condition] += ceilings.choose(equal, trial.seconds)[:1]
    return chosen


class _Trial:
    """One try of each way, under the conditions of a question."""

    def __init__(self, question: Question, folders: Sequence[Path], timeout_s: float) -> None:
        self._question = question
        self._folders = folders
        self._timeout_s = timeout_s

    def seconds(self, way: ceilings.DdWay) -> float:
        caches.prepare(self._question.cache, self._folders)
        try:
            facts = ceilings.run_dd(self._folders, way, timeout_s=self._timeout_s)
        except RankFailure:  # O_DIRECT is not for every file system
            return float("inf")
        return float(facts["end"] - facts["start"])
