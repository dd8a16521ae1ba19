"""The retriever that a run's methods search with, and the passages that they are given.

Gold passages are put among those found, or taken out, as the settings say (Liu et al. 2024,
section 4.1).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from ragweave.datasets import Dataset, Question
from ragweave.datasets.recorded import RECORDED
from ragweave.errors import UsageError
from ragweave.evaluation.metrics.retrieval import GoldPassages
from ragweave.evaluation.replay import replay_retriever
from ragweave.evaluation.runs.settings import Gold, RunSettings
from ragweave.state.passages import with_id
from ragweave.tools.knowledge import (
    KnowledgeBase,
    RetrieverSpec,
    ServedKnowledgeBase,
    needs_kb,
    open_knowledge_base,
    retriever_of,
)
from ragweave.tools.retrieval import Bm25Retriever, PassageRetriever
from ragweave.tools.retrieval.base import find_with, lexical_of
from ragweave.tools.retrieval.reranking import RerankRetriever
from ragweave.tools.warm_up import warm_up


def with_gold(
    passages: Sequence[Document], question: Question, gold: Gold, seed: int, k: int | None = None
) -> list[Document]:
    """Mark the gold passages among `passages`, and put one in or take them out as `gold` says.

    To put one in where none is among them, the first gold passage replaces a passage drawn at
    random, or is added where they are fewer than `k` (Liu et al. 2024, section 4.1). The place is
    the same for the same question and seed.

    Args:
        passages: What was found, best first.
        question: The question with its gold passages.
        gold: What becomes of gold passages.
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


class CurrentQuestion:
    """The question that is being answered, with an index of its own passages."""

    def __init__(self, question: Question) -> None:
        """Take the question; its passages are indexed at the first search."""
        self.question = question

    @cached_property
    def passages(self) -> Bm25Retriever:
        """BM25 over the question's own passages."""
        return Bm25Retriever.from_documents(self.question.passages)


_CURRENT: ContextVar[CurrentQuestion | None] = ContextVar("ragweave_question", default=None)


@contextmanager
def question_context(question: Question) -> Iterator[None]:
    """Make `question` the one that searches of this context, and of its tasks, are made for."""
    token = _CURRENT.set(CurrentQuestion(question))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def _current() -> CurrentQuestion:
    current = _CURRENT.get()
    if current is None:
        raise RuntimeError("no question is being answered in this context")
    return current


class OwnPassages(PassageRetriever):
    """Searches the passages that the data set gives with the question, by BM25.

    Those that share no term with the query come last, in file order, as they would from a
    retriever that scores every passage.
    """

    def _find(self, query: str, k: int) -> list[Document]:
        current = _current()
        found = current.passages.find(query, k)
        ids = {doc.id for doc in found}
        rest = [doc for doc in map(with_id, current.question.passages) if doc.id not in ids]
        return [*found, *rest][:k]


class GoldRetriever(PassageRetriever):
    """Marks gold passages in what another retriever finds, puts one in or takes them out."""

    base: BaseRetriever
    gold: Gold
    seed: int

    def lexical(self) -> PassageRetriever | None:
        """Return the same over what the retriever below searches by words alone."""
        words = lexical_of(self.base)
        return None if words is None else self.model_copy(update={"base": words})

    def warm_up(self) -> None:
        """Warm up the retriever below."""
        warm_up([self.base])

    def _find(self, query: str, k: int) -> list[Document]:
        asked = self._first_asked(k)
        while (left := self._left(find_with(self.base, query, asked), asked, k)) is None:
            asked *= 2
        return left

    def _first_asked(self, k: int) -> int:
        return k + (len(_current().question.gold) if self.gold == "without" else 0)

    def _left(self, found: list[Document], asked: int, k: int) -> list[Document] | None:
        """Return what is left of the passages found; None: more must be asked for to leave `k`."""
        left = with_gold(found, _current().question, self.gold, self.seed, k)
        enough = self.gold != "without" or len(left) == k or len(found) < asked
        return left if enough else None


def needs_file(settings: RunSettings, dataset: Dataset) -> bool:
    """Say whether a run's retriever reads the data set's file."""
    if settings.corpus == "file":
        return settings.passages != "given" and needs_kb(settings.retriever)
    return dataset.form is RECORDED and (settings.corpus == "none" or _replays(settings))


def _replays(settings: RunSettings) -> bool:
    """Say whether the answers are recorded ones: what they were found by is in the recording."""
    return settings.models.get("answer", "").startswith("recorded:")


def retriever_for(settings: RunSettings, dataset: Dataset | None) -> PassageRetriever | None:
    """Return the retriever of a run, or None where methods have nothing to search.

    Args:
        settings: The run's settings.
        dataset: Its data set; None where `needs_file` says that it is not read.

    Raises:
        UsageError: The data set's file has no passages, the knowledge base is missing or has
            changed since the run began, or the retriever needs one and there is none.
    """
    if settings.corpus == "kb":
        found = _of_knowledge_base(settings)
        if dataset is not None and dataset.form is RECORDED and _replays(settings):
            return replay_retriever(dataset, lexical_of(found))
        return found
    if settings.passages == "given":
        return None
    if dataset is not None and dataset.form is RECORDED and settings.corpus == "none":
        return replay_retriever(dataset)
    if settings.corpus != "given" and not needs_kb(settings.retriever):
        return retriever_of(settings.retriever, None, rerank=settings.rerank or None)
    if settings.corpus == "none":
        return None
    if settings.retriever not in ("auto", "bm25"):
        raise UsageError(
            f"--retriever {settings.retriever} needs a knowledge base: index the passages with "
            "`ragweave index` and name it with --kb"
        )
    found = OwnPassages() if settings.corpus == "given" else _of_file(settings, dataset)
    return RerankRetriever.over(found, settings.rerank) if settings.rerank else found


def with_gold_setting(
    retriever: PassageRetriever | None, settings: RunSettings
) -> PassageRetriever | None:
    """Return a retriever that treats gold passages as the settings say."""
    if retriever is None or settings.gold == "as_found":
        return retriever
    return GoldRetriever(base=retriever, gold=settings.gold, seed=settings.seed)


def _of_file(settings: RunSettings, dataset: Dataset | None) -> PassageRetriever:
    documents = [] if dataset is None else dataset.corpus()
    if not documents:
        raise UsageError(
            f"{settings.dataset}: has no passages to search; name a knowledge base with --kb"
        )
    return Bm25Retriever.from_documents(documents)


def _of_knowledge_base(settings: RunSettings) -> PassageRetriever:
    base = _unchanged(settings.kb, settings.kb_state)
    return retriever_of(settings.retriever, base, rerank=settings.rerank or None)


def second_retriever_for(settings: RunSettings) -> PassageRetriever | None:
    """Return the retriever that a run's methods look again with; None: the one of the first search.

    Raises:
        UsageError: There is none of that name, or its knowledge base is missing or has changed
            since the run began.
    """
    if not settings.second_retriever:
        return None
    spec = RetrieverSpec.read(settings.second_retriever, settings.kb or None)
    return spec.open(_unchanged(spec.kb, settings.second_state) if spec.kb else None)


def _unchanged(kb: str, state: str) -> KnowledgeBase | ServedKnowledgeBase:
    base = open_knowledge_base(kb)
    if base.state != state:
        raise UsageError(f"{kb}: has changed since the run began; start a new run")
    return base


def given_passages(question: Question, settings: RunSettings, k: int) -> list[Document] | None:
    """Return the passages that the graph's input carries; None where the method retrieves."""
    if settings.passages != "given":
        return None
    own = list(question.passages)
    if settings.gold == "without":
        return with_gold(own, question, settings.gold, settings.seed, k)
    return with_gold(own[:k], question, settings.gold, settings.seed, min(k, len(own)))
