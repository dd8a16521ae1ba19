"""Which embedding model a knowledge base uses, of what dimension, and how it cuts texts."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from langchain_core.embeddings import Embeddings

from ragweave.errors import KnowledgeBaseError, RagweaveError
from ragweave.tools.knowledge.chunking import Tokens, simple_tokens
from ragweave.tools.knowledge.manifest import Manifest, Settings
from ragweave.tools.retrieval.embedding import (
    PACKAGED,
    SentenceTransformerEmbeddings,
    named_embeddings,
)
from ragweave.tools.retrieval.onnx_embedding import OnnxEmbeddings
from ragweave.tools.text.secrets import without_secrets

_OBJECT = "object:"
"""What the name of a model begins with that was given as an object; its class follows."""


def embedding_name(settings: Settings, embeddings: Embeddings | None) -> str | None:
    """Return the manifest's name for the embedding model; None is BM25 only."""
    if embeddings is None:
        return settings.embedding
    return f"{_OBJECT}{type(list(_unwrapped(embeddings))[-1]).__name__}"


def embeddings_of(
    folder: object, manifest: Manifest, given: Embeddings | None
) -> Embeddings | None:
    """Return the embeddings to use: the caller's object, the named model, or None.

    Raises:
        KnowledgeBaseError: An object is given to a knowledge base without embeddings, or with
            those of another model.
    """
    name = manifest.embedding_name
    if given is not None and name is None:
        raise KnowledgeBaseError(
            f"{folder} was created without embeddings; create a new knowledge base"
        )
    if given is not None and name and not any(_is(name, one) for one in _unwrapped(given)):
        raise KnowledgeBaseError(
            f"{folder} has vectors of {name}, with which those of {type(given).__name__} cannot be "
            f"compared; open it with {name}, or create a new knowledge base"
        )
    if given is None and (name is None or name.startswith(_OBJECT)):
        return None
    found = named_embeddings(str(name)) if given is None else given
    return _prefixed(found, manifest.settings)


class PrefixedEmbeddings(Embeddings):
    """Embeddings that read what a model was trained to see before a query and before a passage."""

    def __init__(self, embeddings: Embeddings, query: str, passage: str) -> None:
        """Take the embeddings and the two prefixes."""
        self.underlying_embeddings = embeddings
        self._query, self._passage = query, passage

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector a passage."""
        return self.underlying_embeddings.embed_documents([self._passage + one for one in texts])

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        return self.underlying_embeddings.embed_query(self._query + text)


def _prefixed(embeddings: Embeddings, settings: Settings) -> Embeddings:
    query, passage = settings.query_prefix or "", settings.passage_prefix or ""
    return PrefixedEmbeddings(embeddings, query, passage) if query or passage else embeddings


def _unwrapped(embeddings: Embeddings) -> Iterator[Embeddings]:
    """Give embeddings, then those that they keep the vectors of, as LangChain's cache does."""
    yield embeddings
    inner = getattr(embeddings, "underlying_embeddings", None)
    if isinstance(inner, Embeddings):
        yield from _unwrapped(inner)


def _is(name: str, given: Embeddings) -> bool:
    """Say whether an object is what a manifest names: of its class, or running its model."""
    if name.startswith(_OBJECT):
        if name.removeprefix(_OBJECT) in _WRAPPERS:
            return True
        return any(kind.__name__ == name.removeprefix(_OBJECT) for kind in type(given).__mro__)
    if isinstance(given, OnnxEmbeddings):
        return name == PACKAGED
    models = (getattr(given, field, None) for field in _MODEL_FIELDS)
    return any(isinstance(one, str | Path) and _model(str(one)) == _model(name) for one in models)


_WRAPPERS = frozenset(("CacheBackedEmbeddings",))
"""Classes that knowledge bases of earlier versions noted, which say nothing of the model."""
_MODEL_FIELDS = ("spec", "model_name", "model", "repo_id")
"""Where classes of embeddings, LangChain's among them, keep the name of their model."""
_MINILM = "all-MiniLM-L6-v2"


def _model(name: str) -> str:
    """Return a model's name without the hub's namespace, which sentence-transformers adds."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return str(folder.resolve())
    return _MINILM if name == PACKAGED else name.removeprefix("sentence-transformers/")


def check_dimension(folder: object, manifest: Manifest, vectors: Sequence[Sequence[float]]) -> int:
    """Return the length of the vectors.

    Raises:
        KnowledgeBaseError: It is not that of the vectors in the knowledge base.
    """
    length = len(vectors[0])
    if manifest.dimension not in (None, length):
        raise KnowledgeBaseError(
            f"{folder} has vectors of {manifest.dimension} dimensions, but this embedding model "
            f"gives {length}; open it with {manifest.embedding_name}, or create a new knowledge base"
        )
    return length


def embed_texts(
    embeddings: Embeddings | None, texts: list[str], manifest: Manifest, outcome: str
) -> list[list[float]]:
    """Return one vector a text; none without embeddings.

    Raises:
        KnowledgeBaseError: The connection to the model failed, or its cache; the text says why, and
            what came of the write. Errors of other kinds are raised as they are.
    """
    if embeddings is None:
        return []
    try:
        return embeddings.embed_documents(texts)
    except RagweaveError:
        raise
    except (OSError, sqlite3.Error) as error:  # or they would be taken for those of our own disk
        why = without_secrets(" ".join(str(error).split()))[:300] or type(error).__name__
        model = (manifest.embedding_name or "").removeprefix(_OBJECT)
        raise KnowledgeBaseError(f"the embedding model {model} failed: {why}; {outcome}") from error


def tokenizer_of(manifest: Manifest, embeddings: Embeddings | None) -> Tokens:
    """Return the tokenizer that cuts texts: the embedding model's own where tokens are the unit.

    Knowledge bases that earlier versions made without one count words and signs, as they did.
    """
    if not manifest.settings.counts_tokens:
        return simple_tokens
    return own_tokens(manifest.embedding_name, embeddings) or simple_tokens


_WITH_TOKENS = (SentenceTransformerEmbeddings, OnnxEmbeddings)


def own_tokens(name: str | None, embeddings: Embeddings | None) -> Tokens | None:
    """Return the tokenizer of an embedding model, None where there is none at hand.

    Args:
        name: The manifest's name for the model; its tokenizer is loaded at the first text.
        embeddings: The object that was given, if any.
    """
    for one in () if embeddings is None else _unwrapped(embeddings):
        if isinstance(one, _WITH_TOKENS):
            return one.token_spans
    if name is None or name.startswith(_OBJECT):
        return None
    named = named_embeddings(name)
    return named.token_spans if isinstance(named, _WITH_TOKENS) else None
