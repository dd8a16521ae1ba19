"""Paired tests: the methods of a run against each other, and one method in two runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from ragweave.evaluation.metrics import Comparison, compare
from ragweave.evaluation.report.summary import Column, Experiment, Table, Values

_FLIPS_A_TEST = 200
"""Sign flips for each test that is corrected for: Holm's p can then fall to 1 in 200."""


def paired(
    one: Values,
    other: Values,
    places: Mapping[int, int] | None = None,
    *,
    tests: int = 1,
) -> Comparison | None:
    """Compare two systems on the questions that both answered; None where there are none.

    Args:
        one: Scores of the first.
        other: Scores of the second.
        places: The first's index of each question that has another in the second's run; None: the
            run is the same.
        tests: How many tests p will be corrected for.
    """
    values = {
        index if places is None else places.get(index): value
        for index, value in zip(other.index, other.values, strict=True)
    }
    both = [
        (value, values[index])
        for index, value in sorted(zip(one.index, one.values, strict=True))
        if index in values
    ]
    if not both:
        return None
    first, second = zip(*both, strict=True)
    return compare(first, second, most=tests * _FLIPS_A_TEST)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two systems, whether they differ, and the p-value corrected for the number of pairs."""

    first: str
    second: str
    found: Comparison
    corrected: float
    """Holm 1979: the p-value for all pairs of one run under one score together."""


def pairs(columns: Iterable[Column], score: str) -> list[Pair]:
    """Compare every two systems by a score, in the order of the columns."""
    listed = list(combinations((one for one in columns if score in one.scores), 2))
    found = [
        (first.label, second.label, one)
        for first, second in listed
        if (one := paired(first.scores[score], second.scores[score], tests=len(listed)))
    ]
    corrected = holm([one.p for _, _, one in found])
    return [Pair(*three, p) for three, p in zip(found, corrected, strict=True)]


def holm(ps: Sequence[float]) -> list[float]:
    """Correct p-values for their number (Holm 1979), in their order."""
    order = sorted(range(len(ps)), key=lambda index: ps[index])
    found = [1.0] * len(ps)
    largest = 0.0
    for place, index in enumerate(order):
        largest = max(largest, min(1.0, ps[index] * (len(ps) - place)))
        found[index] = largest
    return found


def pairs_table(experiment: Experiment, score: str = "") -> Table | None:
    """Return the paired tests between systems on a metric; on the primary one, unless named."""
    score = score or experiment.primary
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
    named = "" if [score] == experiment.primaries else f" in {experiment.metric(score).label}"
    return Table(f"Differences{named}", head, rows, [_PAIRED])


def between_table(experiments: Sequence[Experiment]) -> Table | None:
    """Return the paired tests of the same system in two runs over the same data set.

    Questions are paired by id: each run may have selected others of the file (`?random=`).
    """
    listed: list[tuple[list[str], Values, Values, Mapping[int, int]]] = []
    for first, second in combinations(experiments, 2):
        if first.settings.source != second.settings.source:
            continue
        indices = {key: index for index, key in first.ids.items()}
        places = {index: indices[key] for index, key in second.ids.items() if key in indices}
        for label, score in (
            (label, score) for label in first.columns for score in first.primaries
        ):
            one = first.columns[label].scores.get(score)
            other = second.columns[label].scores.get(score) if label in second.columns else None
            if one is not None and other is not None:
                cells = [f"{label}: {first.name} − {second.name}", first.metric(score).label]
                listed.append((cells, one, other, places))
    found = [
        (cells, result)
        for cells, one, other, places in listed
        if (result := paired(one, other, places, tests=len(listed)))
    ]
    if not found:
        return None
    corrected = holm([one.p for _, one in found])
    rows = [
        [*cells, *_difference(one), f"{p:.4f}", str(one.n)]
        for (cells, one), p in zip(found, corrected, strict=True)
    ]
    head = ["pair", "score", "difference", "95% interval", "p", "p (Holm)", "n"]
    return Table("Between runs", head, rows, [_PAIRED])


_PAIRED = (
    "Paired randomisation over the questions that both answered; Holm 1979 corrects p for the "
    "table's pairs."
)


def _difference(found: Comparison) -> list[str]:
    return [
        f"{found.difference * 100:+.1f}",
        f"[{found.low * 100:+.1f}, {found.high * 100:+.1f}]",
        f"{found.p:.4f}",
    ]
