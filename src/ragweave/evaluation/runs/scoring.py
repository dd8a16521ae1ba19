"""Scores of one answered question, by what its data set asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document

from ragweave.evaluation import metrics
from ragweave.evaluation.datasets import Question

PRIMARY_METRIC = {
    "short": "em",
    "accuracy": "accuracy",
    "coverage": "coverage_em",
    "long": "rouge_l",
    "retrieval": "recall",
}
"""The score that a run shows while it goes, by the kind of scoring."""

_CUTS = (1, 5, 10, 20)


def scores(question: Question, state: Mapping[str, Any]) -> dict[str, float]:
    """Return every score that applies, 0 to 1, by name.

    Args:
        question: The question with its gold.
        state: The graph's final state.
    """
    found = dict(_answer_scores(question, state))
    found["unknown"] = metrics.unknown(state["status"])
    found |= _passage_scores(question, state)
    return found


def _answer_scores(question: Question, state: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the answer's scores; where the method says Unknown, the answer is empty."""
    said = state["answer"] if state["status"] == "answered" else ""
    golds = question.answers
    if question.scoring == "short":
        yield "em", metrics.exact_match(said, golds)
        yield "f1", metrics.f1(said, golds)
        if golds:
            yield "contains", metrics.contains(said, golds)
        yield "nm", _not_majority(said, state, lambda one: metrics.exact_match(one, golds))
    elif question.scoring == "accuracy":
        yield "accuracy", metrics.accuracy(said, golds) if golds else float(not said)
        if golds:
            yield "nm", _not_majority(said, state, lambda one: metrics.accuracy(one, golds))
    elif question.scoring == "coverage":
        yield "coverage_em", metrics.coverage_em(said, question.answer_sets)
        yield "hit_at_1", metrics.hit_at_1(said, question.answer_sets)
    if question.scoring in ("long", "coverage") and golds:
        yield "rouge_1", metrics.rouge_n(said, golds, 1)
        yield "rouge_2", metrics.rouge_n(said, golds, 2)
        yield "rouge_l", metrics.rouge_l(said, golds)
        yield "unigram_f1", metrics.unigram_f1(said, golds)


def _not_majority(said: str, state: Mapping[str, Any], right: metrics.Right) -> float:
    pool = [one["answer"] for one in state["candidates"].values()]
    return metrics.not_majority(said, pool, right)


def _passage_scores(question: Question, state: Mapping[str, Any]) -> dict[str, float]:
    gold = {doc.id or "" for doc in question.gold}
    final: Sequence[Document] = state["passages"]
    found: dict[str, float] = {}
    if not final and not state["retrieved"]:
        return found
    if gold:
        found |= _gold_scores(gold, final, state)
    if question.scoring == "short" and question.answers:
        texts = [doc.page_content for doc in final]
        found["answer_recall"] = metrics.answer_recall(texts, question.answers)
    if question.answers:
        context = "\n".join(doc.page_content for doc in final)
        found["output_precision"] = metrics.output_precision(context, question.answers)
    return found


def _gold_scores(
    gold: set[str], final: Sequence[Document], state: Mapping[str, Any]
) -> dict[str, float]:
    retrieved: Mapping[str, Sequence[Document]] = state["retrieved"]
    kept: Mapping[str, Sequence[Document]] = state["kept"]
    ids = _ids(final)
    found = {
        "recall": metrics.recall(ids, gold),
        "precision": metrics.precision(ids, gold),
        "s_precision": metrics.s_precision(ids, gold),
    }
    ranked = _ids(retrieved.get("question", ()))
    for k in _CUTS:
        if len(ranked) >= k:
            found[f"recall@{k}"] = metrics.recall_at(ranked, gold, k)
    if len(ranked) >= 10:
        found["ndcg@10"] = metrics.ndcg_at(ranked, gold, 10)
    if kept:
        left = _ids(doc for docs in kept.values() for doc in docs)
        there = _ids(doc for docs in retrieved.values() for doc in docs) or ids
        found["filter_precision"] = metrics.precision(left, gold)
        share = metrics.filter_recall(left, there, gold)
        if share is not None:
            found["filter_recall"] = share
    return found


def _ids(docs: Any) -> list[str]:
    return [doc.id or "" for doc in docs]
