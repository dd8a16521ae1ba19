"""The tables of a report, as text cells, for the terminal, Markdown and HTML alike.

"Best of several answers" follows BlendFilter (Wang et al. 2024, figure 4): of a method's answers under several `top_p`, EM is
1 where one is right, and F1 is the highest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ragweave.datasets.subsets import note_of
from ragweave.evaluation.metrics import Interval, MetricInfo, bootstrap
from ragweave.evaluation.report.ceilings import ceilings_table
from ragweave.evaluation.report.judged import judge_table
from ragweave.evaluation.report.pairs import pairs_table
from ragweave.evaluation.report.published import published_table
from ragweave.evaluation.report.summary import Column, Experiment, Table

_SCORES = ("em", "f1", "accuracy")


def best_of_table(experiment: Experiment) -> Table | None:
    """Return the best of each method's answers under different `top_p`; None where none has two."""
    groups: dict[str, list[Column]] = {}
    for column in experiment.columns.values():
        if "top_p" in column.system.options:
            groups.setdefault(_but_top_p(column), []).append(column)
    several = {key: listed for key, listed in groups.items() if len(listed) > 1}
    names = [
        name
        for name in _SCORES
        if any(name in column.scores for listed in several.values() for column in listed)
    ]
    rows = [
        [key, str(len(listed)), *(_cell(best_of(listed, name)) for name in names)]
        for key, listed in several.items()
    ]
    if not rows or not names:
        return None
    remarks = ["Over questions that were answered each time; in brackets the 95% interval."]
    head = ["method", "answers", *(experiment.metric(name).label for name in names)]
    return Table("Best of several answers", head, rows, remarks)


def best_of(columns: Sequence[Column], score: str) -> Interval | None:
    """Return the mean of each question's best score; None where no question has all."""
    tables: list[Mapping[int, float]] = [
        dict(zip(values.index, values.values, strict=True))
        for column in columns
        if (values := column.scores.get(score)) is not None
    ]
    if not tables:
        return None
    shared = set.intersection(*map(set, tables))
    best = [max(table[index] for table in tables) for index in sorted(shared)]
    return bootstrap(best) if best else None


def _but_top_p(column: Column) -> str:
    rest = {name: value for name, value in column.system.options.items() if name != "top_p"}
    shown = ",".join(f"{name}={value}" for name, value in rest.items())
    return f"{column.system.method}[{shown}]" if shown else column.system.method


def _cell(found: Interval | None) -> str:
    if found is None:
        return "–"
    return f"{found.mean * 100:.1f} [{found.low * 100:.1f}, {found.high * 100:.1f}]"


_COSTS = {
    "calls": "Calls",
    "api_calls": "#API",
    "retrievals": "Retrievals",
    "input_tokens": "Tokens in",
    "output_tokens": "Tokens out",
    "seconds": "Seconds",
    "cost": "US$",
}


def tables_of(experiment: Experiment) -> list[Table]:
    """Return every table of an experiment; those without content are left out."""
    judged = [name for one in experiment.columns.values() for name in one.judged]
    found = [
        answers_table(experiment),
        ceilings_table(experiment),
        best_of_table(experiment),
        passages_table(experiment),
        costs_table(experiment),
        roles_table(experiment),
        nodes_table(experiment),
        judge_table(experiment),
        *(
            pairs_table(experiment, name)
            for name in dict.fromkeys([*experiment.primaries, *judged])
        ),
        published_table(experiment),
    ]
    return [table for table in found if table is not None and table.rows]


def answers_table(experiment: Experiment) -> Table:
    """Return the answers' scores with their 95% intervals."""
    metrics = experiment.metrics("answers")
    rows = [
        [column.label, str(column.answered), str(column.failed), *_scores(column, metrics)]
        for column in experiment.columns.values()
    ]
    planned = experiment.planned
    remarks = ["Percent; in brackets the 95% bootstrap interval."]
    lower = [one.label for one in metrics if not one.higher_is_better]
    if lower:
        remarks.append(f"Lower is better: {', '.join(lower)}.")
    for column in experiment.columns.values():
        left = planned - column.answered - column.failed
        if left:
            remarks.append(f"{column.label}: {left} of {planned} questions are not done yet.")
        if column.errors:
            listed = ", ".join(f"{kind} {n}" for kind, n in sorted(column.errors.items()))
            remarks.append(f"{column.label}: failed, and in no score: {listed}.")
        if column.without_proxy:
            remarks.append(
                f"{column.label}: the proxy failed for {column.without_proxy} of "
                f"{column.answered} questions, which were searched for as they stand."
            )
    remarks += [
        *_of_some(experiment, metrics),
        *_unequal(experiment),
        *_selected(experiment),
        *_partial(experiment),
    ]
    if (only := experiment.settings.only) is not None:
        remarks.append(
            f"From the {len(only)} of {experiment.settings.questions} questions that were asked "
            "without context and not answered right (Liu et al. 2024)."
        )
    if experiment.settings.oracle:
        remarks.append("Methods were handed the gold answers: filters are oracles (SILVER).")
    head = ["method", "n", "failed", *(one.label for one in metrics)]
    return Table(_title(experiment), head, rows, remarks)


def _of_some(experiment: Experiment, metrics: Sequence[MetricInfo]) -> Iterator[str]:
    """Yield which scores are over fewer questions than n says, for all methods alike at once."""
    by: dict[str, list[str]] = {}
    for column in experiment.columns.values():
        counts = {one.label: len(column.scores[one.name].values) for one in _of(column, metrics)}
        fewer = [f"{label} {count}" for label, count in counts.items() if count < column.answered]
        by.setdefault(", ".join(fewer), []).append(column.label)
    for listed, labels in by.items():
        who = "" if len(by) == 1 else f"{', '.join(labels)}: "
        if listed:
            yield f"{who}Over fewer than n questions: {listed}."


def _of(column: Column, metrics: Sequence[MetricInfo]) -> Iterator[MetricInfo]:
    return (one for one in metrics if one.name in column.scores)


def _selected(experiment: Experiment) -> Iterator[str]:
    """Yield a line that says which questions of the file were asked, where not all were."""
    settings = experiment.settings
    if note := note_of(settings.dataset_name, settings.dataset):
        yield f"Of {settings.dataset_name}: {note}."


def _partial(experiment: Experiment) -> Iterator[str]:
    """Yield a line that says which shards of the run the table lacks, where it lacks some."""
    missing, parts = experiment.missing_shards, experiment.settings.shard[1]
    if missing:
        listed = ", ".join(map(str, missing[:_SHARDS_NAMED]))
        more = ", …" if len(missing) > _SHARDS_NAMED else ""
        whole = replace(experiment.settings, shard=(1, 1)).planned
        yield (
            f"{experiment.planned} of the run's {whole} questions: without "
            f"shard{'s' if len(missing) > 1 else ''} {listed}{more} of {parts}."
        )


_SHARDS_NAMED = 8


def _unequal(experiment: Experiment) -> Iterator[str]:
    """Yield a line for each setting that the methods of the table do not share."""
    for name in ("k", "shots", "wording", "unknown", "profile"):
        by: dict[str, list[str]] = {}
        left_to_defaults = False
        for one in experiment.settings.systems:
            chosen = one.known_options()
            if chosen is None:
                continue
            value = getattr(chosen, name, None)
            if value is None or (name == "k" and not getattr(chosen, "retrieve", True)):
                continue
            by.setdefault(str(value), []).append(one.label)
            left_to_defaults = left_to_defaults or name not in one.options
        if len(by) > 1 and left_to_defaults:
            listed = "; ".join(f"{value}: {', '.join(labels)}" for value, labels in by.items())
            yield f"Methods differ in {name} ({listed}); --option {name}=… sets one for all."


def passages_table(experiment: Experiment) -> Table | None:
    """Return how well passages were found and filtered, or None where no gold is known."""
    metrics = experiment.metrics("passages")
    if not metrics:
        return None
    rows = [[column.label, *_scores(column, metrics)] for column in experiment.columns.values()]
    remarks = [
        "Recall, precision and S-Precision are of the passages that stood in the prompt.",
        *_gold_remarks(experiment),
        *_over_fewer(experiment, metrics),
    ]
    return Table("Passages", ["method", *(one.label for one in metrics)], rows, remarks)


def _gold_remarks(experiment: Experiment) -> Iterator[str]:
    for column in experiment.columns.values():
        found = column.gold_found
        if not found.get("known"):
            continue
        line = (
            f"{column.label}: of {found['known']} gold passages, {found['id']} were found by id, "
            f"{found['text']} by their text"
        )
        if found["without"]:
            line += f"; {found['without']} questions name none and have no recall"
            if experiment.settings.gold == "with":
                line += ", and nothing was put in for them"
        yield f"{line}."


def _over_fewer(experiment: Experiment, metrics: Sequence[MetricInfo]) -> Iterator[str]:
    """Yield a line for each method some of whose cells are over fewer questions than others."""
    for column in experiment.columns.values():
        counts = {one.label: len(column.scores[one.name].values) for one in _of(column, metrics)}
        most = max(counts.values(), default=0)
        fewer = [f"{label} {count}" for label, count in counts.items() if count < most]
        if fewer:
            yield f"{column.label}: over {most} questions, but {', '.join(fewer)}."


def costs_table(experiment: Experiment) -> Table:
    """Return what a question cost on average."""
    columns = list(experiment.columns.values())
    names = [name for name in _COSTS if any(name in column.costs for column in columns)]
    rows = []
    for column in columns:
        cells = [
            _number(column.costs[name].mean) if name in column.costs else "–" for name in names
        ]
        spent = column.spent
        rows.append([column.label, *cells, str(spent.paid_calls), str(spent.cached_calls)])
    head = ["method", *(_COSTS[name] for name in names), "paid calls", "from cache"]
    remarks = [
        "Means a question; the last two columns are totals of the run. #API: calls of the large "
        "model alone."
    ]
    if "cost" in names:
        remarks.append("US$: at the run's prices, calls that the cache answered included.")
    remarks += [
        f"{column.label}: no US$, for the run has no price for {', '.join(sorted(column.unpriced))}."
        for column in columns
        if column.unpriced
    ]
    remarks += _timed(columns)
    if any(column.estimated for column in columns):
        remarks.append("Some token counts are estimated from characters.")
    return Table("Cost", head, rows, remarks)


def _timed(columns: Sequence[Column]) -> Iterator[str]:
    """Yield a line for each method whose seconds are over fewer questions than it answered."""
    for column in columns:
        count = len(column.costs["seconds"].values) if "seconds" in column.costs else 0
        if count < column.answered:
            yield (
                f"{column.label}: seconds over {count} of {column.answered} questions; for the "
                "others the cache or an earlier session had replies."
            )


def roles_table(experiment: Experiment) -> Table | None:
    """Return the tokens by role, or None where every call was the answering model's."""
    roles = sorted({role for one in experiment.columns.values() for role in one.by_role.paid})
    if roles in ([], ["answer"]):
        return None
    rows = []
    for column in experiment.columns.values():
        cells = []
        for role in roles:
            tokens = column.by_role.paid.get(role)
            n = column.answered or 1
            cells.append(
                f"{tokens['input_tokens'] / n:.0f} + {tokens['output_tokens'] / n:.0f}"
                if tokens
                else "–"
            )
        rows.append([column.label, *cells])
    return Table("Tokens by role", ["method", *roles], rows, ["In + out, means a question."])


def nodes_table(experiment: Experiment) -> Table:
    """Return the wall time by node."""
    rows = [
        [column.label, node, str(len(taken["runs"].values))]
        + [_number(taken["runs"].mean)]
        + [_seconds(taken[name].mean) for name in ("elapsed", "total")]
        for column in experiment.columns.values()
        for node, taken in column.nodes.items()
    ]
    head = ["method", "node", "n", "executions", "s elapsed", "s in total"]
    remarks = [
        "Means over the n questions that the node ran for, without those for which the cache or an "
        "earlier session had replies. Elapsed: while at least one execution "
        "was under way; in total: executions side by side add up."
    ]
    return Table("Seconds by node", head, rows, remarks)


def _title(experiment: Experiment) -> str:
    settings = experiment.settings
    return f"{experiment.name}: {settings.dataset_name}, {settings.models['answer']}"


def _scores(column: Column, metrics: Sequence[MetricInfo]) -> list[str]:
    return [
        percent(column.scores[one.name].interval()) if one.name in column.scores else "–"
        for one in metrics
    ]


def percent(interval: Interval) -> str:
    """Return a mean with its interval, in percent."""
    return f"{interval.mean * 100:.1f} [{interval.low * 100:.1f}, {interval.high * 100:.1f}]"


def _seconds(value: float) -> str:
    """Return a time as exact as it matters: milliseconds at most."""
    if 0 < value < 0.001:
        return "<0.001"
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.2f}" if value >= 0.1 or value == 0 else f"{value:.2g}"
