"""Reranking with a cross-encoder, a bi-encoder such as E5, or a model of the library `rerankers`.

A kind of reranker is declared by one value, whether ours or a package's:

    RERANKER = RerankerKind(name="length", spec="length:", summary="The longest passages first.",
                            make=lambda name: ByLength())

A package names it as an entry point of the group `ragweave.rerankers`; `--rerank length:` then
selects it.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable
from urllib.parse import parse_qsl

import numpy as np
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field, PrivateAttr

from ragweave.errors import UnusableModelError, UsageError
from ragweave.registry import Registry
from ragweave.tools.retrieval.base import (
    PassageRetriever,
    afind_with,
    awaits,
    check_k,
    find_with,
    lexical_of,
)
from ragweave.tools.retrieval.bm25 import full_text, with_score
from ragweave.tools.retrieval.embedding import (
    is_e5,
    load_named,
    named_embeddings,
    require_extra,
)
from ragweave.tools.retrieval.rerank_library import library_reranker
from ragweave.tools.threads import awaited
from ragweave.tools.warm_up import warm_up

_HEADLESS = ("Model", "ForMaskedLM", "ForPreTraining")
"""How architectures end that score no pair of texts."""


@runtime_checkable
class PairScorer(Protocol):
    """Scores (query, passage) pairs, as sentence-transformers' `CrossEncoder` does."""

    def predict(self, pairs: list[tuple[str, str]], /) -> Sequence[float]:
        """Return one score a pair; higher is better."""
        ...


def load_cross_encoder(spec: str) -> Any:
    """Load a cross-encoder whose `predict` is silent (errors as the embedding models').

    Raises:
        UsageError: The model has no ranking head: a fresh one would rank at random.
    """
    require_extra("Reranking", "sentence_transformers")
    from sentence_transformers import CrossEncoder

    model = load_named(CrossEncoder, spec, "reranker")
    _refuse_headless(spec)
    return _QuietModel(model)


def _refuse_headless(spec: str) -> None:
    from transformers import AutoConfig

    place = os.environ.get("SENTENCE_TRANSFORMERS_HOME")
    folder = str(Path(spec).expanduser())
    name = folder if Path(folder).is_dir() else spec
    config = AutoConfig.from_pretrained(name, local_files_only=True, cache_dir=place)
    kinds = config.architectures or []
    if kinds and all(kind.endswith(_HEADLESS) for kind in kinds):
        raise UsageError(
            f"{spec}: is an encoder without a ranking head ({', '.join(kinds)}) and would rank at "
            f"random as a cross-encoder; use it as a bi-encoder: bi-encoder:{spec}"
        )


class _QuietModel:
    def __init__(self, model: Any) -> None:
        self._model = model

    def predict(self, pairs: list[tuple[str, str]], /) -> Sequence[float]:
        scores: list[float] = self._model.predict(pairs, show_progress_bar=False).tolist()
        return scores


class BiEncoderScorer:
    """Scores pairs by the cosine of query and passage, each encoded by itself.

    E5 models are trained with "query: " and "passage: " before the texts (Wang et al. 2022, Text
    Embeddings by Weakly-Supervised Contrastive Pre-training); SlimPLM reranks with E5-base.
    """

    def __init__(self, spec: str) -> None:
        """Name a bi-encoder; it is loaded at first use (the packaged `minilm` without torch).

        Args:
            spec: `minilm`, a local path or a hub name; `?query=…&passage=…` gives the texts to put before
                queries and passages, which E5 models have by default.

        Raises:
            UsageError: A setting is unknown.
        """
        name, _, query = spec.partition("?")
        prefixes = dict(parse_qsl(query, keep_blank_values=True))
        if unknown := prefixes.keys() - {"query", "passage"}:
            raise UsageError(f"{spec}: a bi-encoder takes query= and passage=, not {min(unknown)}")
        e5 = is_e5(name)
        self._query = prefixes.get("query", "query: " if e5 else "")
        self._passage = prefixes.get("passage", "passage: " if e5 else "")
        self._embeddings = named_embeddings(name)

    def predict(self, pairs: list[tuple[str, str]], /) -> Sequence[float]:
        """Return one cosine a pair, -1 to 1; each different text is encoded once.

        Raises:
            KnowledgeBaseError: The model is not there and cannot be fetched.
        """
        import numpy as np

        shown = [(self._query + query, self._passage + text) for query, text in pairs]
        texts = list(dict.fromkeys(text for pair in shown for text in pair))
        rows = np.asarray(self._embeddings.embed_documents(texts))
        place = {text: at for at, text in enumerate(texts)}
        return [float(rows[place[query]] @ rows[place[text]]) for query, text in shown]


@dataclass(frozen=True, kw_only=True)
class RerankerKind:
    """The declaration of a kind of reranker: its name, and how to make one."""

    name: str
    spec: str
    """How it is asked for, such as `bi-encoder:NAME`."""
    summary: str
    """One line about what ranks."""
    make: Callable[[str], PairScorer]
    """Makes a reranker from what stands behind `name:`; raises `UsageError` for a bad setting."""


_OURS = (
    RerankerKind(
        name="cross-encoder",
        spec="NAME, or cross-encoder:NAME",
        summary="a cross-encoder of sentence-transformers, by hub name or local path",
        make=load_cross_encoder,
    ),
    RerankerKind(
        name="bi-encoder",
        spec="bi-encoder:NAME",
        summary="the cosine of query and passage: `minilm`, E5, any embedding model",
        make=BiEncoderScorer,
    ),
    RerankerKind(
        name="rerankers",
        spec="rerankers:TYPE:MODEL",
        summary="ColBERT, T5, listwise LLMs, APIs: the library `rerankers`",
        make=library_reranker,
    ),
)

RERANKERS: Registry[RerankerKind] = Registry(
    "ragweave.rerankers", RerankerKind, "reranker", lambda: _OURS
)
"""Every kind of reranker by name: ours, then those of other packages (entry points
`ragweave.rerankers`)."""


def load_reranker(spec: str) -> PairScorer:
    """Load a reranker by its spec: `KIND:…`, or a cross-encoder's name or path.

    Raises:
        UsageError: There is no such kind, or the model has no ranking head and was named as a
            cross-encoder.
        KnowledgeBaseError: The model is not there and cannot be fetched.
        ModelError: An API lacks its key.
    """
    kind, rest = _kind_of(spec)
    return kind.make(rest)


def _kind_of(spec: str) -> tuple[RerankerKind, str]:
    head, colon, rest = spec.partition(":")
    if not colon or len(head) == 1 or Path(spec).exists():  # a Windows path has a drive
        return RERANKERS["cross-encoder"], spec
    return RERANKERS.named(head), rest


DEPTH = 20
"""Passages that are reranked, unless said otherwise."""


class RerankRetriever(PassageRetriever):
    """Asks another retriever for `depth` passages and orders them by a model's score.

    Source: Nogueira and Cho 2019, "Passage Re-ranking with BERT"; SlimPLM, section 4.4, for
    bi-encoders.
    """

    base: BaseRetriever
    """Any LangChain retriever."""
    model: Any
    """Hub name or local path of a cross-encoder, another spec of `RERANKERS`, or any object with
    `predict(pairs)`."""
    depth: int = Field(default=DEPTH, ge=1)
    """Passages asked of `base`, at least `k`."""
    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)
    _scorer: PairScorer | None = PrivateAttr(default=None)

    @classmethod
    def over(
        cls, base: BaseRetriever, model: str | PairScorer, *, k: int = 5, depth: int = DEPTH
    ) -> RerankRetriever:
        """Rerank what `base` finds; a named model is loaded at the first query.

        Raises:
            UsageError: `model` is neither a name nor has `predict`, it names no kind of reranker,
                or `k` is below 1.
        """
        if isinstance(model, str):
            _kind_of(model)
        if not isinstance(model, str) and not isinstance(model, PairScorer):
            raise UsageError(
                f"a reranker must be a model name, a path or an object with predict(pairs), not "
                f"{model!r}"
            )
        return cls(base=base, model=model, k=check_k(k), depth=check_k(depth))

    def lexical(self) -> PassageRetriever | None:
        """Return what the retriever below has; a look by words is not reranked."""
        return lexical_of(self.base)

    def warm_up(self) -> None:
        """Warm up the retriever below; the reranker is loaded by its first query."""
        warm_up([self.base])

    def _find(self, query: str, k: int) -> list[Document]:
        return self._reranked(query, find_with(self.base, query, max(self.depth, k)), k)

    def _awaits(self) -> bool:
        return awaits(self.base)

    async def _afind(self, query: str, k: int) -> list[Document]:
        found = await afind_with(self.base, query, max(self.depth, k))
        return await awaited(partial(self._reranked, query, found, k))

    def _reranked(self, query: str, found: Sequence[Document], k: int) -> list[Document]:
        if not found:
            return []
        with self._lock:  # tokenizers and most models are not safe under threads
            if self._scorer is None:
                self._scorer = (
                    load_reranker(self.model) if isinstance(self.model, str) else self.model
                )
            scores = [*self._scorer.predict([(query, full_text(doc)) for doc in found])]
        numbers = _numbers(scores, len(found), self._name)
        judged = [with_score(doc, number) for doc, number in zip(found, numbers, strict=True)]
        return sorted(judged, key=lambda doc: -doc.metadata["score"])[:k]

    @property
    def _name(self) -> str:
        return self.model if isinstance(self.model, str) else type(self.model).__name__


def _numbers(scores: Sequence[Any], passages: int, name: str) -> list[float]:
    """Return a model's scores, which order passages only where each has one number.

    Raises:
        UnusableModelError: They are not that.
    """
    if len(scores) != passages:
        raise UnusableModelError(
            f"the reranker {name} gave {len(scores)} scores for {passages} passages"
        )
    try:
        numbers = [float(np.asarray(score).item()) for score in scores]
    except (TypeError, ValueError):
        raise UnusableModelError(
            f"the reranker {name} gives a passage several scores (as a classifier of several "
            "labels does), or none: use a model with one, trained to rank"
        ) from None
    if any(map(math.isnan, numbers)):
        raise UnusableModelError(
            f"the reranker {name} gave a score that is not a number (NaN), as a model does whose "
            "weights are damaged or overflow in half precision"
        )
    return numbers
