"""BM25 retrieval: the analyzer and the retriever.

One analyzer turns text into terms for the index (`bm25_index`) and for its queries.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache, lru_cache

import Stemmer
from langchain_core.documents import Document

from ragweave.errors import UsageError
from ragweave.state.passages import as_document, heading_of, with_id
from ragweave.tools.listed import listed
from ragweave.tools.retrieval.base import PassageRetriever, check_k
from ragweave.tools.retrieval.bm25_index import Bm25Index
from ragweave.tools.text.letters import WORD, folded

ANALYSIS = 2
"""Which way of making terms is in use. An index is searched by that of its own terms, which is part
of its format: 1 parts words at combining marks (vowel signs, say) and keeps ligatures."""

_WORD = re.compile(WORD)
_UNMARKED = re.compile(r"\w+")

_ENGLISH = """
a an and are as at be but by for if in into is it no not of on or such that the their then there
these they this to was will with
"""
"""Lucene's stop words, as in bm25s."""


@cache
def stop_words(language: str) -> frozenset[str]:
    """Return the stop words of a Snowball language as bm25s has them; none where it has none."""
    if language == "english":  # bm25s imports scipy, half a second that most commands save
        return frozenset(_ENGLISH.split())
    from bm25s import stopwords

    return frozenset(getattr(stopwords, f"STOPWORDS_{language.upper()}", ()))


def languages() -> tuple[str, ...]:
    """Return the languages that have a stemmer, in alphabetical order."""
    return tuple(sorted(Stemmer.algorithms()))


class Analyzer:
    """Lower-cased, stemmed terms of a text without its stop words; safe under threads.

    Languages that bm25s has no stop words for keep all their words. Composed and decomposed
    accents match, and so do ligatures and their letters (see `folded`).
    """

    def __init__(self, language: str = "english", analysis: int = ANALYSIS) -> None:
        """Take a Snowball language name.

        Args:
            language: One of `languages()`.
            analysis: That of the index, where it was not made now.

        Raises:
            UsageError: No stemmer has that name.
        """
        if language not in languages():
            known = ", ".join(languages())
            raise UsageError(f"unknown language {language!r}; choose one of: {known}")
        self.language = language
        self._stop = stop_words(language)
        self._words = _words if analysis > 1 else _unmarked_words
        self._local = threading.local()

    def terms(self, text: str) -> list[str]:
        """Return the terms of `text` in order, repeats kept."""
        kept = [word for word in self._words(text) if word not in self._stop]
        terms: list[str] = self._stemmer().stemWords(kept)
        return terms

    def _stemmer(self) -> Stemmer.Stemmer:
        # A Stemmer holds state while it works, so every thread has its own.
        if not hasattr(self._local, "stemmer"):
            self._local.stemmer = Stemmer.Stemmer(self.language)
        return self._local.stemmer


def _words(text: str) -> list[str]:
    if text.isascii():
        return _unmarked_words(text)
    return [word if word.isascii() else folded(word) for word in _WORD.findall(text.lower())]


def _unmarked_words(text: str) -> list[str]:
    return _UNMARKED.findall(unicodedata.normalize("NFC", text).lower())


@lru_cache(maxsize=16)
def analyzer_for(language: str, analysis: int = ANALYSIS) -> Analyzer:
    """Return the shared analyzer of `language` (arguments and errors as `Analyzer`)."""
    return Analyzer(language, analysis)


Search = Callable[[str, int], list[Document]]
"""Query and k to documents, best first, each with `metadata["score"]`."""


def full_text(document: Document) -> str:
    """Return what is indexed of a passage: its title and headings, where it has any, and its text."""
    title = heading_of(document.metadata)
    return f"{title}\n{document.page_content}" if title else document.page_content


def with_score(document: Document, score: float) -> Document:
    """Return a copy of `document` with `metadata["score"]`."""
    return document.model_copy(update={"metadata": {**document.metadata, "score": score}})


class Bm25Retriever(PassageRetriever):
    """Lexical retrieval; passages that share no term with the query are never returned.

    Examples:
        >>> retriever = Bm25Retriever.from_documents([Document("Paris is in France.")], k=1)
        >>> [doc.page_content for doc in retriever.invoke("Where is Paris?")]
        ['Paris is in France.']
    """

    search: Search

    def lexical(self) -> PassageRetriever:
        """Return this retriever."""
        return self

    @classmethod
    def from_documents(
        cls, documents: Document | Iterable[Document], *, k: int = 5, language: str = "english"
    ) -> Bm25Retriever:
        """Index `documents` in memory, each as one passage.

        Args:
            documents: Passages, or one alone; those without an id get a content id.
            k: Passages a query.
            language: Snowball language of stemmer and stop words.

        Raises:
            UsageError: `k` is below 1 or the language is unknown.
        """
        passages = [with_id(as_document(doc)) for doc in listed(documents)]
        analyzer = analyzer_for(language)
        index = Bm25Index.build(analyzer.terms(full_text(doc)) for doc in passages)

        def search(query: str, k: int) -> list[Document]:
            hits = index.search(analyzer.terms(query), k)
            return [with_score(passages[number], score) for number, score in hits]

        return cls(search=search, k=check_k(k))

    def _find(self, query: str, k: int) -> list[Document]:
        return self.search(query, k)
