"""The metrics by name, in the order in which reports show them."""

from __future__ import annotations

from collections.abc import Sequence

from ragweave.errors import UsageError
from ragweave.evaluation.metrics import answers, citations, judged, retrieval, rouge
from ragweave.evaluation.metrics.metric import Metric, MetricInfo
from ragweave.registry import Registry
from ragweave.tools.listed import listed

_OURS = (
    answers.EM,
    answers.F1,
    answers.ACCURACY,
    answers.COVERAGE_EM,
    answers.HIT_AT_1,
    *rouge.ROUGE,
    answers.UNIGRAM_F1,
    answers.CONTAINS,
    answers.ANSWER_SHARE,
    answers.UNKNOWN,
    answers.NM,
    citations.ATTRIBUTION,
    *judged.JUDGED,
    retrieval.RECALL,
    retrieval.PRECISION,
    retrieval.S_PRECISION,
    retrieval.FILTER_PRECISION,
    retrieval.FILTER_RECALL,
    *retrieval.RECALL_AT,
    retrieval.NDCG_AT_10,
    retrieval.ANSWER_RECALL,
    answers.OUTPUT_PRECISION,
)

METRICS: Registry[Metric] = Registry("ragweave.metrics", Metric, "metric", lambda: _OURS)
"""Every metric by name: ours, then those of other packages (entry points `ragweave.metrics`)."""


def chosen_metrics(
    wanted: Sequence[str | MetricInfo], own: Sequence[Metric] = ()
) -> tuple[Metric, ...]:
    """Return the metrics that a run computes.

    Args:
        wanted: Names or declarations; none: all of ours but those on request, of which each
            applies where it can.
        own: Declarations that no package brings: those named in `wanted` are found here, and with
            nothing wanted they join ours.

    Raises:
        UsageError: A name is unknown or stands for two metrics.
    """
    wanted = listed(wanted)
    given = {one.name: one for one in [*own, *(one for one in wanted if isinstance(one, Metric))]}
    for name, one in given.items():
        if name in METRICS and METRICS[name] is not one:
            raise UsageError(
                f"the metric name {name!r} is taken twice, by {METRICS.package(name)} and by the "
                "metric given: rename it"
            )
    if not wanted:
        return (*(one for one in METRICS.ours() if not one.on_request), *own)
    names = [one if isinstance(one, str) else one.name for one in wanted]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"metrics: {name!r} is listed twice")
    return tuple(given[name] if name in given else METRICS.named(name) for name in names)


def metric_info(name: str, known: Sequence[MetricInfo] = ()) -> MetricInfo:
    """Return what a report says of a metric: as the run kept it, as declared, or its bare name.

    A report may be written where the package that brought the metric isn't installed.
    """
    kept = next((one for one in known if one.name == name), None)
    if kept is not None:
        return kept
    declared = {one.name: one for one in METRICS.ours()}.get(name)
    return declared.info if declared is not None else MetricInfo(name=name, label=name)


def infos_of(known: Sequence[MetricInfo]) -> Sequence[MetricInfo]:
    """Return the metrics that a run names, or all of ours where it names none."""
    return known or METRICS.ours()
