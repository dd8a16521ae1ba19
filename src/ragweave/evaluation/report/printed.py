"""What the papers print, to stand beside ours.

Sources: Wang et al. 2024 (BlendFilter), tables 1 to 5; Tan et al. 2024 (SlimPLM), tables 1 and 2;
Wang et al. 2023 (FILCO), tables 4 and 5; Liu et al. 2024 (Post-fusion as Fallback), tables 1
and 2. Every value is in percent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from ragweave.evaluation.runs.settings import RunSettings
from ragweave.evaluation.runs.systems import System

_SHARED = ("k", "samples", "answer_type", "order", "prompt_tokens", "reply_tokens", "timeout")


@dataclass(frozen=True, slots=True)
class Printed:
    """One value of a paper's table."""

    paper: str
    table: str
    dataset: str
    method: str
    row: str
    """What the table calls the method."""
    model: str
    corpus: str
    k: int | None
    n: int | None
    """Questions that the paper asked, where it says so."""
    metric: str
    """Our name of the metric."""
    value: float
    """In percent."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the method that make it this row, where they are not the defaults."""


def printed_for(settings: RunSettings, system: System) -> list[Printed]:
    """Return what is printed for this data set and method, under options that match in name."""
    return [
        one
        for one in all_printed()
        if one.dataset == settings.dataset_name
        and one.method == system.method
        and _own(system) == dict(one.options)
        and (not one.table.endswith("with gold") or settings.gold == "with")
        and (not one.table.endswith("without gold") or settings.gold != "with")
    ]


def differences(one: Printed, settings: RunSettings, system: System, n: int) -> list[str]:
    """Say in what our setting differs from the printed one: model, corpus, sample, k."""
    ours = settings.models["answer"]
    found = []
    if _plain(one.model) not in _plain(ours):
        found.append(f"model {one.model}, here {ours}")
    chosen = system.resolved()
    searches = getattr(chosen, "retrieve", True)
    here = {"file": "the data set's own passages", "given": "the passages given", "none": "none"}
    if searches:
        found.append(f"corpus {one.corpus}, here {here.get(settings.corpus, settings.kb)}")
    if one.n is None or one.n != n:
        found.append(f"sample {one.n or 'not stated'}, here {n}")
    if searches and one.k not in (None, chosen.k):
        found.append(f"k {one.k}, here {chosen.k}")
    return found


@cache
def all_printed() -> tuple[Printed, ...]:
    """Return every printed value that is kept."""
    text = (resources.files(__package__) / "printed.txt").read_text("utf-8")
    return tuple(_read(text))


def _read(text: str) -> Iterator[Printed]:
    """Read the tables: `@` lines set what the rows below share, `|` parts the cells of a row."""
    shared: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("@"):
            key, _, value = line[1:].partition(" ")
            shared[key] = value.strip()
        elif line.strip() and not line.startswith("#"):
            yield from _row(line, shared)


def _row(line: str, shared: Mapping[str, str]) -> Iterator[Printed]:
    name, row, *cells = [cell.strip() for cell in line.split("|")]
    method, _, inside = name.rstrip("]").partition("[")
    options = dict(part.split("=") for part in inside.split(",") if part)
    columns = [column.split(":") for column in shared["columns"].split()]
    values = " ".join(cells).split()
    for (dataset, metric), value in zip(columns, values, strict=True):
        if value != "-":
            yield Printed(
                paper=shared["paper"],
                table=shared["table"],
                dataset=dataset,
                method=method,
                row=row,
                model=shared["model"],
                corpus=shared["corpus"],
                k=int(shared["k"]) if shared["k"] != "-" else None,
                n=_sample(shared["n"], dataset),
                metric=metric,
                value=float(value),
                options={key: _option(text) for key, text in options.items()},
            )


def _sample(text: str, dataset: str) -> int | None:
    """Read `400`, `nq:3459 squad:3448` or `-`."""
    if text.isdigit():
        return int(text)
    sizes = dict(part.split(":") for part in text.split() if ":" in part)
    return int(sizes[dataset]) if dataset in sizes else None


def _option(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    return tuple(text.split("+")) if "+" in text else text


def _own(system: System) -> dict[str, Any]:
    """Return the system's own options that are set off their defaults."""
    chosen = system.resolved()
    plain = type(chosen)()
    return {
        name: getattr(chosen, name)
        for name in system.options
        if name not in _SHARED and getattr(chosen, name) != getattr(plain, name)
    }


def _plain(text: str) -> str:
    return "".join(sign for sign in text.lower() if sign.isalnum())
