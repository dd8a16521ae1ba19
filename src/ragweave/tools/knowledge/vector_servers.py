"""Vector servers by LangChain's stores: each opens a collection, or makes it if `create`, and searches it.

pg:postgresql://user@host/db#papers      langchain-postgres: vectors and words, fused
qdrant:http://host:6333#papers           langchain-qdrant: hybrid by sparse vectors
es:http://host:9200#papers               langchain-elasticsearch: hybrid by BM25
chroma:http://host:8000#papers           langchain-chroma: vectors; also chroma:FOLDER#papers
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from ragweave.tools.embeddings.named import unit
from ragweave.tools.knowledge.settings import IndexSettings
from ragweave.tools.knowledge.store import AnyOf
from ragweave.tools.retrieval.analyzer import analyzer_for
from ragweave.tools.retrieval.base import with_score
from ragweave.tools.retrieval.retrievers import DEPTH, fused

FilteredSearch = Callable[[str, int, AnyOf], list[Document]]
"""Query, k and filter to documents with `metadata["score"]`, best first."""
Collection = tuple[VectorStore, FilteredSearch]
"""A collection of a server, and how it is searched."""


def _by_store(store: VectorStore, native: Callable[[AnyOf], Any], *, distances: bool = False) -> Collection:
    """Return a collection that its store searches; `native` translates filters, `distances` are 1 - cosine."""

    def search(query: str, k: int, chosen: AnyOf) -> list[Document]:
        more = {"filter": native(chosen)} if chosen else {}
        scored = store.similarity_search_with_score(query, k=k, **more)
        return [with_score(doc, 1 - float(score) if distances else float(score)) for doc, score in scored]

    return store, search


def postgres(url: str, name: str, embeddings: Embeddings, settings: IndexSettings, create: bool) -> Collection:
    """Open a table of PostgreSQL with pgvector."""
    import psycopg
    from langchain_postgres import PGEngine, PGVectorStore
    from langchain_postgres.v2.hybrid_search_config import HybridSearchConfig
    from sqlalchemy import NullPool

    # Without a pool nothing stays open: the store has no way to close it but an async one.
    engine = PGEngine.from_connection_string(
        url.replace("postgresql://", "postgresql+psycopg://", 1), poolclass=NullPool
    )
    language, table = f"pg_catalog.{settings.language}", '"{}"'.format(name.replace('"', '""'))
    words = HybridSearchConfig(tsv_column="content_tsv", tsv_lang=language)
    with psycopg.connect(url) as db:
        (known,) = db.execute("SELECT to_regclass(%s)", (table,)).fetchone() or (None,)
    if create and known is None:
        engine.init_vectorstore_table(name, len(embeddings.embed_query("size")), hybrid_search_config=words)
    store = PGVectorStore.create_sync(engine, embeddings, name, hybrid_search_config=words)
    # langchain-postgres searches for passages with all words of its first query. These statements
    # search for any word of the current query.
    sql = (
        "SELECT langchain_id::text, content, langchain_metadata, {} AS score FROM {} WHERE {} AND NOT EXISTS "
        "(SELECT FROM jsonb_each(%(chosen)s) WHERE langchain_metadata::jsonb -> key <@ value IS NOT TRUE) "
        "ORDER BY score DESC, langchain_id LIMIT %(k)s"
    )
    query_words = "replace(plainto_tsquery(%(language)s::regconfig, %(query)s)::text, '&', '|')::tsquery"
    parts = (
        (f"ts_rank_cd(content_tsv, {query_words})", f"content_tsv @@ {query_words}"),
        ("1 - (embedding <=> %(vector)s::vector)", "true"),
    )

    def search(query: str, k: int, chosen: AnyOf) -> list[Document]:
        vector = json.dumps(unit([embeddings.embed_query(query)])[0].tolist())
        values = {"query": query, "language": language, "vector": vector, "chosen": json.dumps(chosen)}
        rankings = []
        with psycopg.connect(url) as db:
            for score, where in parts:
                rows = db.execute(sql.format(score, table, where), {**values, "k": max(k, DEPTH)})
                rankings.append(
                    [with_score(Document(text, id=ident, metadata=m), float(n)) for ident, text, m, n in rows]
                )
        return fused(rankings, k)

    return store, search


def qdrant(url: str, name: str, embeddings: Embeddings, settings: IndexSettings, create: bool) -> Collection:
    """Open a collection of Qdrant; `:memory:` is a collection in this process."""
    from langchain_qdrant import QdrantVectorStore, RetrievalMode, SparseEmbeddings, SparseVector
    from qdrant_client import QdrantClient, models

    analyzer = analyzer_for(settings.language)

    class Bm25(SparseEmbeddings):  # type: ignore[misc, unused-ignore]
        """BM25's term weights; Qdrant multiplies them by the inverse document frequency."""

        def embed_documents(self, texts: list[str]) -> list[SparseVector]:
            return [
                self._vector(analyzer.index_terms(text), lambda tf, n: tf * 2.5 / (tf + 0.4 + n / 100))
                for text in texts
            ]

        def embed_query(self, text: str) -> SparseVector:
            return self._vector(analyzer.terms(text), lambda tf, _: tf)

        def _vector(self, terms: list[str], weigh: Callable[[int, int], float]) -> SparseVector:
            hashes = [hashlib.blake2b(t.encode(), digest_size=4).digest() for t in terms]
            counts = sorted(Counter(int.from_bytes(digest, "little") for digest in hashes).items())
            weights = [weigh(tf, len(hashes)) for _, tf in counts]
            return SparseVector(indices=[number for number, _ in counts], values=weights)

    client = QdrantClient(url, api_key=os.environ.get("QDRANT_API_KEY"))
    if create and not client.collection_exists(name):
        size = len(embeddings.embed_query("size"))
        client.create_collection(
            name,
            {"": models.VectorParams(size=size, distance=models.Distance.COSINE)},
            {"words": models.SparseVectorParams(modifier=models.Modifier.IDF)},
        )
    store = QdrantVectorStore(
        client, name, embeddings, RetrievalMode.HYBRID, sparse_embedding=Bm25(), sparse_vector_name="words"
    )

    def equal(name: str, value: Any) -> models.FieldCondition:
        if isinstance(value, float):  # which a match does not take
            return models.FieldCondition(key=f"metadata.{name}", range=models.Range(gte=value, lte=value))
        return models.FieldCondition(key=f"metadata.{name}", match=models.MatchValue(value=value))

    def native(chosen: AnyOf) -> models.Filter:
        any_of = (models.Filter(should=[equal(name, value) for value in values]) for name, values in chosen.items())
        return models.Filter(must=[*any_of])

    return _by_store(store, native)


def elasticsearch(url: str, name: str, embeddings: Embeddings, _settings: IndexSettings, _create: bool) -> Collection:
    """Open an index of Elasticsearch, which the first write makes."""
    from langchain_elasticsearch import DenseVectorStrategy, ElasticsearchStore

    # Elastic's own rank fusion needs a paid licence; without it the scores are added.
    strategy = DenseVectorStrategy(hybrid=True, rrf=False)
    key = os.environ.get("ELASTIC_API_KEY")
    store = ElasticsearchStore(name, embedding=embeddings, es_url=url, es_api_key=key, strategy=strategy)

    def native(chosen: AnyOf) -> list[dict[str, Any]]:
        names = {name: f"metadata.{name}{'.keyword' * isinstance(any_of[0], str)}" for name, any_of in chosen.items()}
        return [{"terms": {names[name]: values}} for name, values in chosen.items()]

    return _by_store(store, native)


def chroma(url: str, name: str, embeddings: Embeddings, _settings: IndexSettings, create: bool) -> Collection:
    """Open a collection of a Chroma server, or of a folder."""
    from langchain_chroma import Chroma

    if "://" not in url and not create and not Path(url).is_dir():
        raise FileNotFoundError(f"no such folder: {url}")
    place: dict[str, Any] = {"host" if "://" in url else "persist_directory": url}
    store = Chroma(
        name,
        embeddings,
        collection_configuration={"hnsw": {"space": "cosine"}},
        create_collection_if_not_exists=create,
        **place,
    )

    def joined(word: str, clauses: list[Any]) -> Any:
        return clauses[0] if len(clauses) == 1 else {word: clauses}  # which takes at least two

    def native(chosen: AnyOf) -> Any:
        return joined("$and", [joined("$or", [{name: value} for value in values]) for name, values in chosen.items()])

    return _by_store(store, native, distances=True)


SERVERS: dict[str, tuple[Callable[[str, str, Embeddings, IndexSettings, bool], Collection], str]] = {
    "pg": (postgres, "postgres"),
    "qdrant": (qdrant, "qdrant"),
    "es": (elasticsearch, "elasticsearch"),
    "chroma": (chroma, "chroma"),
}
"""How a collection is opened, and the extra that brings the client, by the kind of server."""
