"""The contract of a metric: its range, its direction, its best and worst, and what must not matter."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any
from unittest import SkipTest

Case = tuple[Any, ...]
"""The metric's arguments."""


class MetricTests:
    """What a metric must keep. Subclass it and say what is perfect and what is worst.

    class TestExactMatch(MetricTests):
        metric = staticmethod(exact_match)
        perfect = [("Ada", ["Ada"])]
        worst = [("Karl", ["Ada"])]
        unordered = [1]
    """

    perfect: Sequence[Case] = ()
    """Cases that score best."""
    worst: Sequence[Case] = ()
    """Cases that score worst."""
    between: Sequence[Case] = ()
    """Cases that score neither best nor worst."""
    lowest: float = 0.0
    highest: float = 1.0
    higher_is_better: bool = True
    unordered: Sequence[int] = ()
    """Positions of the arguments whose order must not matter."""

    def metric(self, *case: Any) -> float:
        """Return the score of a case."""
        raise NotImplementedError(f"{type(self).__name__} needs a metric")

    def aggregate(self, scores: Sequence[float]) -> float:
        """Return the score of several questions: their mean."""
        return fmean(scores)

    def test_scores_lie_in_the_range(self) -> None:
        """Every score is a number from `lowest` to `highest`."""
        for case in self._cases():
            score = self.metric(*case)
            assert isinstance(score, float), f"{case}: {score!r} is not a float"
            assert self.lowest <= score <= self.highest, f"{case}: {score}"

    def test_perfect_cases_score_best(self) -> None:
        """A perfect case has the best score that there is."""
        assert self.perfect, "name a perfect case"
        for case in self.perfect:
            assert self.metric(*case) == self._best(), f"{case}: {self.metric(*case)}"

    def test_worst_cases_score_worst(self) -> None:
        """A worst case has the worst score that there is."""
        assert self.worst, "name a worst case"
        for case in self.worst:
            assert self.metric(*case) == self._least(), f"{case}: {self.metric(*case)}"

    def test_what_is_between_scores_between(self) -> None:
        """A case that is neither right nor wrong scores between the two."""
        if not self.between:
            raise SkipTest("this metric has no case between")
        for case in self.between:
            assert self.lowest < self.metric(*case) < self.highest, f"{case}: {self.metric(*case)}"

    def test_order_does_not_matter_where_it_must_not(self) -> None:
        """Another order of an unordered argument gives the same score."""
        if not self.unordered:
            raise SkipTest("this metric has no unordered argument")
        for case in self._cases():
            expected = self.metric(*case)
            for index in self.unordered:
                for other in itertools.islice(itertools.permutations(case[index]), 24):
                    changed = (*case[:index], list(other), *case[index + 1 :])
                    assert self.metric(*changed) == expected, f"{changed}: not {expected}"

    def test_a_score_changes_nothing(self) -> None:
        """Scoring twice gives the same score and leaves the case as it was."""
        for case in self._cases():
            held = copy.deepcopy(case)
            assert self.metric(*case) == self.metric(*case), f"{case}"
            assert case == held, f"{held} was changed to {case}"

    def test_scores_aggregate(self) -> None:
        """An aggregate lies between its scores, whatever their order; of equal ones it is that one."""
        scores = [self.metric(*case) for case in self._cases()]
        whole = self.aggregate(scores)
        assert min(scores) <= whole <= max(scores), f"{scores}: {whole}"
        assert abs(self.aggregate(scores[::-1]) - whole) < 1e-12
        for score in set(scores):
            assert self.aggregate([score] * 3) == score

    def _cases(self) -> Iterator[Case]:
        return itertools.chain(self.perfect, self.worst, self.between)

    def _best(self) -> float:
        return self.highest if self.higher_is_better else self.lowest

    def _least(self) -> float:
        return self.lowest if self.higher_is_better else self.highest
