"""How well passages were found and filtered, against the gold passages.

Source: BlendFilter (Wang et al. 2024), section 4.4 (precision, recall, S-Precision); Järvelin &
Kekäläinen 2002 (nDCG). Passages are told by their ids; ranked lists come best first.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

from ragweave.evaluation.metrics.coverage import contains


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
