"""The contract of the metrics."""

from __future__ import annotations

from ragweave.evaluation import metrics
from ragweave.testing import MetricTests

ADA = ["Ada Brenner", "Brenner"]
CITIES = [["Rome", "Roma"], ["Paris"]]


class TestExactMatch(MetricTests):
    metric = staticmethod(metrics.exact_match)
    perfect = [("the Ada Brenner.", ADA), ("", [])]
    worst = [("Ada", ADA), ("", ADA), ("Karl Oster", ADA), ("Ada", [])]
    unordered = [1]


class TestF1(MetricTests):
    metric = staticmethod(metrics.f1)
    perfect = [("Brenner, Ada", ADA), ("", [])]
    worst = [("Karl Oster", ADA), ("", ADA), ("Ada", [])]
    between = [("Ada Oster", ["Ada Brenner"]), ("Ada Brenner built it", ADA)]
    unordered = [1]


class TestContains(MetricTests):
    metric = staticmethod(metrics.contains)
    perfect = [("It was Ada Brenner.", ADA)]
    worst = [("It was Karl Oster.", ADA), ("", ADA), ("Ada", [""])]
    unordered = [1]


class TestAccuracy(MetricTests):
    metric = staticmethod(metrics.accuracy)
    perfect = [("Yes, it is.", ["yes"])]
    worst = [("No", ["yes"]), ("", ["yes"]), ("Yes", [])]
    unordered = [1]


class TestCoverageEm(MetricTests):
    metric = staticmethod(metrics.coverage_em)
    perfect = [("From Paris to Roma.", CITIES)]
    worst = [("London", CITIES), ("Rome", [])]
    between = [("Rome", CITIES)]
    unordered = [1]


class TestHitAt1(MetricTests):
    metric = staticmethod(metrics.hit_at_1)
    perfect = [("Rome", CITIES)]
    worst = [("London", CITIES)]
    unordered = [1]


class TestRouge1(MetricTests):
    perfect = [("Ada built the bridge.", ["Ada built the bridge"])]
    worst = [("Karl", ["Ada built the bridge"]), ("", ADA), ("Ada", [])]
    between = [("Ada built a house", ["Ada built the bridge", "Karl"])]
    unordered = [1]
    size = 1

    def metric(self, *case: object) -> float:
        text, references = case
        return metrics.rouge_n(text, references, self.size)  # type: ignore[arg-type]


class TestRouge2(TestRouge1):
    size = 2


class TestRougeL(MetricTests):
    metric = staticmethod(metrics.rouge_l)
    perfect = [("Ada built the bridge.", ["Ada built the bridge"])]
    worst = [("Karl", ["Ada built the bridge"]), ("", ADA), ("Ada", [])]
    between = [("the bridge Ada built", ["Ada built the bridge"])]
    unordered = [1]


class TestUnigramF1(TestF1):
    metric = staticmethod(metrics.unigram_f1)


class TestOutputPrecision(MetricTests):
    metric = staticmethod(metrics.output_precision)
    perfect = [("Brenner Ada", ADA)]
    worst = [("Karl Oster", ADA), ("", ADA)]
    between = [("Ada Brenner built it", ADA)]
    unordered = [1]


class TestRecall(MetricTests):
    metric = staticmethod(metrics.recall)
    perfect = [(["a", "b", "c"], ["a", "b"])]
    worst = [(["c"], ["a"]), ([], ["a"]), (["a"], [])]
    between = [(["a", "c"], ["a", "b"])]
    unordered = [0, 1]


class TestRecallAt2(MetricTests):
    perfect = [(["a", "b", "c"], ["a", "b"])]
    worst = [(["c", "d", "a"], ["a"]), ([], ["a"])]
    between = [(["a", "c", "b"], ["a", "b"])]
    unordered = [1]

    def metric(self, *case: list[str]) -> float:
        return metrics.recall_at(*case, 2)


class TestPrecision(MetricTests):
    metric = staticmethod(metrics.precision)
    perfect = [(["a"], ["a", "b"])]
    worst = [(["c"], ["a"]), ([], ["a"])]
    between = [(["a", "c"], ["a", "b"])]
    unordered = [0, 1]


class TestSPrecision(MetricTests):
    metric = staticmethod(metrics.s_precision)
    perfect = [(["b", "a"], ["a", "b"])]
    worst = [(["a"], ["a", "b"]), (["a", "b", "c"], ["a", "b"])]
    unordered = [0, 1]


class TestFilterRecall(MetricTests):
    perfect = [(["a"], ["a", "c"], ["a", "b"])]
    worst = [(["c"], ["a", "c"], ["a"])]
    between = [(["a"], ["a", "b"], ["a", "b"])]
    unordered = [0, 1, 2]

    def metric(self, *case: list[str]) -> float:
        score = metrics.filter_recall(*case)
        assert score is not None
        return score


class TestNdcgAt2(MetricTests):
    perfect = [(["a", "b", "c"], ["a", "b"])]
    worst = [(["c", "d", "a"], ["a"]), ([], ["a"]), (["a"], [])]
    between = [(["c", "a"], ["a"]), (["a", "c", "b"], ["a", "b"])]
    unordered = [1]

    def metric(self, *case: list[str]) -> float:
        return metrics.ndcg_at(*case, 2)


class TestAnswerRecall(MetricTests):
    metric = staticmethod(metrics.answer_recall)
    perfect = [(["The town.", "Ada Brenner built it."], ADA)]
    worst = [(["The town."], ADA), ([], ADA)]
    unordered = [0, 1]


class TestUnknown(MetricTests):
    metric = staticmethod(metrics.unknown)
    higher_is_better = False
    perfect = [("answered",)]
    worst = [("unknown",)]


class TestNotMajority(MetricTests):
    """Worst is a right answer that the vote passed over."""

    higher_is_better = False
    perfect = [("Ada", ["Ada", "Karl"]), ("Karl", ["Karl"]), ("Karl", [])]
    worst = [("Karl", ["Karl", "Ada", "Karl"])]
    unordered = [1]

    def metric(self, *case: object) -> float:
        answer, pool = case
        return metrics.not_majority(answer, pool, lambda one: float(one == "Ada"))  # type: ignore[arg-type]
