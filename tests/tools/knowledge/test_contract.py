"""The contract of a knowledge base, in a folder, on PostgreSQL, and in Qdrant's local mode."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from tests import postgres_server

from ragweave.errors import KnowledgeBaseError
from ragweave.testing.store import LINES, KnowledgeStoreTests, WordEmbeddings
from ragweave.tools.knowledge import KnowledgeBase, ServedKnowledgeBase

_NUMBERS = count()


def plain(embeddings: Embeddings | None) -> dict[str, Any]:
    return {"embedding": None} if embeddings is None else {}


class TestFolder(KnowledgeStoreTests):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def create(self, embeddings: Embeddings | None) -> KnowledgeBase:
        return KnowledgeBase.create(
            self.folder / f"kb{next(_NUMBERS)}", settings=plain(embeddings), embeddings=embeddings
        )


class TestLance(KnowledgeStoreTests):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        pytest.importorskip("lancedb")
        self.folder = tmp_path

    def create(self, embeddings: Embeddings | None) -> ServedKnowledgeBase:
        return ServedKnowledgeBase(f"lance:{self.folder}/kb{next(_NUMBERS)}", embeddings, plain(embeddings))


class TestChromaFolder(KnowledgeStoreTests):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        pytest.importorskip("chromadb")
        self.folder = tmp_path

    def create(self, embeddings: Embeddings | None) -> ServedKnowledgeBase:
        address = f"chroma:{self.folder}/chroma#papers{next(_NUMBERS)}"
        return ServedKnowledgeBase(address, embeddings, plain(embeddings))


@pytest.fixture(scope="module")
def server(socket_enabled_for_module: None) -> Iterator[str]:
    pytest.importorskip("pgvector")
    if postgres_server.binaries() is None:
        pytest.skip("no PostgreSQL with pgvector")
    with postgres_server.postgres() as url:
        yield url


@pytest.mark.loopback
class TestPostgres(KnowledgeStoreTests):
    @pytest.fixture(autouse=True)
    def _url(self, server: str) -> None:
        self.url = server

    def create(self, embeddings: Embeddings | None) -> ServedKnowledgeBase:
        return ServedKnowledgeBase(f"pg:{self.url}#papers{next(_NUMBERS)}", embeddings, plain(embeddings))


def engines(server: str, folder: Path) -> Iterator[str]:
    """Yield the addresses of stores that several hosts may write to."""
    yield f"lance:{folder}/shared"
    yield f"pg:{server}#shared{next(_NUMBERS)}"


@pytest.mark.loopback
def test_hosts_that_write_at_once_lose_and_double_nothing(server: str, tmp_path: Path) -> None:
    pytest.importorskip("lancedb")
    for address in engines(server, tmp_path):
        ServedKnowledgeBase(address, WordEmbeddings()).close()

        def write(number: int, address: str = address) -> None:
            with ServedKnowledgeBase(address, WordEmbeddings()) as kb:
                own = [Document(f"Passage {at} of {number} at Alden.") for at in range(number % 3 + 1)]
                kb.index_documents(own, f"own {number}")
                kb.index_documents(own, "shared")

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, range(9)))
        with ServedKnowledgeBase(address, WordEmbeddings()) as kb:
            counts = Counter(doc.metadata["source"] for doc in kb.passages())
            shared = {
                doc.page_content.split(" at ")[0][-1] for doc in kb.passages() if doc.metadata["source"] == "shared"
            }
            assert len(shared) == 1, "passages of several writes stand side by side"
            assert counts.pop("shared") == int(*shared) % 3 + 1
            assert counts == {f"own {number}": number % 3 + 1 for number in range(9)}
            assert len(kb) == sum(counts.values()) + int(*shared) % 3 + 1


@pytest.mark.loopback
def test_a_view_keeps_its_state(server: str, tmp_path: Path) -> None:
    pytest.importorskip("lancedb")
    for address in engines(server, tmp_path):
        with (
            ServedKnowledgeBase(address, WordEmbeddings()) as kb,
            ServedKnowledgeBase(address, WordEmbeddings()) as other,
        ):
            kb.add([Document(line) for line in LINES], "spices")
            failed = WordEmbeddings()
            with pytest.raises(KnowledgeBaseError), ServedKnowledgeBase(address, failed) as third:
                failed.before = refuse
                third.index_documents([Document("honey is gold")], "spices")
            assert [doc.page_content for doc in other.passages()] == [*LINES]
            kb.index_documents([Document("honey is gold")], "spices")
            assert [doc.page_content for doc in other.passages()] == ["honey is gold"]
            assert other.as_retriever(9, "graph").invoke("white salt")[0].page_content == "honey is gold"


def refuse() -> None:
    raise OSError("refused")


@pytest.mark.loopback
def test_postgres_answers_by_its_indexes(server: str) -> None:
    import psycopg

    name = f"plans{next(_NUMBERS)}"
    with ServedKnowledgeBase(f"pg:{server}#{name}", WordEmbeddings()) as kb:
        texts = (f"Passage number{number} of City{number % 50} by Person{number % 97} Smith" for number in range(2000))
        kb.add([Document(text, metadata={"tenant": at % 500}) for at, text in enumerate(texts)], "all")
    with psycopg.connect(server, autocommit=True) as db:
        db.execute(f"SET search_path TO {name}, public")
        db.execute("ANALYZE")
        db.execute("SET enable_seqscan = off")
        vector = WordEmbeddings().embed_query("City7")
        for index, query, values in (
            ("vectors", "SELECT id FROM passages ORDER BY vector <=> %s::vector LIMIT 20", [str(vector)]),
            ("passages_terms_idx", "SELECT id FROM passages WHERE terms @@ 'number7'::tsquery", []),
            ("passages_fields_idx", 'SELECT id FROM passages WHERE fields @> \'{"tenant": {"number": [7]}}\'', []),
            ("mentions_pkey", "SELECT passage, about FROM mentions WHERE name = 'city7' LIMIT 301", []),
        ):
            plan = "\n".join(row for (row,) in db.execute(f"EXPLAIN {query}", values))
            assert f"using {index}" in plan or f"on {index}" in plan, plan


@pytest.mark.loopback
def test_a_killed_writer_leaves_one_state(server: str, tmp_path: Path) -> None:
    pytest.importorskip("lancedb")
    code = """
        import sys
        from langchain_core.documents import Document
        from ragweave.testing.store import WordEmbeddings
        from ragweave.tools.knowledge import ServedKnowledgeBase
        with ServedKnowledgeBase(sys.argv[1], WordEmbeddings()) as kb:
            for number in range(int(sys.argv[2]), 1_000_000):
                kb.index_documents([Document(f"State {number} of Alden, part {at}.") for at in range(20)], "all")
                print(number, flush=True)
    """
    for address in engines(server, tmp_path):
        last = 0
        with ServedKnowledgeBase(address, WordEmbeddings()) as kb:
            for _ in range(3):
                command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code), address, str(last + 1)]
                with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
                    assert child.stdout is not None
                    child.stdout.readline()
                    for _ in range(3):
                        assert len({doc.page_content.split()[1] for doc in kb.passages()}) == 1
                    child.kill()
                    written = [*map(int, child.stdout.read().split())]
                states = [int(doc.page_content.split()[1]) for doc in kb.passages()]
                assert len(states) == 20 and len({*states}) == 1 and states[0] >= max(written, default=0)
                assert kb.as_retriever(20, "graph").invoke(f"State {states[0]} of Alden")
                assert kb.check() == []
                last = states[0]


@pytest.mark.loopback
def test_postgres_leaves_other_tables_alone(server: str) -> None:
    import psycopg

    with psycopg.connect(server, autocommit=True) as db:
        db.execute("CREATE TABLE IF NOT EXISTS public.settings (mine text)")
        db.execute('CREATE SCHEMA IF NOT EXISTS "my ""own"""; CREATE TABLE IF NOT EXISTS "my ""own""".mine (a int)')
        for _ in range(2):
            with ServedKnowledgeBase(f'pg:{server}#my "own"', WordEmbeddings()) as kb:
                kb.add(Document("salt is white"))
                assert kb.as_retriever(1).invoke("salt") and kb.drop() == 1
        assert db.execute('SELECT count(*) FROM public.settings, "my ""own""".mine').fetchone() == (0,)
        db.execute("DROP TABLE public.settings")
