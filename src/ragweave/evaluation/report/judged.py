"""The table of a run's judge: what it read, what could not be read of it, and what it cost."""

from __future__ import annotations

from ragweave.evaluation.report.summary import Column, Experiment, Table


def judge_table(experiment: Experiment) -> Table | None:
    """Return what the judge of the judged metrics did, or None where nothing was judged."""
    columns = list(experiment.columns.values())
    names = list(dict.fromkeys(name for column in columns for name in column.judged))
    if not names:
        return None
    labels = [f"{experiment.metric(name).label}: judged, unreadable" for name in names]
    head = ["method", *labels, "calls", "tokens in + out", "from cache", "US$"]
    rows = [[column.label, *_judged(column, names), *_cost(column)] for column in columns]
    remarks = [
        f"The judge is {experiment.settings.judge_model}. Where its reply could not be read, the "
        "question counts nowhere in that metric; it is never taken for a 0.",
        "Its calls are none of the methods': the table of costs leaves them out.",
    ]
    return Table("Judge", head, rows, remarks)


def _judged(column: Column, names: list[str]) -> list[str]:
    counts = (column.judged.get(name, (0, 0)) for name in names)
    return [f"{judged}, {unread}" for judged, unread in counts]


def _cost(column: Column) -> list[str]:
    paid = column.judge.paid.values()
    given, made = (
        sum(one["input_tokens"] for one in paid),
        sum(one["output_tokens"] for one in paid),
    )
    dollars = "–" if column.judge_cost is None else f"{column.judge_cost:.4f}"
    calls = [str(column.judge.paid_calls), f"{given} + {made}", str(column.judge.cached_calls)]
    return [*calls, dollars]
