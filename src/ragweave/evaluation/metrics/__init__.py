"""The metrics by name, in the order of reports: ours, then those of other packages."""

from collections.abc import Sequence

from ragweave.evaluation.metrics import answers, judged, passages
from ragweave.evaluation.metrics.judged import citation_metrics
from ragweave.evaluation.metrics.metric import Metric, Score, State, finite, given, scores
from ragweave.registry import Registry

__all__ = [
    "MAIN",
    "METRICS",
    "Metric",
    "Score",
    "State",
    "chosen_metrics",
    "citation_metrics",
    "finite",
    "given",
    "scores",
]

_OURS = (*answers.METRICS, *judged.METRICS, *passages.METRICS, *answers.COSTS)
METRICS: Registry[Metric] = Registry("ragweave.metrics", Metric, "metric", lambda: _OURS)
"""Every metric by name: ours, then those of other packages (entry points `ragweave.metrics`)."""

MAIN = {"short": "em", "yes_no": "accuracy", "parts": "coverage_em", "long": "rouge_l", "retrieval": "ndcg@10"}
"""The metric that systems are compared by, by kind of question."""


def chosen_metrics(names: Sequence[str], own: Sequence[Metric] = ()) -> list[Metric]:
    """Return metrics by name, the caller's own first; none named: those, and all of ours that ask no model.

    Raises:
        UsageError: There is no metric of a name.
    """
    mine = {one.name: one for one in own}
    if not names:
        return [*(one for one in METRICS.ours() if not one.on_request and one.judge is None), *own]
    return [mine.get(name) or METRICS.named(name) for name in dict.fromkeys(names)]
