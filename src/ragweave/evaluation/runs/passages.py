"""The passages that a question is handed, and the retriever that methods search with."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path

from langchain_core.documents import Document

from ragweave.errors import UsageError
from ragweave.evaluation.datasets import Dataset, Question
from ragweave.evaluation.runs.settings import Gold, RunSettings
from ragweave.tools.knowledge import KnowledgeBase, retriever_of
from ragweave.tools.knowledge.retrievers import needs_kb
from ragweave.tools.retrieval import Bm25Retriever, PassageRetriever
from ragweave.tools.retrieval.rerank import RerankRetriever


def retriever_for(settings: RunSettings, dataset: Dataset) -> PassageRetriever | None:
    """Return the retriever of a run, or None where methods get their passages otherwise.

    Raises:
        UsageError: The data set's file holds no passages, the knowledge base is missing or has
            changed since the run began, or the retriever needs what it has not.
    """
    if settings.corpus == "kb":
        return _of_knowledge_base(settings)
    if settings.corpus != "given" and not needs_kb(settings.retriever):
        return retriever_of(settings.retriever, None, reranker=settings.rerank or None)
    if settings.corpus != "file":
        return None
    if settings.retriever not in ("auto", "bm25"):
        raise UsageError(
            f"--retriever {settings.retriever} needs a knowledge base: index the passages with "
            "`ragweave index` and name it with --kb"
        )
    documents = dataset.corpus()
    if not documents:
        raise UsageError(
            f"{settings.dataset}: holds no passages to search; name a knowledge base with --kb"
        )
    found = Bm25Retriever.from_documents(documents)
    return RerankRetriever.over(found, settings.rerank) if settings.rerank else found


def _of_knowledge_base(settings: RunSettings) -> PassageRetriever:
    base = KnowledgeBase.open(Path(settings.kb))
    generation = base.manifest.generation
    if generation != settings.kb_generation:
        raise UsageError(
            f"{settings.kb}: has changed since the run began (generation "
            f"{settings.kb_generation}, now {generation}); begin a new run"
        )
    reranker = settings.rerank or None
    return base.as_retriever(mode=settings.retriever, reranker=reranker)


async def handed(
    question: Question, settings: RunSettings, retriever: PassageRetriever | None, k: int
) -> list[Document] | None:
    """Return the passages that an input brings, or None where the method retrieves by itself."""
    if settings.corpus == "given":
        return with_gold(list(question.passages)[:k], question, settings.gold, settings.seed)
    if settings.gold == "as_found" or retriever is None:
        return None
    found = await asyncio.to_thread(retriever.find, question.question, k)
    return with_gold(found, question, settings.gold, settings.seed)


def with_gold(
    passages: Sequence[Document], question: Question, gold: Gold, seed: int
) -> list[Document]:
    """Mark the gold passages among `passages`, and put one in or take them out as asked.

    Where none is among them, the first gold passage takes the place of a passage drawn at random
    (Liu et al. 2024, section 4), the same one for the same question and seed.
    """
    keys = {doc.id for doc in question.gold}
    if gold == "as_found":
        return list(passages)
    marked = [
        doc.model_copy(update={"metadata": {**doc.metadata, "gold": doc.id in keys}})
        for doc in passages
    ]
    if gold == "without":
        return [doc for doc in marked if not doc.metadata["gold"]]
    if gold == "with" and question.gold and not any(doc.metadata["gold"] for doc in marked):
        place = random.Random(f"{seed}:{question.id}").randrange(max(len(marked), 1))
        marked[place : place + 1] = [question.gold[0]]
    return marked
