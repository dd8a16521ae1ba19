"""The embedding side of a knowledge base: which model, and vectors of the right length."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from langchain_core.embeddings import Embeddings

from ragweave.errors import KnowledgeBaseError
from ragweave.tools.knowledge.manifest import Manifest
from ragweave.tools.knowledge.settings import Settings
from ragweave.tools.knowledge.splitting import Tokens, simple_tokens
from ragweave.tools.retrieval.embedding import SentenceTransformerEmbeddings


def embedding_name(settings: Settings, embeddings: Embeddings | None) -> str | None:
    """Return what the manifest calls the embedding model; None is BM25 only."""
    return f"object:{type(embeddings).__name__}" if embeddings is not None else settings.embedding


def embeddings_of(folder: Path, manifest: Manifest, given: Embeddings | None) -> Embeddings | None:
    """Return the embeddings to use: the caller's object, the named model, or None.

    Raises:
        KnowledgeBaseError: An object is given to a knowledge base without embeddings.
    """
    name = manifest.embedding_name
    if given is not None and name is None:
        raise KnowledgeBaseError(f"{folder} was made without embeddings; make a new knowledge base")
    if given is not None or name is None or name.startswith("object:"):
        return given
    return SentenceTransformerEmbeddings(name)


def check_dimension(folder: Path, manifest: Manifest, vectors: Sequence[Sequence[float]]) -> int:
    """Return the length of the vectors.

    Raises:
        KnowledgeBaseError: It is not that of the vectors in the knowledge base.
    """
    length = len(vectors[0])
    if manifest.dimension not in (None, length):
        raise KnowledgeBaseError(
            f"{folder} holds vectors of {manifest.dimension} dimensions, but this embedding model "
            f"gives {length}; open it with {manifest.embedding_name}, or make a new knowledge base"
        )
    return length


def tokens_of(settings: Settings, embeddings: Embeddings | None) -> Tokens:
    """Return what cuts a text into tokens: the embedding model's own where that is the unit."""
    if settings.unit == "tokens" and isinstance(embeddings, SentenceTransformerEmbeddings):
        return embeddings.token_spans
    return simple_tokens
