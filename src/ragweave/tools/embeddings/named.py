"""Embedding models by name: packaged, local, or from the Hugging Face hub."""

import os
import re
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from ragweave.errors import KnowledgeBaseError, MissingExtraError, did_you_mean, need, one_line_of
from ragweave.tools.embeddings.minilm import OnnxEmbeddings, onnx_available
from ragweave.tools.imported import read_settings

PACKAGED = "minilm"
"""Spec of the packaged all-MiniLM-L6-v2 (384 dimensions, 256 tokens)."""
OBJECT = "object:"
"""How the name of an embedding model begins that was given as an object."""
FASTEMBED = "fastembed:"
"""How the name of a model begins that the package `fastembed` runs."""
_E5 = re.compile(r"(?:^|[/_-])e5(?:[/_-]|$)", re.IGNORECASE)
_RETRIEVE = "Represent this sentence for searching relevant passages: "
_INSTRUCT = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
_PREFIXES = {
    _E5.pattern: ("query: ", "passage: "),
    "bge-(?:small|base|large)-en|mxbai-embed|arctic-embed": (_RETRIEVE, ""),
    "bge-(?:small|base|large)-zh": ("为这个句子生成表示以用于检索相关文章：", ""),
    "nomic-embed": ("search_query: ", "search_document: "),
    "embeddinggemma": ("task: search result | query: ", "title: none | text: "),
    "qwen3-embedding": (_INSTRUCT, ""),
}
"""What the cards of models put before a query and a passage."""
_TEXTS = 32
"""Texts that fastembed encodes at once; its own 256 of 512 tokens each take gigabytes."""


def named_embeddings(spec: str) -> "OnnxEmbeddings | FastEmbedEmbeddings | SentenceTransformerEmbeddings":
    """Return embeddings by name, loaded at first use.

    The name is `minilm` (packaged, by ONNX Runtime), `fastembed:NAME`, or a local path or hub name of a
    sentence-transformers model.

    Raises:
        MissingExtraError: The packages that run it are not installed.
    """
    if spec.startswith(FASTEMBED):
        need(f"The embedding model {spec}", "fastembed", "fastembed")
        return FastEmbedEmbeddings(spec)
    if spec == PACKAGED:
        if not onnx_available():
            raise MissingExtraError("The packaged MiniLM", "offline")
        return OnnxEmbeddings()
    need(f"The embedding model {spec}", "encoders", "sentence_transformers")
    return SentenceTransformerEmbeddings(spec)


def name_of(embeddings: Embeddings) -> str:
    """Return what an embeddings object is known by: its class, and its model if it has a name."""
    while isinstance(inner := getattr(embeddings, "underlying_embeddings", None), Embeddings):
        embeddings = inner  # LangChain's cache around them
    names = (getattr(embeddings, field, None) for field in ("model_name", "model", "repo_id"))
    model = next((name for name in names if isinstance(name, str) and name), "")
    return f"{OBJECT}{type(embeddings).__qualname__}:{model}".rstrip(":")


class SentenceTransformerEmbeddings(Embeddings):
    """LangChain embeddings by sentence-transformers, of unit length, loaded at first use.

    Queries and passages get the prompts of the model's own configuration. E5 models without one get
    "query: " and "passage: " (Wang et al. 2022, Text Embeddings by Weakly-Supervised Contrastive
    Pre-training), except those trained on instructions. Calls take turns: the fast tokenizers are not
    safe under threads.
    """

    def __init__(self, spec: str) -> None:
        """Name a model: a local path or a hub name."""
        self.model = spec
        self._lock = threading.RLock()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a vector for each text; errors as `load_named`."""
        return self._encode(texts, "encode_document", "passage: ")

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        return self._encode([text], "encode_query", "query: ")[0]

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        """Return the character offsets of the model's tokens in `text`."""
        with self._lock:
            encoded = self._model.tokenizer(
                text, add_special_tokens=False, return_offsets_mapping=True, truncation=False, verbose=False
            )
        return [(start, end) for start, end in encoded["offset_mapping"] if end > start]

    def _encode(self, texts: list[str], method: str, prefix: str) -> list[list[float]]:
        with self._lock:
            model = self._model
            name = Path(self.model).name.lower()
            bare_e5 = _E5.search(name) and "instruct" not in name
            prompt = {"prompt": prefix} if bare_e5 and not any(model.prompts.values()) else {}
            vectors = getattr(model, method)(texts, show_progress_bar=False, normalize_embeddings=True, **prompt)
        rows: list[list[float]] = vectors.tolist()
        return rows

    @cached_property
    def _model(self) -> Any:
        from sentence_transformers import SentenceTransformer

        return load_named(SentenceTransformer, self.model, "embedding model")


def load_named(make: Callable[..., Any], spec: str, kind: str) -> Any:
    """Load a model of sentence-transformers from a folder, the hub's cache, or the hub."""
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    folder = Path(spec).expanduser()
    place = str(folder) if folder.is_dir() else spec
    try:
        with suppress(OSError, ValueError, KeyError):
            return make(place, local_files_only=True)
        return make(place)
    except Exception as error:  # the hub's clients have many
        reason = one_line_of(error)
        raise KnowledgeBaseError(f"no {kind} {spec!r}: no such folder, and not from the hub ({reason})") from error


class FastEmbedEmbeddings(Embeddings):
    """LangChain embeddings by an ONNX model of the package `fastembed`, of unit length, loaded at first use.

    Queries and passages get the prefixes of the model's card, which fastembed leaves to its callers. (So does
    `FastEmbedEmbeddings` of langchain-community, which also encodes 256 texts at once.)
    """

    def __init__(self, spec: str) -> None:
        """Name a model: `fastembed:NAME?threads=2`, with settings of fastembed's `TextEmbedding`."""
        self.model = spec
        name = spec.removeprefix(FASTEMBED).partition("?")[0]
        both = (both for pattern, both in _PREFIXES.items() if re.search(pattern, name, re.IGNORECASE))
        self._prefixes = next(both, ("", ""))

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a vector for each text; errors as `load_fastembed`."""
        passages = [self._prefixes[1] + text for text in texts]
        return [unit(vector).tolist() for vector in self._model.passage_embed(passages, batch_size=_TEXTS)]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        vector: list[float] = unit(next(iter(self._model.query_embed(self._prefixes[0] + text)))).tolist()
        return vector

    @cached_property
    def _model(self) -> Any:
        from fastembed import TextEmbedding

        return load_fastembed(TextEmbedding, self.model, "embedding model")


class FastEmbedScorer:
    """Scores pairs by an ONNX cross-encoder of the package `fastembed`."""

    def __init__(self, spec: str) -> None:
        """Load a model by its spec, `fastembed:NAME?threads=2`; errors as `load_fastembed`."""
        need(f"The reranker {spec}", "fastembed", "fastembed")
        from fastembed.rerank.cross_encoder import TextCrossEncoder

        self._model = load_fastembed(TextCrossEncoder, spec, "reranker")

    def predict(self, pairs: list[tuple[str, str]], /) -> Sequence[float]:
        """Return a score for each pair; higher is better."""
        return [*self._model.rerank_pairs(pairs, batch_size=_TEXTS)]


def load_fastembed(make: Any, spec: str, kind: str) -> Any:
    """Load a model of fastembed from the hub's cache, or the hub; it is kept in the user's cache, not in `/tmp`.

    Raises:
        KnowledgeBaseError: fastembed has no such model, or it cannot be fetched or read.
    """
    name, _, query = spec.removeprefix(FASTEMBED).partition("?")
    names = [model["model"] for model in make.list_supported_models()]
    if name.lower() not in map(str.lower, names):
        raise KnowledgeBaseError(f"fastembed has no {kind} {name!r}; {did_you_mean(name, names)}")
    cache = os.environ.get("FASTEMBED_CACHE_PATH") or Path.home() / ".cache" / "fastembed"
    try:
        return make(name, **{"cache_dir": str(cache), **read_settings(query)})
    except Exception as error:  # those of the hub's clients and of ONNX Runtime
        raise KnowledgeBaseError(f"{kind} {spec!r} cannot be loaded ({one_line_of(error)})") from error


class BiEncoderScorer:
    """Scores pairs by the cosine of query and passage, each encoded by itself.

    Source: SlimPLM, section 4.4, which reranks with E5-base.
    """

    def __init__(self, spec: str) -> None:
        """Name a bi-encoder, as for `named_embeddings`; it is loaded at first use."""
        self._embeddings = named_embeddings(spec)

    def predict(self, pairs: list[tuple[str, str]], /) -> Sequence[float]:
        """Return a cosine (-1 to 1) for each pair; each different text is encoded once."""
        texts = list(dict.fromkeys(text for _, text in pairs))
        passages = dict(zip(texts, self._embeddings.embed_documents(texts), strict=True))
        queries = {query: self._embeddings.embed_query(query) for query, _ in pairs}
        return [float(np.dot(queries[query], passages[text])) for query, text in pairs]


def unit(vectors: Sequence[Sequence[float]]) -> NDArray[np.float32]:
    """Return vectors as rows of length 1; zero stays zero."""
    rows = np.asarray(vectors, dtype=np.float32)
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return (rows / np.where(lengths == 0, 1, lengths)).astype(np.float32)
