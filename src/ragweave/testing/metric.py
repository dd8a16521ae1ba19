"""The contract of a metric: its range, its direction, its best and worst, and what must not matter."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

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

    def test_scores_lie_in_the_range(self) -> None:
        """Every score is a number from `lowest` to `highest`."""
        for case in self._cases():
            score = self.metric(*case)
            assert isinstance(score, float), f"{case}: {score!r} is not a float"
            assert self.lowest <= score <= self.highest, f"{case}: {score}"

    def test_perfect_and_worst_cases_score_so(self) -> None:
        """A perfect case has the best score that there is, a worst case the worst, any other one between."""
        assert self.perfect, "name a perfect case"
        assert self.worst, "name a worst case"
        best, least = (self.highest, self.lowest)[:: 1 if self.higher_is_better else -1]
        for cases, wanted in ((self.perfect, best), (self.worst, least)):
            for case in cases:
                assert self.metric(*case) == wanted, f"{case}: {self.metric(*case)}"
        for case in self.between:
            assert self.lowest < self.metric(*case) < self.highest, f"{case}: {self.metric(*case)}"

    def test_order_does_not_matter_where_it_must_not(self) -> None:
        """Another order of an unordered argument gives the same score."""
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

    def _cases(self) -> Iterator[Case]:
        return itertools.chain(self.perfect, self.worst, self.between)
