"""The record of a finished question, one line of `results.jsonl`, and the scores in it."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from numbers import Real
from types import MappingProxyType
from typing import Any

from langchain_core.documents import Document

from ragweave.datasets import Question
from ragweave.errors import UsageError
from ragweave.evaluation.metrics import (
    JUDGE_ROLE,
    Judgement,
    Metric,
    Prices,
    chosen_metrics,
    cost,
)
from ragweave.evaluation.metrics.retrieval import GoldPassages
from ragweave.evaluation.runs.calls import Ledger
from ragweave.evaluation.runs.settings import System
from ragweave.state.passages import told_apart
from ragweave.tools.models import status_of
from ragweave.tools.text.secrets import without_secrets

_LOGGER = logging.getLogger("ragweave.evaluation")


def scores(
    question: Question, state: Mapping[str, Any], metrics: Sequence[Metric] | None = None
) -> dict[str, float]:
    """Return every score that applies, 0 to 1, by the metric's name.

    NaN and infinity are no score: the question is left out of that metric, with a warning.

    Args:
        question: The question with its gold.
        state: The graph's final state.
        metrics: What to compute; None: all of ours.

    Raises:
        UsageError: A metric failed, or returned something that is not a number.
    """
    found: dict[str, float] = {}
    for metric in chosen_metrics(()) if metrics is None else metrics:
        try:
            value = metric.compute(question, state)
        except Exception as error:
            raise UsageError(
                f"the metric {metric.name!r} failed on question {question.id!r}: "
                f"{type(error).__name__}: {' '.join(str(error).split())}"
            ) from error
        if value is None:
            continue
        if not isinstance(value, Real):
            raise UsageError(
                f"the metric {metric.name!r} must return a number or None, not {value!r}"
            )
        if math.isfinite(value):
            found[metric.name] = float(value)
        elif metric.name not in _WARNED:
            _WARNED.add(metric.name)
            _LOGGER.warning(
                "the metric %r gave %r for question %r, which is no score: such questions are left "
                "out of it (None says that a metric does not apply)",
                *(metric.name, float(value), question.id),
            )
    return found


_WARNED: set[str] = set()
"""Metrics of which it was said that they gave no number: once is enough."""


TRACED = (
    "queries",
    "heuristic_answer",
    "known",
    "claims",
    "verdicts",
    "topic",
    "augmented",
    "hops",
)
"""Keys of the state that show what a method did; a record leaves out the empty ones."""

Record = dict[str, Any]


def thread_name(index: int, label: str) -> str:
    """Return the name of the thread under which the state of a question and system is kept."""
    return f"{index}/{label}"


def answered(
    index: int,
    question: Question,
    system: System,
    state: Mapping[str, Any],
    *,
    search_depth: int,
    spent: Ledger,
    seconds: float,
    prices: Prices,
    metrics: Sequence[Metric] | None = None,
    judgements: Mapping[str, Judgement] = MappingProxyType({}),
) -> Record:
    """Return the record of an answered question.

    Args:
        index: The question's index in the data set, from 0.
        question: The question with its gold.
        system: What answered it.
        state: The graph's final state.
        search_depth: How many passages the question's own search asked for.
        spent: Calls and tokens paid for, or answered by the cache.
        seconds: Wall time.
        prices: Dollars a million tokens, by role.
        metrics: What is computed; None: all of ours.
        judgements: What a judge said, by the metric's name.
    """
    usage = state["usage"]
    retrieved = told_apart(state["retrieved"])
    found = [doc for docs in retrieved.values() for doc in docs]
    gold = GoldPassages(question.gold, found)
    told = {"judgements": judgements, "search_depth": search_depth}
    return {
        **_head(index, question, system),
        "answer": state["answer"],
        "status": state["status"],
        "truncated": state["truncated"],
        "error": None,
        "scores": scores(question, {**state, **told}, metrics),
        **({"judgements": _plain(judgements)} if judgements else {}),
        "usage": usage,
        **spent_of(spent, prices),
        "seconds": round(seconds, 4),
        "passages": [_passage(doc, gold) for doc in state["passages"]],
        "gold_found": gold.counts([*found, *state["passages"]]),
        "candidates": state["candidates"],
        "trace": {key: state[key] for key in TRACED if state.get(key)},
        "retrieved": {key: [doc.id for doc in docs] for key, docs in retrieved.items()},
        "kept": {key: [doc.id for doc in docs] for key, docs in state["kept"].items()},
        "notes": state["notes"],
    }


def failed(
    index: int,
    question: Question,
    system: System,
    error: Exception,
    *,
    spent: Ledger,
    seconds: float,
    prices: Prices,
) -> Record:
    """Return the record of a question that ended in an error."""
    text = without_secrets(" ".join(str(error).split())) or type(error).__name__
    return {
        **_head(index, question, system),
        "error": {"kind": type(error).__name__, "status": status_of(error), "text": text[:500]},
        "scores": {},
        **spent_of(spent, prices),
        "seconds": round(seconds, 4),
    }


def _plain(judgements: Mapping[str, Judgement]) -> dict[str, Any]:
    return {name: said.plain() for name, said in judgements.items()}


def spent_of(spent: Ledger, prices: Prices) -> dict[str, Any]:
    """Return what a question cost, the judge of its answer apart from the method."""
    method, judge = spent.without(JUDGE_ROLE), spent.only(JUDGE_ROLE)
    found: dict[str, Any] = {"spent": method.plain(), "cost": cost(method.paid, prices)}
    if judge.paid or judge.cached:
        found["judge"] = {"spent": judge.plain(), "cost": cost(judge.paid, prices)}
    return found


def _head(index: int, question: Question, system: System) -> Record:
    return {
        "at": index,
        "id": question.id,
        "system": system.label,
        "question": question.question,
        "gold": list(question.answers) or [list(one) for one in question.answer_sets],
        "gold_passages": [doc.id for doc in question.gold],
        "scoring": question.scoring,
    }


def _passage(doc: Document, gold: GoldPassages) -> dict[str, Any]:
    return {
        "id": doc.id,
        "title": str(doc.metadata.get("title") or ""),
        "text": doc.page_content,
        "rank": doc.metadata.get("rank"),
        "query": doc.metadata.get("query"),
        "gold": gold.match(doc) is not None,
    }
