"""Tables of paired tests: between the methods of a run, and between runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from ragweave.evaluation.metrics import Comparison
from ragweave.evaluation.report.summary import Experiment, holm, paired, pairs
from ragweave.evaluation.report.table import Table


def pairs_table(experiment: Experiment) -> Table | None:
    """Return the paired tests between systems on the primary metric."""
    score = experiment.primary
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
    head = [
        "pair",
        f"difference in {experiment.metric(score).label}",
        "95% interval",
        "p",
        "p (Holm)",
        "n",
    ]
    return Table("Differences", head, rows, [_PAIRED])


def between_table(experiments: Sequence[Experiment]) -> Table | None:
    """Return the paired tests of the same system in two runs over the same data set."""
    rows: list[list[str]] = []
    ps: list[float] = []
    for first, second in combinations(experiments, 2):
        if first.settings.dataset_hash != second.settings.dataset_hash:
            continue
        score = first.primary
        for label, column in first.columns.items():
            other = second.columns.get(label)
            if other is None or score not in column.scores or score not in other.scores:
                continue
            found = paired(column.scores[score], other.scores[score])
            if found is not None:
                cells = [f"{label}: {first.name} − {second.name}", first.metric(score).label]
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
