"""Dense retrieval (passages whose embeddings are nearest to the query's) and hybrid retrieval.

Hybrid retrieval fuses several rankings by reciprocal rank fusion.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from numpy.typing import NDArray
from pydantic import Field

from ragweave.errors import UsageError
from ragweave.state.passages import as_document, with_id
from ragweave.tools.listed import listed
from ragweave.tools.retrieval.base import (
    PassageRetriever,
    afind_with,
    awaits,
    check_k,
    find_with,
    lexical_of,
)
from ragweave.tools.retrieval.bm25 import Search, full_text, with_score
from ragweave.tools.warm_up import warm_up


class DenseRetriever(PassageRetriever):
    """Retrieval by cosine similarity of embeddings; the score is the similarity."""

    search: Search
    load: Callable[[], object] | None = None
    """Loads a model of this machine, where there is one."""

    @classmethod
    def from_documents(
        cls, documents: Document | Iterable[Document], embeddings: Embeddings, *, k: int = 5
    ) -> DenseRetriever:
        """Embed `documents` in memory, each as one passage, and compare exactly.

        Args:
            documents: Passages, or one alone; those without an id get a content id.
            embeddings: Any LangChain embeddings.
            k: Passages a query.

        Raises:
            UsageError: `k` is below 1.
        """
        passages = [with_id(as_document(doc)) for doc in listed(documents)]
        vectors = _unit(embeddings.embed_documents([full_text(doc) for doc in passages]))

        def search(query: str, k: int) -> list[Document]:
            if not passages:
                return []
            similarity = vectors @ _unit([embeddings.embed_query(query)])[0]
            order = np.lexsort((np.arange(len(passages)), -similarity))[:k]
            return [with_score(passages[number], float(similarity[number])) for number in order]

        return cls(search=search, k=check_k(k))

    def warm_up(self) -> None:
        """Load the embedding model, where it runs on this machine."""
        if self.load is not None:
            self.load()

    def _find(self, query: str, k: int) -> list[Document]:
        return self.search(query, k)


def _unit(vectors: list[list[float]]) -> NDArray[np.float32]:
    rows = np.asarray(vectors, dtype=np.float32)
    if not rows.size:
        return rows
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths == 0, 1, lengths)).astype(np.float32)


Item = TypeVar("Item", bound=Hashable)


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[Item]], *, k: int = 60
) -> list[tuple[Item, float]]:
    """Merge rankings: the score of an item is the sum of 1 / (k + rank), ranks from 1.

    Source: Cormack, Clarke and Büttcher 2009, "Reciprocal rank fusion outperforms Condorcet and
    individual rank learning methods" (SIGIR), k = 60.

    Args:
        rankings: Lists of items, best first; a repeat within one list counts at its first place.
        k: The paper's constant; the larger, the less the first ranks weigh.

    Returns:
        Items with their scores, best first. Equal scores: the better single rank first, then the
        earlier ranking.

    Raises:
        UsageError: `k` is negative.
    """
    if k < 0:
        raise UsageError(f"the constant of reciprocal rank fusion must be 0 or more, not {k}")
    ranks: dict[Item, dict[int, int]] = {}
    for which, ranking in enumerate(rankings):
        for rank, item in enumerate(dict.fromkeys(ranking), 1):
            ranks.setdefault(item, {})[which] = rank
    # Sorted before adding, so that the sum does not depend on the order of the rankings.
    scores = {
        item: sum(1 / (k + rank) for rank in sorted(held.values())) for item, held in ranks.items()
    }
    first = {
        item: min((rank, which) for which, rank in held.items()) for item, held in ranks.items()
    }
    return sorted(scores.items(), key=lambda pair: (-pair[1], first[pair[0]]))


class HybridRetriever(PassageRetriever):
    """Fuses the rankings of several retrievers (BM25 and dense); the score is the fused one."""

    retrievers: list[BaseRetriever] = Field(min_length=1)
    depth: int = Field(default=100, ge=1)
    """Passages asked of each retriever, at least `k`."""
    rrf_k: int = Field(default=60, ge=0)
    """The constant of `reciprocal_rank_fusion`."""
    search: Callable[[str, int], list[list[Document]]] | None = None
    """Gives the rankings of all `retrievers` at once, where their index may change in between."""

    def lexical(self) -> PassageRetriever | None:
        """Return the first of the retrievers that searches by words alone."""
        found = (lexical_of(one) for one in self.retrievers)
        return next((one for one in found if one is not None), None)

    def warm_up(self) -> None:
        """Warm up each retriever."""
        warm_up(self.retrievers)

    def _find(self, query: str, k: int) -> list[Document]:
        return self._fused(self._rankings(query, max(self.depth, k)), k)

    def _awaits(self) -> bool:
        return self.search is None and any(map(awaits, self.retrievers))

    async def _afind(self, query: str, k: int) -> list[Document]:
        depth = max(self.depth, k)
        finding = (afind_with(one, query, depth) for one in self.retrievers)
        return self._fused(await asyncio.gather(*finding), k)

    def _fused(self, lists: Sequence[Sequence[Document]], k: int) -> list[Document]:
        held: list[Document] = []
        places: dict[str | None, list[int]] = defaultdict(list)
        ranked = [[_place(doc, held, places[doc.id]) for doc in one] for one in lists]
        fused = reciprocal_rank_fusion(ranked, k=self.rrf_k)
        return list(_told_apart(with_score(held[at], score) for at, score in fused[:k]))

    def _rankings(self, query: str, k: int) -> list[list[Document]]:
        if self.search is not None:
            return self.search(query, k)
        return [find_with(one, query, k) for one in self.retrievers]


def _place(doc: Document, held: list[Document], places: list[int]) -> int:
    """Return where a passage stands among those held; a new one is put behind them.

    `places` are those of its id.
    """
    for at in places:
        if _same_text(held[at].page_content, doc.page_content):
            return at
    places.append(len(held))
    held.append(doc)
    return places[-1]


def _same_text(one: str, other: str) -> bool:
    """Say whether texts are of one passage: a retriever may put its title before it, or shorten it."""
    return one in other or other in one


def _told_apart(documents: Iterable[Document]) -> Iterator[Document]:
    """Give a content id to those whose id an earlier one has: two bases may both count from 1."""
    taken: set[str | None] = set()
    for doc in documents:
        one = with_id(doc.model_copy(update={"id": None})) if doc.id in taken else doc
        taken.add(one.id)
        yield one
