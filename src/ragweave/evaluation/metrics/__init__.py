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
"""The metric that systems are compared by, for each kind of question."""


def chosen_metrics(names: Sequence[str], own: Sequence[Metric] = ()) -> list[Metric]:
    """Return metrics by name, of which the caller's own come first; without names, those and all of ours without a model.

    Raises:
        UsageError: There is no metric of this name.
    """
    by_name = {metric.name: metric for metric in own}
    if not names:
        return [*(metric for metric in METRICS.ours() if not metric.on_request and metric.judge is None), *own]
    return [by_name.get(name) or METRICS.named(name) for name in dict.fromkeys(names)]
