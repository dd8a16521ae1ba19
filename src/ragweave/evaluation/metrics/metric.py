"""`Metric`, the declaration of a metric: its name, its direction, and how it is computed.

A metric is one value, declared in its own file, in this package and in others alike:

    METRIC = Metric(name="words", label="Words", summary="Words of the answer.",
                    compute=lambda question, state: len(state["answer"].split()) / 100)

A package names it as an entry point of the group `ragweave.metrics`; a script hands it to
`plan(metrics=[…])` and `evaluate(metrics=[…])`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from ragweave.datasets.question import Question, Scoring
from ragweave.evaluation.metrics.judgement import Judge

Group = Literal["answers", "passages"]
"""The table of a report that a metric stands in."""

Compute = Callable[[Question, Mapping[str, Any]], float | None]
"""Takes the question with its gold and the graph's final state; gives 0 to 1, or None where the
metric does not apply to the question. A run adds to the state what a judge said (`judgements`) and
how many passages the question's own search asked for (`search_depth`)."""


@dataclass(frozen=True, kw_only=True)
class MetricInfo:
    """What a report needs to know of a metric; a run keeps it with its settings."""

    name: str
    """What runs and `--metrics` call it."""
    label: str
    """What reports call it."""
    higher_is_better: bool = True
    group: Group = "answers"
    primary: tuple[Scoring, ...] = ()
    """The kinds of scoring of which it is the primary metric: shown while a run goes, compared
    pairwise, drawn."""

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "name": self.name,
            "label": self.label,
            "higher_is_better": self.higher_is_better,
            "group": self.group,
            "primary": list(self.primary),
        }

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> MetricInfo:
        """Read what `plain` made."""
        return MetricInfo(**{**values, "primary": tuple(values["primary"])})


@dataclass(frozen=True, kw_only=True)
class Metric(MetricInfo):
    """A metric: what it is called, how a question's value is computed and values are aggregated."""

    summary: str
    """What it says, in a line."""
    compute: Compute
    source: str = ""
    """Where it was published."""
    aggregate: Callable[[Sequence[float]], float] = fmean
    """Makes one number of the questions' values; its 95% interval is bootstrapped."""
    judge: Judge | None = None
    """What it asks a judge model; `compute` is then `by_judge(name)`, which reads what was said."""
    on_request: bool = False
    """Whether it is computed only where it is named."""

    @property
    def info(self) -> MetricInfo:
        """What a report needs to know."""
        return MetricInfo(
            name=self.name,
            label=self.label,
            higher_is_better=self.higher_is_better,
            group=self.group,
            primary=self.primary,
        )


def given_answer(state: Mapping[str, Any]) -> str:
    """Return a final state's answer; where the method says Unknown, it is empty."""
    return str(state["answer"]) if state["status"] == "answered" else ""


def primary_metric(
    scoring: str, scores: Mapping[str, Any], metrics: Sequence[MetricInfo]
) -> str | None:
    """Return the name of the metric that counts first among `scores`; None where there is none.

    Args:
        scoring: The kind of scoring.
        scores: What was computed, by name.
        metrics: What a run computes, in its order; what comes first wins.
    """
    for one in metrics:
        if scoring in one.primary and one.name in scores:
            return one.name
    return next((one.name for one in metrics if one.name in scores), None)
