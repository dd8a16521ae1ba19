"""How well passages were found and filtered, against the gold passages.

Source: BlendFilter (Wang et al. 2024), section 4.4 (precision, recall, S-Precision); Järvelin &
Kekäläinen 2002 (nDCG). Passages are told by their ids; ranked lists come best first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document

from ragweave.evaluation.datasets.question import Question
from ragweave.evaluation.metrics.coverage import contains
from ragweave.evaluation.metrics.gold import GoldPassages
from ragweave.evaluation.metrics.metric import Compute, Metric


def recall(found: Iterable[str], gold: Collection[str]) -> float:
    """Return the share of the gold passages that are among those found, 0 to 1."""
    return len(set(found) & set(gold)) / len(set(gold)) if gold else 0.0


def recall_at(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """Return the recall of the first `k` passages."""
    return recall(ranked[:k], gold)


def precision(found: Collection[str], gold: Collection[str]) -> float:
    """Return the share of the passages found that are gold, 0 to 1; none found: 0."""
    return len(set(found) & set(gold)) / len(set(found)) if found else 0.0


def s_precision(found: Iterable[str], gold: Collection[str]) -> float:
    """Return 1.0 where what was found is exactly the gold set, else 0.0."""
    return float(set(found) == set(gold))


def filter_recall(kept: Iterable[str], found: Iterable[str], gold: Collection[str]) -> float | None:
    """Return the share of the gold passages found that a filter kept; None: none was found."""
    there = set(found) & set(gold)
    return len(set(kept) & there) / len(there) if there else None


def ndcg_at(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """Return nDCG at `k` with a gain of 1 for each gold passage, 0 to 1."""
    gain = sum(1 / math.log2(at + 2) for at, key in enumerate(ranked[:k]) if key in set(gold))
    best = sum(1 / math.log2(at + 2) for at in range(min(len(set(gold)), k)))
    return gain / best if best else 0.0


def answer_recall(texts: Iterable[str], answers: Collection[str]) -> float:
    """Return 1.0 where an answer stands in any of the passages' texts, else 0.0.

    Source: Karpukhin et al. 2020 (DPR), top-k retrieval accuracy.
    """
    return float(any(contains(text, answers) for text in texts))


def _of_gold(measure: Callable[[GoldPassages, Mapping[str, Any]], float | None]) -> Compute:
    """Return a metric against the gold passages, where there are any and a search was made."""

    def compute(question: Question, state: Mapping[str, Any]) -> float | None:
        if not question.gold or not (state["passages"] or state["retrieved"]):
            return None
        return measure(GoldPassages(question.gold, _all_of(state["retrieved"])), state)

    return compute


def _recall_at(k: int) -> Compute:
    """Return the recall of the first `k` passages of the question's own search, if so many came."""

    def of(gold: GoldPassages, state: Mapping[str, Any]) -> float | None:
        ranked = gold.names(state["retrieved"].get("question", ()))
        return recall_at(ranked, gold.ids, k) if len(ranked) >= k else None

    return _of_gold(of)


def _ndcg_at_10(gold: GoldPassages, state: Mapping[str, Any]) -> float | None:
    ranked = gold.names(state["retrieved"].get("question", ()), once=True)
    return ndcg_at(ranked, gold.ids, 10) if len(ranked) >= 10 else None


def _all_of(found: Mapping[str, Sequence[Document]]) -> list[Document]:
    return [doc for docs in found.values() for doc in docs]


def _filter_precision(gold: GoldPassages, state: Mapping[str, Any]) -> float | None:
    return gold.precision(_all_of(state["kept"])) if state["kept"] else None


def _filter_recall(gold: GoldPassages, state: Mapping[str, Any]) -> float | None:
    if not state["kept"]:
        return None
    there = gold.names(_all_of(state["retrieved"]) or state["passages"])
    return filter_recall(gold.names(_all_of(state["kept"])), there, gold.ids)


def _answer_recall(question: Question, state: Mapping[str, Any]) -> float | None:
    if question.scoring != "short" or not question.answers:
        return None
    if not (state["passages"] or state["retrieved"]):
        return None
    return answer_recall([doc.page_content for doc in state["passages"]], question.answers)


_BLENDFILTER = "Wang et al. 2024, BlendFilter, section 4.4"

RECALL = Metric(
    name="recall",
    label="Recall",
    summary="Share of the gold passages that stood in the prompt.",
    compute=_of_gold(lambda gold, state: recall(gold.names(state["passages"]), gold.ids)),
    group="passages",
    primary=("retrieval",),
    source=_BLENDFILTER,
)
PRECISION = Metric(
    name="precision",
    label="Precision",
    summary="Share of the prompt's passages that are gold.",
    compute=_of_gold(lambda gold, state: gold.precision(state["passages"])),
    group="passages",
    source=_BLENDFILTER,
)
S_PRECISION = Metric(
    name="s_precision",
    label="S-Precision",
    summary="The prompt's passages are exactly the gold ones.",
    compute=_of_gold(lambda gold, state: s_precision(gold.names(state["passages"]), gold.ids)),
    group="passages",
    source=_BLENDFILTER,
)
FILTER_PRECISION = Metric(
    name="filter_precision",
    label="Filter precision",
    summary="Share of the passages that a filter kept which are gold.",
    compute=_of_gold(_filter_precision),
    group="passages",
)
FILTER_RECALL = Metric(
    name="filter_recall",
    label="Filter recall",
    summary="Share of the gold passages found that a filter kept.",
    compute=_of_gold(_filter_recall),
    group="passages",
)
RECALL_AT = tuple(
    Metric(
        name=f"recall@{k}",
        label=f"Recall@{k}",
        summary=f"Share of the gold passages among the first {k} found.",
        compute=_recall_at(k),
        group="passages",
    )
    for k in (1, 5, 10, 20)
)
NDCG_AT_10 = Metric(
    name="ndcg@10",
    label="nDCG@10",
    summary="Discounted gain of the gold passages among the first 10 found.",
    compute=_of_gold(_ndcg_at_10),
    group="passages",
    source="Järvelin & Kekäläinen 2002",
)
ANSWER_RECALL = Metric(
    name="answer_recall",
    label="Answer recall",
    summary="A gold answer stands in a passage of the prompt.",
    compute=_answer_recall,
    group="passages",
    source="Karpukhin et al. 2020, DPR",
)
