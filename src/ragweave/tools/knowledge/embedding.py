"""Which embedding model a knowledge base uses, of what dimension, and how it cuts texts."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.embeddings import Embeddings

from ragweave.errors import KnowledgeBaseError
from ragweave.tools.knowledge.chunking import Tokens, simple_tokens
from ragweave.tools.knowledge.manifest import Manifest, Settings
from ragweave.tools.retrieval.embedding import SentenceTransformerEmbeddings, named_embeddings
from ragweave.tools.retrieval.onnx_embedding import OnnxEmbeddings


def embedding_name(settings: Settings, embeddings: Embeddings | None) -> str | None:
    """Return the manifest's name for the embedding model; None is BM25 only."""
    return f"object:{type(embeddings).__name__}" if embeddings is not None else settings.embedding


def embeddings_of(
    folder: object, manifest: Manifest, given: Embeddings | None
) -> Embeddings | None:
    """Return the embeddings to use: the caller's object, the named model, or None.

    Raises:
        KnowledgeBaseError: An object is given to a knowledge base without embeddings.
    """
    name = manifest.embedding_name
    if given is not None and name is None:
        raise KnowledgeBaseError(
            f"{folder} was created without embeddings; create a new knowledge base"
        )
    if given is not None or name is None or name.startswith("object:"):
        return given
    return named_embeddings(name)


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


def tokenizer_of(settings: Settings, embeddings: Embeddings | None) -> Tokens:
    """Return the tokenizer that cuts texts: the embedding model's own where tokens are the unit."""
    if settings.counts_tokens and isinstance(
        embeddings, SentenceTransformerEmbeddings | OnnxEmbeddings
    ):
        return embeddings.token_spans
    return simple_tokens
