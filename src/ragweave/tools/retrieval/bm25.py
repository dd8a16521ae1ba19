"""BM25 retrieval."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from langchain_core.documents import Document

from ragweave.state.passages import as_document, with_id
from ragweave.tools.retrieval.analysis import analyzer_for
from ragweave.tools.retrieval.base import PassageRetriever, check_k
from ragweave.tools.retrieval.bm25_index import Bm25Index

Search = Callable[[str, int], list[Document]]
"""Query and k to documents, best first, each with `metadata["score"]`."""


def full_text(document: Document) -> str:
    """Return what is indexed of a passage: its title, where it has one, and its text."""
    title = str(document.metadata.get("title") or "")
    return f"{title}\n{document.page_content}" if title else document.page_content


def scored(document: Document, score: float) -> Document:
    """Return a copy of `document` with `metadata["score"]`."""
    return document.model_copy(update={"metadata": {**document.metadata, "score": score}})


class Bm25Retriever(PassageRetriever):
    """Lexical retrieval; passages that share no term with the query are never returned.

    Example:
        >>> retriever = Bm25Retriever.from_documents([Document("Paris is in France.")], k=1)
        >>> [doc.page_content for doc in retriever.invoke("Where is Paris?")]
        ['Paris is in France.']
    """

    search: Search

    @classmethod
    def from_documents(
        cls, documents: Iterable[Document], *, k: int = 5, language: str = "english"
    ) -> Bm25Retriever:
        """Index `documents` in memory, each as one passage.

        Args:
            documents: Passages; those without an id get a content id.
            k: Passages a query.
            language: Snowball language of stemmer and stop words.

        Raises:
            UsageError: `k` is below 1 or the language is unknown.
        """
        passages = [with_id(as_document(doc)) for doc in documents]
        analyzer = analyzer_for(language)
        index = Bm25Index.build(analyzer.terms(full_text(doc)) for doc in passages)

        def search(query: str, k: int) -> list[Document]:
            hits = index.search(analyzer.terms(query), k)
            return [scored(passages[number], score) for number, score in hits]

        return cls(search=search, k=check_k(k))

    def _find(self, query: str, k: int) -> list[Document]:
        return self.search(query, k)
