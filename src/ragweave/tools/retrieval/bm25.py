"""BM25 retrieval: the analyzer, the index and the retriever.

One analyzer turns text into terms for the index and for its queries. The index over numbered
passages holds bm25s scores and is opened memory-mapped. Its vocabulary is a sorted array of 64-bit
term hashes, and a term's id is its index there: eight bytes per term, memory-mapped like the
scores, where a Python dict takes a hundred or so.
"""

from __future__ import annotations

import hashlib
import logging
import re
import threading
import unicodedata
from array import array
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from tokenize import TokenError

import bm25s
import numpy as np
import Stemmer
from bm25s import stopwords
from langchain_core.documents import Document
from numpy.typing import NDArray

from ragweave.errors import KnowledgeBaseError, UsageError
from ragweave.state.passages import as_document, heading_of, with_id
from ragweave.tools.retrieval.base import PassageRetriever, check_k

_TERM = re.compile(r"\w+")

_STOP_WORDS: dict[str, tuple[str, ...]] = {
    "danish": stopwords.STOPWORDS_DANISH,
    "dutch": stopwords.STOPWORDS_DUTCH,
    "english": stopwords.STOPWORDS_EN,
    "french": stopwords.STOPWORDS_FRENCH,
    "german": stopwords.STOPWORDS_GERMAN,
    "italian": stopwords.STOPWORDS_ITALIAN,
    "norwegian": stopwords.STOPWORDS_NORWEGIAN,
    "portuguese": stopwords.STOPWORDS_PORTUGUESE,
    "russian": stopwords.STOPWORDS_RUSSIAN,
    "spanish": stopwords.STOPWORDS_SPANISH,
    "swedish": stopwords.STOPWORDS_SWEDISH,
    "turkish": stopwords.STOPWORDS_TURKISH,
}


def languages() -> tuple[str, ...]:
    """Return the languages that have a stemmer, in alphabetical order."""
    return tuple(sorted(Stemmer.algorithms()))


class Analyzer:
    """Lower-cased, stemmed terms of a text without its stop words; safe under threads.

    Languages that bm25s has no stop words for keep all their words. The texts are put in Unicode
    NFC first, so that composed and decomposed accents match.
    """

    def __init__(self, language: str = "english") -> None:
        """Take a Snowball language name.

        Args:
            language: One of `languages()`.

        Raises:
            UsageError: No stemmer has that name.
        """
        if language not in languages():
            known = ", ".join(languages())
            raise UsageError(f"unknown language {language!r}; choose one of: {known}")
        self.language = language
        self._stop = frozenset(_STOP_WORDS.get(language, ()))
        self._local = threading.local()

    def terms(self, text: str) -> list[str]:
        """Return the terms of `text` in order, repeats kept."""
        found = _TERM.findall(unicodedata.normalize("NFC", text).lower())
        kept = [word for word in found if word not in self._stop]
        terms: list[str] = self._stemmer().stemWords(kept)
        return terms

    def _stemmer(self) -> Stemmer.Stemmer:
        # A Stemmer holds state while it works, so every thread has its own.
        if not hasattr(self._local, "stemmer"):
            self._local.stemmer = Stemmer.Stemmer(self.language)
        return self._local.stemmer


@lru_cache(maxsize=16)
def analyzer_for(language: str) -> Analyzer:
    """Return the shared analyzer of `language` (errors as `Analyzer`)."""
    return Analyzer(language)


logging.getLogger("bm25s").setLevel(logging.WARNING)

_VOCABULARY = "terms.npy"


def _hash(term: str) -> int:
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=8).digest(), "little")


def top_k(scores: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Return the numbers of the k highest positive scores, best first, ties by number."""
    found = np.flatnonzero(scores > 0)
    values = scores[found]
    if len(found) > k:
        cut = np.partition(values, len(values) - k)[len(values) - k]
        found, values = found[values >= cut], values[values >= cut]
    return found[np.lexsort((found, -values))[:k]]


class Bm25Index:
    """BM25 (Lucene's variant, k1 = 1.5, b = 0.75) over passages numbered from 0.

    Source: Robertson and Zaragoza 2009; the variants by Kamphuis et al. 2020; eager sparse
    scoring by Lù 2024 (bm25s).
    """

    def __init__(self, scorer: bm25s.BM25 | None, vocabulary: NDArray[np.uint64]) -> None:
        """Use `build` or `open`; None stands for an index without any term."""
        self._scorer = scorer
        self._vocabulary = vocabulary

    @classmethod
    def build(cls, passages: Iterable[list[str]]) -> Bm25Index:
        """Index the terms of each passage in turn.

        Args:
            passages: One list of terms a passage; read once.
        """
        hashes: dict[str, int] = {}
        rows = [
            np.array([_hash_once(hashes, term) for term in terms], dtype=np.uint64)
            for terms in passages
        ]
        vocabulary = np.unique(np.fromiter(hashes.values(), dtype=np.uint64, count=len(hashes)))
        if not len(vocabulary):
            return cls(None, vocabulary)
        corpus = [array("i", np.searchsorted(vocabulary, row).tolist()) for row in rows]
        scorer = bm25s.BM25(method="lucene", k1=1.5, b=0.75, backend="numpy")
        ids = {number: number for number in range(len(vocabulary))}
        scorer.index((corpus, ids), create_empty_token=False, show_progress=False)
        scorer.vocab_dict = {}
        return cls(scorer, vocabulary)

    @property
    def passages(self) -> int | None:
        """Number of passages; None for an index without any term."""
        return None if self._scorer is None else int(self._scorer.scores["num_docs"])

    def scores(self, terms: list[str]) -> NDArray[np.float32]:
        """Return one score a passage; a repeated term counts each time."""
        if self._scorer is None:
            return np.zeros(0, dtype=np.float32)
        ids = self._ids(terms)
        try:
            found: NDArray[np.float32] = self._scorer.get_scores_from_ids(ids)
        except (IndexError, ValueError) as error:
            raise KnowledgeBaseError(
                f"a BM25 index is damaged ({error}): repair it with `ragweave kb check --repair`"
            ) from error
        return found

    def search(self, terms: list[str], k: int) -> list[tuple[int, float]]:
        """Return up to k (passage number, score > 0), best first, ties by passage number."""
        scores = self.scores(terms)
        return [(int(number), float(scores[number])) for number in top_k(scores, k)]

    def _ids(self, terms: list[str]) -> NDArray[np.int64]:
        hashes = np.array([_hash(term) for term in terms], dtype=np.uint64)
        places = np.searchsorted(self._vocabulary, hashes)
        inside = places < len(self._vocabulary)
        places, hashes = places[inside], hashes[inside]
        known: NDArray[np.int64] = places[self._vocabulary[places] == hashes]
        return known

    def save(self, folder: Path) -> None:
        """Write the index to `folder`, which is made."""
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / _VOCABULARY, self._vocabulary, allow_pickle=False)
        if self._scorer is not None:
            self._scorer.save(folder, show_progress=False)

    @classmethod
    def open(cls, folder: Path) -> Bm25Index:
        """Open a saved index memory-mapped.

        Raises:
            KnowledgeBaseError: A file is missing, cut short or no array.
        """
        try:
            vocabulary = _load(folder / _VOCABULARY)
            if not len(vocabulary):
                return cls(None, vocabulary)
            scorer = bm25s.BM25.load(folder, mmap=True, load_vocab=False, show_progress=False)
            _check(scorer, len(vocabulary))
        except DAMAGE as error:
            reason = " ".join(str(error).split())[:200]
            raise KnowledgeBaseError(
                f"the BM25 index {folder} is damaged ({reason}); delete the knowledge base and "
                "index again"
            ) from error
        # Plain arrays over the mapped memory: numpy's memmap class makes every slice dear.
        scorer.scores.update(
            (name, np.asarray(scorer.scores[name])) for name in ("data", "indices", "indptr")
        )
        return cls(scorer, vocabulary)


DAMAGE = (
    *(OSError, ValueError, EOFError, KeyError, TypeError, AttributeError, IndexError),
    *(RecursionError, SyntaxError, TokenError),
)
"""What bm25s and numpy raise over files that were cut or overwritten."""


def _hash_once(hashes: dict[str, int], term: str) -> int:
    if term not in hashes:
        hashes[term] = _hash(term)
    return hashes[term]


def _load(path: Path) -> NDArray[np.uint64]:
    # An empty file cannot be mapped, and an empty array has nothing worth mapping.
    mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    return np.asarray(mapped)


def _check(scorer: bm25s.BM25, terms: int) -> None:
    """Raise ValueError unless the arrays fit each other."""
    indptr, held = scorer.scores["indptr"], len(scorer.scores["data"])
    if len(indptr) != terms + 1 or indptr[-1] != held or len(scorer.scores["indices"]) != held:
        raise ValueError("its arrays do not match each other")


def index_bytes(folder: Path) -> int:
    """Return the size in bytes of the files of a saved index."""
    return sum(path.stat().st_size for path in folder.iterdir())


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
            return [with_score(passages[number], score) for number, score in hits]

        return cls(search=search, k=check_k(k))

    def _find(self, query: str, k: int) -> list[Document]:
        return self.search(query, k)
