"""Ideal routes: the ceiling over recorded replies, beside what the methods reached.

Whoever knew which route is right would take the cheapest right one; no router can do better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragweave.datasets import open_dataset
from ragweave.datasets.recorded import RECORDED, Recording, ideal_route, read_recordings
from ragweave.errors import UsageError
from ragweave.evaluation.metrics import bootstrap
from ragweave.evaluation.metrics.answers import exact_match, f1
from ragweave.evaluation.report.summary import Experiment, Table
from ragweave.state.records import ROUTES, RouteName

_POLICIES: dict[str, tuple[RouteName, ...]] = {
    "never": ("none",),
    "one round": ("one",),
    "many rounds": ("many",),
    "ideal: none | one": ("none", "one"),
    "ideal: none | one | many": ROUTES,
}


def ceilings_table(experiment: Experiment) -> Table | None:
    """Return what fixed and ideal routes reach on the run's questions; None for other data sets."""
    settings = experiment.settings
    if settings.dataset_name != RECORDED.name:
        return None
    try:
        dataset = open_dataset(settings.dataset)
        recordings = {one.id: one for one in read_recordings(dataset.path)}
    except UsageError:  # the file has gone; the run's own results stand without it
        return None
    asked = {
        at
        for column in experiment.columns.values()
        for values in column.scores.values()
        for at in values.index
    }
    chosen = [recordings[one.id] for at, one in enumerate(dataset) if at in asked]
    if not chosen:
        return None
    rows = [_row(name, allowed, chosen) for name, allowed in _POLICIES.items()]
    head = ["route", "EM", "F1", "In-accuracy", "no retrieval", "one round", "many rounds"]
    remarks = [
        "Recorded replies; ideal: the cheapest route whose answer contains a gold answer "
        "(In-accuracy, arXiv 2501.12835). The last three columns are shares of the questions."
    ]
    return Table("Ceilings", head, rows, remarks)


def _row(name: str, allowed: Sequence[RouteName], chosen: Sequence[Recording]) -> list[str]:
    taken = [ideal_route(one.right(), allowed) for one in chosen]

    def mean(score: Callable[[Recording, RouteName], float]) -> str:
        found = bootstrap([score(one, route) for one, route in zip(chosen, taken, strict=True)])
        return f"{found.mean * 100:.1f}"

    def of_answer(score: Callable[[str, Sequence[str]], float]) -> str:
        return mean(lambda one, route: score(one.replies[route].answer, one.answers))

    shares = [f"{taken.count(route) / len(taken):.0%}" for route in ROUTES]
    return [
        name,
        of_answer(exact_match),
        of_answer(f1),
        mean(lambda one, route: float(one.right()[route])),
        *shares,
    ]
