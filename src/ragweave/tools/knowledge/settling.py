"""What the settings of a knowledge base leave open, settled when it is made or opened again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from langchain_core.embeddings import Embeddings

from ragweave.errors import UsageError
from ragweave.tools.knowledge.chunking import chunker_of
from ragweave.tools.knowledge.embedding import embedding_name, own_tokens
from ragweave.tools.knowledge.folder import Home
from ragweave.tools.knowledge.manifest import Settings
from ragweave.tools.knowledge.served import Served
from ragweave.tools.retrieval.embedding import (
    PACKAGED,
    check_embedding_model,
    packaged_available,
    prefixes_of,
)


def resolved(settings: Settings, embeddings: Embeddings | None, home: Home) -> Settings:
    """Resolve `auto`, drop the model where an object is given, and make local paths absolute."""
    if embeddings is not None:
        return replace(settings, embedding=None).resolved()
    if settings.embedding == "auto" and isinstance(home, Served):
        settings = replace(settings, embedding=PACKAGED if packaged_available() else None)
    made = settings.resolved()
    spec = made.embedding
    if spec is not None and Path(spec).expanduser().is_dir():
        spec = str(Path(spec).expanduser().absolute())
    return replace(made, embedding=spec)


def settled(
    settings: Settings, embeddings: Embeddings | None, home: Home
) -> tuple[Settings, str | None]:
    """Return the settings of a new knowledge base and the manifest's name for its model.

    Nothing is written before all that they name is known to be there.

    Args:
        settings: What `resolved` returned.
        embeddings: The object that was given.
        home: Where it will be.

    Raises:
        UsageError: There is no such chunker or model, or no tokenizer to count tokens with.
        MissingExtraError: What they need is not installed.
    """
    name = embedding_name(settings, embeddings)
    home.check_extras(name)
    if settings.embedding is not None:
        check_embedding_model(settings.embedding)
    chunker_of(settings)
    if settings.counts_tokens and own_tokens(name, embeddings) is None:
        how = "leave the embeddings object out, name its model, and open it with the object later"
        named = "name one (--embedding minilm)" if embeddings is None else how
        other = "take another chunker" if settings.chunker == "token" else "count words"
        raise UsageError(
            f"tokens are counted by the tokenizer of a named embedding model: {named}, or {other}"
        )
    query, passage = prefixes_of(settings.embedding) if settings.embedding else ("", "")
    return _with_prefixes(settings, query, passage), name


def as_held(settings: Settings, embeddings: Embeddings | None, held: Settings) -> Settings:
    """Return settings in which what is left open is as a knowledge base has it."""
    if settings.html == "auto":
        settings = replace(settings, html=held.html)
    if settings.embedding == "auto" and embeddings is None:
        settings = replace(settings, embedding=held.embedding)
    return with_prefixes_of(settings, held)


def with_prefixes_of(settings: Settings, held: Settings) -> Settings:
    """Return settings whose prefixes, where they are left open, are those of others."""
    return _with_prefixes(settings, held.query_prefix, held.passage_prefix)


def _with_prefixes(settings: Settings, query: str | None, passage: str | None) -> Settings:
    """Return settings with these prefixes where they are left open.

    None means none from here on; "" that none was asked for, whatever the model is.
    """
    given_query, given_passage = settings.query_prefix, settings.passage_prefix
    return replace(
        settings,
        query_prefix=(query or None) if given_query is None else given_query,
        passage_prefix=(passage or None) if given_passage is None else given_passage,
    )
