"""PostgreSQL: its words, its statistics and its connections."""

from __future__ import annotations

import itertools
import random
from importlib.util import find_spec

import pytest
from langchain_core.documents import Document

from ragweave.errors import KnowledgeBaseError
from ragweave.testing.store import WordEmbeddings
from ragweave.tools.knowledge import KnowledgeBase, Settings
from ragweave.tools.knowledge.checking import check, repair
from ragweave.tools.knowledge.served_checking import drop_served
from ragweave.tools.retrieval import Bm25Retriever
from ragweave.tools.stores import Address, postgres_bm25
from ragweave.tools.stores.postgres_texts import word_of

pytestmark = [
    pytest.mark.loopback,
    pytest.mark.skipif(find_spec("psycopg") is None, reason="needs ragweave[postgres]"),
]
WORDS = Settings(embedding=None)
NUMBERS = itertools.count()


@pytest.fixture
def address(database: str) -> str:
    return f"pg:{database}#t{next(NUMBERS)}"


def _ranked(kb: KnowledgeBase, query: str) -> list[tuple[str | None, float]]:
    found = kb.as_retriever(5, "bm25").invoke(query)
    return [(doc.id, doc.metadata["score"]) for doc in found]


def test_an_open_reader_ranks_by_what_was_made_anew(address: str) -> None:
    with KnowledgeBase.create(address, settings=WORDS) as kb:
        kb.add([Document("zebra one")])
        assert _ranked(kb, "zebra")
        drop_served(Address.parse(address))
        with KnowledgeBase.create(address, settings=WORDS) as again:
            again.add([Document(f"common zebra word {n}") for n in range(30)])
            told = _ranked(again, "common zebra")
        assert _ranked(kb, "common zebra") == told
        assert told[0][1] > 0


@pytest.mark.parametrize("few", [0, 1_000])
def test_a_passage_of_several_sources_counts_once(
    address: str, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_bm25, "_FEW", few)
    docs = [
        Document("the shared licence text", id="shared"),
        Document("a licence to fish in the river", id="fish"),
        Document("river boats", id="boats"),
    ]
    with KnowledgeBase.create(address, settings=WORDS) as kb:
        for source in ("x", "y", "z"):
            kb.add(docs[:1], source)
        kb.add(docs[1:], "w")
        for query in ("licence river", "text", "boats licence"):
            told = Bm25Retriever.from_documents(docs, k=5).invoke(query)
            scores = {doc.id: pytest.approx(doc.metadata["score"], abs=1e-4) for doc in told}
            assert dict(_ranked(kb, query)) == scores, query


@pytest.mark.parametrize("few", [0, 1_000])
def test_repeats_that_come_and_go(address: str, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_bm25, "_FEW", few)
    made = random.Random(5)
    words = ["salt", "sea", "ship", "sail", "storm", "star"]
    texts = (" ".join(made.choices(words, k=made.randint(2, 9))) for _ in range(60))
    docs = [Document(f"{text} {n}", id=f"d{n}") for n, text in enumerate(texts)]
    with KnowledgeBase.create(address, settings=WORDS) as kb:
        kb.add(docs, "all")
        for source, part in (("x", docs[:20]), ("y", docs[10:30]), ("z", docs[25:26])):
            kb.add(part, source)
            _agree(kb, docs)
        assert kb.delete_source("all")
        _agree(kb, docs[:30])


def _agree(kb: KnowledgeBase, docs: list[Document]) -> None:
    """Assert that a knowledge base scores as the folder's BM25 does."""
    for query in ("salt", "sea storm", "ship sail star star"):
        told = Bm25Retriever.from_documents(docs, k=len(docs)).invoke(query)
        scores = {doc.id: pytest.approx(doc.metadata["score"], abs=1e-4) for doc in told}
        found = kb.as_retriever(len(docs), "bm25").invoke(query)
        assert {doc.id: doc.metadata["score"] for doc in found} == scores, query


def test_an_open_reader_counts_once_what_was_repaired(address: str, database: str) -> None:
    import psycopg

    docs = [Document("zebra stripes", id="shared"), Document("zebra crossing", id="other")]
    with KnowledgeBase.create(address, settings=WORDS) as kb:
        kb.add(docs[:1], "x")
        kb.add(docs, "y")
        told = _ranked(kb, "zebra")
        table = f"ragweave_{Address.parse(address).collection}_words"
        with psycopg.connect(database, autocommit=True) as own:
            own.execute(f"DELETE FROM {table}")
        repair(address, check(address))
        assert _ranked(kb, "zebra") == told


def test_each_word_is_weighed_once(address: str) -> None:
    with KnowledgeBase.create(address, settings=WORDS) as kb:
        kb.add([Document("salt of the sea")])
        store = kb._home.store  # type: ignore[union-attr]
        values = {"words": ["salt"], "asked": [1], "g": 1, "n": 1, "N": 1, "mean": 1.0}
        with store._connections.one() as do:
            plan = do(f"EXPLAIN {store._bm25._query([])}", values).fetchall()
        assert "CTE weights" in [line.strip() for (line,) in plan]


def test_words_of_any_length_are_kept_and_found(address: str) -> None:
    made = random.Random(3)
    hexadecimal = "".join(made.choice("0123456789abcdef") for _ in range(8_000))
    chinese = "".join(chr(made.randrange(0x4E00, 0x9FA5)) for _ in range(1_500))
    other = f"{hexadecimal[:-1]}x"
    with KnowledgeBase.create(address, settings=WORDS) as kb:
        words = [Document(f"key {one}", id=one[:3] + one[-1]) for one in (hexadecimal, chinese)]
        kb.add(words, split=False)
        for word in (hexadecimal, chinese):
            assert [id_ for id_, _ in _ranked(kb, word)] == [word[:3] + word[-1]]
        assert _ranked(kb, other) == []
        assert check(address) == []


def test_a_long_word_is_cut_within_the_index() -> None:
    long = "é" * 3_000
    assert len(word_of(long).encode()) <= 2_000
    assert word_of(long) != word_of(f"{long}e")
    assert word_of("short") == "short"


def test_a_dropped_connection_fails_no_request(address: str, database: str) -> None:
    import psycopg

    with KnowledgeBase.create(address, settings=WORDS) as kb:
        kb.add([Document("zebra one")])
        connections = kb._home.store._connections  # type: ignore[union-attr]
        with connections.one(), connections.one(), connections.one():
            pass
        assert len(connections._idle) == 3
        with psycopg.connect(database, autocommit=True) as own:
            own.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                "WHERE application_name = 'ragweave'"
            )
        assert _ranked(kb, "zebra")
        assert len(connections._idle) == 1


def test_what_the_server_refuses_is_not_called_unreachable(address: str) -> None:
    with KnowledgeBase.create(address, settings=WORDS) as kb:
        store = kb._home.store  # type: ignore[union-attr]
        connections = store._connections
        for statement in ("SELECT 1/0", "SET LOCAL statement_timeout = 1; SELECT pg_sleep(9)"):
            with (
                pytest.raises(KnowledgeBaseError, match="cannot be used"),
                connections.one() as do,
            ):
                do(statement)
        with pytest.raises(KnowledgeBaseError, match="cannot be reached"), connections.one() as do:
            do("SELECT pg_terminate_backend(pg_backend_pid())")
        assert connections._idle == []


def test_a_name_with_a_zero_character(address: str) -> None:
    name = "a\x00b"
    with KnowledgeBase.create(address, embeddings=WordEmbeddings()) as kb:
        kb.add([Document("salt is white", metadata={"title": name})], name)
        (doc,) = kb.as_retriever(1, "dense").invoke("salt")
        assert doc.metadata["source"] == doc.metadata["title"] == name
        assert check(address) == []
        assert kb.delete_source(name)
        assert len(kb) == 0


def test_a_repair_without_the_model_keeps_the_vectors(address: str) -> None:
    lines = ("salt is white", "pepper is black", "sugar is sweet")
    with KnowledgeBase.create(address, embeddings=WordEmbeddings()) as kb:
        kb.add([Document(line) for line in lines])
        store = kb._home.store  # type: ignore[union-attr]
        with store._connections.one() as do:
            do(f"DELETE FROM {store._words}")
            do(f"UPDATE {store._rows} SET embedding = NULL WHERE text = %s", (lines[0],))
        assert repair(address, check(address)) == 0
        assert len(kb.as_retriever(9, "dense").invoke("salt")) == 2
        assert [one.text for one in check(address)] == ["1 passage has no vector of its own"]
        assert repair(address, check(address), embeddings=WordEmbeddings()) == 1
        assert check(address) == []
