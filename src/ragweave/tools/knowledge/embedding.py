"""Which embedding model a knowledge base uses, of what dimension, and how it cuts texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from langchain_core.embeddings import Embeddings

from ragweave.errors import KnowledgeBaseError
from ragweave.tools.knowledge.chunking import Tokens, simple_tokens
from ragweave.tools.knowledge.manifest import Manifest, Settings
from ragweave.tools.retrieval.embedding import (
    PACKAGED,
    SentenceTransformerEmbeddings,
    named_embeddings,
)
from ragweave.tools.retrieval.onnx_embedding import OnnxEmbeddings

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
    if given is not None or name is None or name.startswith(_OBJECT):
        return given
    return named_embeddings(name)


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


def tokenizer_of(settings: Settings, embeddings: Embeddings | None) -> Tokens:
    """Return the tokenizer that cuts texts: the embedding model's own where tokens are the unit."""
    if settings.counts_tokens and isinstance(
        embeddings, SentenceTransformerEmbeddings | OnnxEmbeddings
    ):
        return embeddings.token_spans
    return simple_tokens
