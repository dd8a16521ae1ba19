"""Gold passages put among what was found, or taken out (Liu et al. 2024, section 4.1)."""

from __future__ import annotations

import random
from collections.abc import Sequence

from langchain_core.documents import Document

from ragweave.evaluation.datasets import Question
from ragweave.evaluation.metrics.gold import GoldPassages
from ragweave.evaluation.runs.settings import Gold


def with_gold(
    passages: Sequence[Document], question: Question, gold: Gold, seed: int, k: int | None = None
) -> list[Document]:
    """Mark the gold passages among `passages`, and put one in or take them out as asked.

    Where none is among them, the first gold passage takes the place of a passage drawn at random,
    or stands beside them where they are fewer than `k` (Liu et al. 2024, section 4.1); the same
    place for the same question and seed.

    Args:
        passages: What was found, best first.
        question: The question with its gold passages.
        gold: What is asked.
        seed: The run's seed.
        k: How many are wanted; None: as many as were found.
    """
    wanted = len(passages) if k is None else k
    if gold == "as_found":
        return list(passages[:wanted])
    marked = GoldPassages(question.gold).mark(passages)
    if gold == "without":
        return [doc for doc in marked if not doc.metadata["gold"]][:wanted]
    marked = marked[:wanted]
    if gold == "with" and question.gold and not any(doc.metadata["gold"] for doc in marked):
        drawn = random.Random(f"{seed}:{question.id}")
        if len(marked) < wanted:
            marked.insert(drawn.randint(0, len(marked)), question.gold[0])
        else:
            marked[drawn.randrange(len(marked))] = question.gold[0]
    return marked
