"""The tables of a report, as text cells, for the terminal, Markdown and HTML alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from ragweave.evaluation.metrics import Comparison, Interval
from ragweave.evaluation.report.printed import Printed, differences, printed_for
from ragweave.evaluation.report.summary import Column, Experiment, holm, paired, pairs

SHOWN = {
    "em": "EM",
    "f1": "F1",
    "accuracy": "Accuracy",
    "coverage_em": "EM (ASQA)",
    "hit_at_1": "Hit@1",
    "rouge_1": "ROUGE-1",
    "rouge_2": "ROUGE-2",
    "rouge_l": "ROUGE-L",
    "unigram_f1": "Unigram F1",
    "contains": "Contains",
    "unknown": "%Unk",
    "nm": "%NM",
    "recall": "Recall",
    "precision": "Precision",
    "s_precision": "S-Precision",
    "filter_precision": "Filter precision",
    "filter_recall": "Filter recall",
    "recall@1": "Recall@1",
    "recall@5": "Recall@5",
    "recall@10": "Recall@10",
    "recall@20": "Recall@20",
    "ndcg@10": "nDCG@10",
    "answer_recall": "Answer recall",
    "output_precision": "Output precision",
}
"""The scores in the order of a report, by the names that readers know; all in percent."""

_FIRST = tuple(SHOWN)[: tuple(SHOWN).index("recall")]
_COSTS = {
    "calls": "Calls",
    "input_tokens": "Tokens in",
    "output_tokens": "Tokens out",
    "seconds": "Seconds",
    "cost": "US$",
}


@dataclass(frozen=True)
class Table:
    """A heading, the columns' names, the rows' cells, and remarks below."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    remarks: Sequence[str] = ()


def tables_of(experiment: Experiment) -> list[Table]:
    """Return every table of an experiment; those without content are left out."""
    found = [
        answers_table(experiment),
        passages_table(experiment),
        costs_table(experiment),
        roles_table(experiment),
        pairs_table(experiment),
        printed_table(experiment),
    ]
    return [table for table in found if table is not None and table.rows]


def answers_table(experiment: Experiment) -> Table:
    """Return the answers' scores with their 95% intervals."""
    names = _names(experiment, _FIRST)
    rows = [
        [column.label, str(column.answered), str(column.failed), *_scores(column, names)]
        for column in experiment.columns.values()
    ]
    planned = experiment.planned
    remarks = ["Percent; in brackets the 95% bootstrap interval."]
    for column in experiment.columns.values():
        left = planned - column.answered - column.failed
        if left:
            remarks.append(f"{column.label}: {left} of {planned} questions are not done yet.")
        if column.faults:
            listed = ", ".join(f"{kind} {n}" for kind, n in sorted(column.faults.items()))
            remarks.append(f"{column.label}: failed, and in no score: {listed}.")
    if experiment.settings.oracle:
        remarks.append("Methods were handed the gold answers: filters are oracles (SILVER).")
    head = ["method", "n", "failed", *(SHOWN[name] for name in names)]
    return Table(_title(experiment), head, rows, remarks)


def passages_table(experiment: Experiment) -> Table | None:
    """Return how well passages were found and filtered, or None where no gold is known."""
    names = _names(experiment, [name for name in SHOWN if name not in _FIRST])
    if not names:
        return None
    rows = [[column.label, *_scores(column, names)] for column in experiment.columns.values()]
    remarks = ["Recall, precision and S-Precision are of the passages that stood in the prompt."]
    return Table("Passages", ["method", *(SHOWN[name] for name in names)], rows, remarks)


def costs_table(experiment: Experiment) -> Table:
    """Return what a question cost on average."""
    columns = list(experiment.columns.values())
    names = [name for name in _COSTS if any(name in column.costs for column in columns)]
    rows = []
    for column in columns:
        cells = [
            _number(sum(column.costs[name].values) / len(column.costs[name].values))
            if name in column.costs
            else "–"
            for name in names
        ]
        spent = column.spent
        rows.append([column.label, *cells, str(spent.paid_calls), str(spent.cached_calls)])
    head = ["method", *(_COSTS[name] for name in names), "paid calls", "from cache"]
    remarks = ["Means a question; the last two columns are totals of the run."]
    if any(column.estimated for column in columns):
        remarks.append("Some token counts are estimated from characters.")
    return Table("Cost", head, rows, remarks)


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


def pairs_table(experiment: Experiment) -> Table | None:
    """Return the paired tests between systems on the headline score."""
    score = experiment.headline
    rows = [
        [
            f"{pair.first} − {pair.second}",
            *_difference(pair.found),
            f"{pair.corrected:.4f}",
            str(pair.found.n),
        ]
        for pair in pairs(experiment.columns.values(), score)
    ]
    if not rows:
        return None
    head = ["pair", f"difference in {SHOWN[score]}", "95% interval", "p", "p (Holm)", "n"]
    return Table("Differences", head, rows, [_PAIRED])


def between_table(experiments: Sequence[Experiment]) -> Table | None:
    """Return the paired tests of the same system in two runs over the same data set."""
    rows: list[list[str]] = []
    ps: list[float] = []
    for first, second in combinations(experiments, 2):
        if first.settings.dataset_hash != second.settings.dataset_hash:
            continue
        score = first.headline
        for label, column in first.columns.items():
            other = second.columns.get(label)
            if other is None or score not in column.scores or score not in other.scores:
                continue
            found = paired(column.scores[score], other.scores[score])
            if found is not None:
                cells = [f"{label}: {first.name} − {second.name}", SHOWN[score]]
                rows.append([*cells, *_difference(found), str(found.n)])
                ps.append(found.p)
    if not rows:
        return None
    shown = [[*row[:-1], f"{p:.4f}", row[-1]] for row, p in zip(rows, holm(ps), strict=True)]
    head = ["pair", "score", "difference", "95% interval", "p", "p (Holm)", "n"]
    return Table("Between runs", head, shown, [_PAIRED])


_PAIRED = "Paired randomisation over the questions that both answered; Holm 1979 corrects p."


def _difference(found: Comparison) -> list[str]:
    return [
        f"{found.difference * 100:+.1f}",
        f"[{found.low * 100:+.1f}, {found.high * 100:+.1f}]",
        f"{found.p:.4f}",
    ]


def printed_table(experiment: Experiment) -> Table | None:
    """Return the papers' printed values beside ours, with all that differs."""
    rows = []
    for column in experiment.columns.values():
        found: dict[tuple[str, ...], list[Printed]] = {}
        for one in printed_for(experiment.settings, column.system):
            if one.metric in column.scores:
                key = (one.paper, one.table, one.row, one.model, one.corpus)
                found.setdefault(key, []).append(one)
        rows += [_printed_row(column, listed, experiment) for listed in found.values()]
    if not rows:
        return None
    head = ["method", "ours", "printed", "source", "differs in"]
    remarks = ["Percent. Where the last column names a difference, the values are not comparable."]
    return Table("Beside the papers", head, rows, remarks)


def _printed_row(column: Column, listed: Sequence[Printed], experiment: Experiment) -> list[str]:
    """Return one row of a paper's table beside ours, all its metrics in one cell."""
    first = listed[0]
    counts = [len(column.scores[one.metric].values) for one in listed]
    told = differences(first, experiment.settings, column.system, counts[0])
    ours = [
        sum(column.scores[one.metric].values) / n for one, n in zip(listed, counts, strict=True)
    ]
    return [
        column.label,
        _cells([SHOWN[one.metric] for one in listed], [value * 100 for value in ours]),
        _cells([SHOWN[one.metric] for one in listed], [one.value for one in listed]),
        f"{first.paper}, table {first.table}: {first.row}, {first.model}",
        "; ".join(told) or "nothing named",
    ]


def _cells(names: Sequence[str], values: Sequence[float]) -> str:
    return " · ".join(f"{name} {value:.1f}" for name, value in zip(names, values, strict=True))


def _title(experiment: Experiment) -> str:
    settings = experiment.settings
    return f"{experiment.name}: {settings.dataset_name}, {settings.models['answer']}"


def _names(experiment: Experiment, order: Sequence[str]) -> list[str]:
    columns = experiment.columns.values()
    return [name for name in order if any(name in column.scores for column in columns)]


def _scores(column: Column, names: Sequence[str]) -> list[str]:
    return [
        percent(column.scores[name].interval()) if name in column.scores else "–" for name in names
    ]


def percent(interval: Interval) -> str:
    """Return a mean with its interval, in percent."""
    return f"{interval.mean * 100:.1f} [{interval.low * 100:.1f}, {interval.high * 100:.1f}]"


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.2f}" if value >= 0.1 or value == 0 else f"{value:.2g}"
