"""`ragweave study gate`: which threshold to set, from a run of a gate's two ends."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ragweave.evaluation.report import Experiment, Table
    from ragweave.evaluation.runs.directory import RunDirectory

SHARES = (0.2, 0.4, 0.6, 0.8, 1.0)
"""Shares of the questions that a threshold may retrieve for."""


class Measured(NamedTuple):
    """A question as a gate saw it."""

    uncertainty: float
    """Infinite: it is retrieved for whatever the threshold."""
    right: tuple[float, float]
    """The score without retrieval and with it."""


def gate_tables(
    directory: RunDirectory, experiments: Mapping[str, Experiment], score: str
) -> list[Table]:
    """Return a table for each gate: the best threshold within a share of questions retrieved for.

    Args:
        directory: The finished run of the study.
        experiments: What was read of it.
        score: The score that is to be high; "": the primary metric.
    """
    from ragweave.evaluation.metrics import METRICS
    from ragweave.evaluation.report import Table
    from ragweave.evaluation.runs.directory import records_of

    shown = score or next(iter(experiments.values())).primary
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for record in records_of([directory.results]):
        gate, _, end = record["system"].rpartition(": ")
        if not record["error"] and shown in record["scores"]:
            found.setdefault(gate, {}).setdefault(record["at"], {})[end] = record
    head = ["retrieve for at most", "threshold", f"{METRICS.named(shown).label} (%)", "retrieved"]
    remark = "chosen and measured on the same questions"
    return [
        Table(
            f"thresholds of {gate}", head, _rows(list(_measured(pairs.values(), shown))), [remark]
        )
        for gate, pairs in found.items()
    ]


def _measured(pairs: Any, score: str) -> Iterator[Measured]:
    for pair in pairs:
        if len(pair) < 2:
            continue  # one of the two ends failed
        noted = [one["detail"] for one in pair["always"]["notes"] if one["event"] == "gated"]
        sure = noted and noted[0]["uncertainty"] is not None and not noted[0].get("said_unknown")
        yield Measured(
            float(noted[0]["uncertainty"]) if sure else math.inf,
            (pair["never"]["scores"][score], pair["always"]["scores"][score]),
        )


def _rows(measured: list[Measured]) -> list[list[str]]:
    from ragweave.training.encoders.router import gate_threshold

    rows = []
    uncertainties = [one.uncertainty for one in measured]
    for share in SHARES if measured else ():
        cut = gate_threshold(uncertainties, [one.right for one in measured], share)
        shown = _as_given(cut, uncertainties)
        taken = [one > float(shown) for one in uncertainties]
        reached = [one.right[which] for one, which in zip(measured, taken, strict=True)]
        rows.append(
            [
                f"{share:.0%}",
                shown,
                f"{100 * sum(reached) / len(reached):.1f}",
                f"{sum(taken) / len(taken):.0%}",
            ]
        )
    return rows


def _as_given(cut: float, uncertainties: Sequence[float]) -> str:
    """Return a threshold in the fewest digits, three at least, that divide the questions alike.

    The cut is itself a measured value, and a gate retrieves above it: rounded down it would retrieve
    for that question too.
    """
    following = min((one for one in uncertainties if one > cut), default=math.inf)
    for digits in range(3, 17):
        nearest = f"{cut:.{digits}f}"
        above = Decimal(cut).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_CEILING)
        for shown in (nearest, f"{above:f}"):
            if cut <= float(shown) < following:
                return shown
    return repr(cut)
