"""What a run will cost: calls by the methods' own formulas, tokens by a trial.

The trial answers a few questions with `extractive`, which costs nothing, by the run's own graphs
and passages. Its prompts are those that the run will send, but for what a model's own words add
(drafts, reasoning, chains); its replies are as short as replies get.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from ragweave.evaluation.metrics import Price
from ragweave.evaluation.metrics.cost import cost
from ragweave.evaluation.reproduction.runs import PlannedRun
from ragweave.evaluation.runs import RunSettings, System, claim_directory, evaluate, records_of
from ragweave.evaluation.runs.references import digests
from ragweave.graphs.build import AnyModel, method_named
from ragweave.state import Tokens

TRIED = 2
"""Questions that the trial answers."""

TOKENS_A_WORD = 4 / 3
"""`extractive` counts words; English has about three words to four tokens."""

HOW = (
    f"Calls: the methods' best and worst case. Tokens: {TRIED} questions a row answered by "
    "`extractive` with these prompts and passages, 4 tokens for 3 words; out: from its short "
    "replies to the worst case's calls, each at its limit of tokens."
)


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a run, or several, will cost; None: not known."""

    questions: int = 0
    """Questions times rows."""
    calls: tuple[int, int] = (0, 0)
    """Best and worst case."""
    input_tokens: tuple[int, int] = (0, 0)
    output_tokens: tuple[int, int] = (0, 0)
    dollars: tuple[float, float] | None = None

    def __add__(self, other: Estimate) -> Estimate:
        """Return the sum of both; dollars where both are known."""
        return Estimate(
            **{
                one.name: _sum(getattr(self, one.name), getattr(other, one.name))
                for one in fields(self)
            }
        )


def _sum(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return None
    return tuple(map(sum, zip(one, other, strict=True))) if isinstance(one, tuple) else one + other


def estimate(run: PlannedRun, made: RunSettings) -> Estimate:
    """Estimate a run."""
    prices = {role: Price(*pair) for role, pair in made.prices.items()}
    tried = asyncio.run(_trial(made))
    total = Estimate(dollars=(0.0, 0.0) if prices else None)
    for label, one in run.systems.items():
        total += _row(one, tried.get(label, {}), made.planned, prices)
    return total


def _row(one: System, tried: Mapping[str, Tokens], n: int, prices: Mapping[str, Price]) -> Estimate:
    low, high = calls_of(one)
    made = sum(tokens["calls"] for tokens in tried.values()) or 1
    more = max(1.0, high / made)
    limit = one.resolved().reply_tokens
    least = {
        role: _scaled(tokens, n, n * tokens["output_tokens"]) for role, tokens in tried.items()
    }
    most = {
        role: _scaled(tokens, n * more, n * more * tokens["calls"] * limit)
        for role, tokens in tried.items()
    }
    dollars = cost(least, prices), cost(most, prices)
    return Estimate(
        questions=n,
        calls=(n * low, n * high),
        input_tokens=(_total(least, "input_tokens"), _total(most, "input_tokens")),
        output_tokens=(_total(least, "output_tokens"), _total(most, "output_tokens")),
        dollars=None if dollars[0] is None or dollars[1] is None else (dollars[0], dollars[1]),
    )


def _scaled(tokens: Tokens, times: float, output: float) -> Tokens:
    return {
        "calls": round(tokens["calls"] * times),
        "input_tokens": round(tokens["input_tokens"] * times * TOKENS_A_WORD),
        "output_tokens": round(output),
    }


def _total(by_role: Mapping[str, Tokens], name: str) -> int:
    return sum(tokens[name] for tokens in by_role.values())  # type: ignore[literal-required]


async def _trial(made: RunSettings) -> dict[str, dict[str, Tokens]]:
    """Return the mean calls and tokens a question, by row and role."""
    models = dict.fromkeys(made.models, "extractive?similarity=lexical")
    tried = replace(
        made,
        models=models,
        parts=digests(models, made.systems),
        addresses={},
        limit=TRIED,
        sample=None,
        only=None,
        corpus="given" if made.corpus == "file" else made.corpus,
        retriever="auto" if made.corpus == "file" else made.retriever,
        rerank="",
        scorer="",
    )
    given = {role: AnyModel(similarity="lexical") for role in models}
    found: dict[str, dict[str, Tokens]] = {}
    with tempfile.TemporaryDirectory(prefix="ragweave-trial-") as folder:
        directory = claim_directory(Path(folder) / "run", tried)
        await evaluate(directory, models=given)
        for record in records_of([directory.results]):
            by_role = found.setdefault(record["system"], {})
            for role, tokens in (record.get("usage") or {}).get("by_role", {}).items():
                sums = by_role.setdefault(role, {"calls": 0, "input_tokens": 0, "output_tokens": 0})
                for name in ("calls", "input_tokens", "output_tokens"):
                    sums[name] += tokens[name] / tried.planned
    return found


def calls_of(one: System) -> tuple[int, int]:
    """Return a method's model calls a question, of all roles, in the best and the worst case."""
    method, chosen = method_named(one.method), one.resolved()
    values = {
        "k": chosen.k,
        "k'": chosen.k * 3,
        "p": chosen.samples,
        "claims": getattr(chosen, "max_claims", 0),
        "rewrites": getattr(chosen, "max_rewrites", 0),
        "gate_samples": getattr(chosen, "gate_drafts", 1),
        "second_look": int(getattr(chosen, "second_look", False)),
    }
    for name in ("hops", "rounds", "max_steps"):
        values[name] = getattr(chosen, name, 0)
    return _counted(method.best, values), _counted(method.worst, values)


_TERM = re.compile(r"(\d+)|([A-Za-z_]+'?)|([·+()])")


def _counted(text: str, values: Mapping[str, int]) -> int:
    """Count `4p, and 3 + claims small`; of `9 + 2p, 5 in sequence` what follows is no addition."""
    parts = [part for part in text.split(",") if "in sequence" not in part]
    return sum(_product(part.replace("and ", "").replace("small", ""), values) for part in parts)


def _product(text: str, values: Mapping[str, int]) -> int:
    """Evaluate a sum of products, such as `2·(1 + k)·p` or `5p`."""
    tokens = [found[0] for found in _TERM.finditer(text)]
    total, _ = _add(tokens, 0, values)
    return total


def _add(tokens: list[str], at: int, values: Mapping[str, int]) -> tuple[int, int]:
    total, at = _multiply(tokens, at, values)
    while at < len(tokens) and tokens[at] == "+":
        more, at = _multiply(tokens, at + 1, values)
        total += more
    return total, at


def _multiply(tokens: list[str], at: int, values: Mapping[str, int]) -> tuple[int, int]:
    product = 1
    while at < len(tokens) and tokens[at] not in ("+", ")"):
        one = tokens[at]
        if one == "(":
            value, at = _add(tokens, at + 1, values)
        else:
            value = 1 if one == "·" else int(one) if one.isdigit() else values[one]
        product, at = product * value, at + 1
    return product, at
