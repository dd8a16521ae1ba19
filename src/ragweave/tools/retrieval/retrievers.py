"""Retrievers over passages in memory, and rank fusion of any retrievers."""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple, Self, TypeVar

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from numpy.typing import NDArray
from pydantic import Field

from ragweave.state.passages import as_document, indexed_text, with_id
from ragweave.tools.embeddings.named import unit
from ragweave.tools.retrieval.analyzer import analyzer_for
from ragweave.tools.retrieval.base import PassageRetriever, check_k, find_with, listed, with_score
from ragweave.tools.retrieval.bm25_index import Bm25Index, top_k

DEPTH = 100
"""Passages of each ranking that are fused, unless more are wanted."""
WORDS = 0.4
"""Weight of one standard deviation of BM25 beside one of the cosine."""
BEST = 4.5
"""What the best BM25 score weighs at least among many passages, in standard deviations of the cosine."""
Scores = NDArray[np.float32]
SearchFunction = Callable[[str, int], list[Document]]
"""Query and k to documents, best first, each with `metadata["score"]`."""
Item = TypeVar("Item", bound=Hashable)


def reciprocal_rank_fusion(rankings: Sequence[Sequence[Item]], *, k: int = 60) -> list[tuple[Item, float]]:
    """Merge rankings: the score of an item is the sum of 1 / (k + rank), ranks from 1.

    Source: Cormack, Clarke and Büttcher 2009, "Reciprocal rank fusion outperforms Condorcet and
    individual rank learning methods" (SIGIR), k = 60.

    Args:
        rankings: Lists of items, best first; a repeat within one list counts at its first place.
        k: The paper's constant, at least 0; the larger, the less the first ranks weigh.

    Returns:
        Items with their scores, best first. Equal scores: the better single rank first, then the
        earlier ranking.
    """
    ranks: dict[Item, list[tuple[int, int]]] = {}
    for which, ranking in enumerate(rankings):
        for rank, item in enumerate(dict.fromkeys(ranking), 1):
            ranks.setdefault(item, []).append((rank, which))
    # Sorted, so that the sum does not depend on the order of the rankings.
    scores = {item: sum(1 / (k + rank) for rank, _ in sorted(places)) for item, places in ranks.items()}
    return sorted(scores.items(), key=lambda pair: (-pair[1], min(ranks[pair[0]])))


def fused(rankings: Sequence[Sequence[Document]], k: int, *, rrf_k: int = 60) -> list[Document]:
    """Merge ranked documents by reciprocal rank; documents with the same text count as one."""
    first: dict[str, Document] = {}
    for doc in (doc for ranking in rankings for doc in ranking):
        first.setdefault(doc.page_content, doc)
    texts = [[doc.page_content for doc in ranking] for ranking in rankings]
    merged = reciprocal_rank_fusion(texts, k=rrf_k)
    return [with_score(first[text], score) for text, score in merged[:k]]


class Spread(NamedTuple):
    """How the scores of a query are spread over all passages."""

    passages: int
    best: float
    """The best BM25 score."""
    words: float
    """Standard deviation of the BM25 scores."""
    mean: float
    """Mean of the cosines."""
    near: float
    """Standard deviation of the cosines."""

    @classmethod
    def of(cls, words: Scores, near: Scores) -> Self:
        """Return the spread of the scores of all passages."""
        if not len(near):
            return cls(0, 0.0, 0.0, 0.0, 0.0)
        return cls(len(near), float(words.max()), float(words.std()), float(near.mean()), float(near.std()))

    @classmethod
    def estimated(cls, words: Scores, passages: int, near: Scores) -> Self:
        """Return an estimate, where an engine gives only its best passages.

        Args:
            words: The best 100 BM25 scores, or all if fewer are above 0. The other scores weigh three times as much as
                the best 100, in the median of 2,500 questions over 23,000 passages.
            passages: How many passages there are.
            near: The cosines of a sample of all passages.
        """
        total = float((words**2).sum()) * (4 if len(words) >= DEPTH else 1)
        of_sample = cls.of(near, near)
        return of_sample._replace(
            passages=passages, best=float(words.max(initial=0)), words=math.sqrt(total / max(passages, 1))
        )


def fused_scores(words: Scores, near: Scores, spread: Spread) -> Scores:
    """Return the fused score of each passage, above 0.

    It joins two parts by the norm (w^1.5 + c^1.5)^(1/1.5): w is .4 · BM25, and c the softplus of the cosine's distance
    above its mean, both in standard deviations over all passages. So models whose cosines differ by a factor and a
    constant give the same scores: those of MiniLM range from -.1 to .6, those of E5 from .7 to .9. The rarer a term, the more
    deviations away is a passage with it, and the norm lets the greater part decide: words find a code or a line of a
    log, vectors a paraphrase. Of n numbers none deviates by more than √(n - 1): among few passages, the best BM25
    score weighs half of that. Weights and exponent were chosen on the sets of docs/graph-retrieval.md.
    """
    standard = (near - np.float32(spread.mean)) / np.float32(max(spread.near, 1e-6))
    # Softplus and powers by functions that numpy runs on several numbers at once.
    cosine = np.maximum(np.maximum(standard, 0) + np.log(1 + np.exp(-np.abs(standard))), np.float32(1e-6))
    least = min(BEST, math.sqrt(max(spread.passages - 1, 0)) / 2) / max(spread.best, 1e-9)
    bm25 = np.float32(max(WORDS / max(spread.words, 1e-9), least)) * words
    joined: Scores = np.exp(np.log(bm25 * np.sqrt(bm25) + cosine * np.sqrt(cosine)) / np.float32(1.5))
    return joined


class SearchRetriever(PassageRetriever):
    """A retriever by a function from query and k to scored documents."""

    search: SearchFunction

    def _find(self, query: str, k: int) -> list[Document]:
        return self.search(query, k)


class Bm25Retriever(SearchRetriever):
    """Lexical retrieval; passages that share no term with the query are never returned.

    Examples:
        >>> retriever = Bm25Retriever.from_documents([Document("Paris is in France.")], k=1)
        >>> [doc.page_content for doc in retriever.invoke("Where is Paris?")]
        ['Paris is in France.']
    """

    @classmethod
    def from_documents(cls, documents: Document | Iterable[Document], *, k: int = 5, language: str = "english") -> Self:
        """Index `documents` in memory, each as a passage; `language` is a Snowball language.

        Documents without an id get a content id.
        """
        passages = [with_id(as_document(doc)) for doc in listed(documents)]
        analyzer = analyzer_for(language)
        index = Bm25Index.of(analyzer.index_terms(indexed_text(doc.page_content, doc.metadata)) for doc in passages)

        def search(query: str, k: int) -> list[Document]:
            scores = index.score(analyzer.terms(query))
            return [with_score(passages[at], float(scores[at])) for at in top_k(scores, k)]

        return cls(search=search, k=check_k(k))


class DenseRetriever(SearchRetriever):
    """Retrieval by cosine similarity of embeddings; the score is the similarity."""

    @classmethod
    def from_documents(cls, documents: Document | Iterable[Document], embeddings: Embeddings, *, k: int = 5) -> Self:
        """Embed `documents` in memory, each as a passage, and compare exactly.

        Documents without an id get a content id.
        """
        passages = [with_id(as_document(doc)) for doc in listed(documents)]
        vectors = unit(embeddings.embed_documents([indexed_text(doc.page_content, doc.metadata) for doc in passages]))

        def search(query: str, k: int) -> list[Document]:
            if not passages:
                return []
            similarity = vectors @ unit([embeddings.embed_query(query)])[0]
            order = (-similarity).argsort(kind="stable")[:k]
            return [with_score(passages[at], float(similarity[at])) for at in order]

        return cls(search=search, k=check_k(k), embeddings=embeddings)


class RankFusionRetriever(PassageRetriever):
    """Fuses the rankings of several LangChain retrievers by reciprocal rank."""

    retrievers: list[BaseRetriever] = Field(min_length=1)
    depth: int = Field(default=DEPTH, ge=1)
    """Passages asked of each, at least `k`."""
    rrf_k: int = Field(default=60, ge=0)
    """The constant of reciprocal rank fusion."""

    def _find(self, query: str, k: int) -> list[Document]:
        depth = max(self.depth, k)
        return fused([find_with(retriever, query, depth) for retriever in self.retrievers], k, rrf_k=self.rrf_k)
