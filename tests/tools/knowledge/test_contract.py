"""The contract of a knowledge base, in a folder, in LanceDB (on S3 too), PostgreSQL and Chroma; kills and second writers."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from tests import postgres_server, s3_server

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


@pytest.fixture(scope="module")
def bucket(socket_enabled_for_module: None) -> Iterator[str]:
    pytest.importorskip("lancedb")
    pytest.importorskip("moto", reason="moto's botocore excludes the python-dateutil that chromadb's kubernetes needs")
    with s3_server.bucket() as url:
        yield url


@pytest.mark.loopback
class TestLanceOnS3(KnowledgeStoreTests):
    @pytest.fixture(autouse=True)
    def _bucket(self, bucket: str) -> None:
        self.bucket = bucket

    def create(self, embeddings: Embeddings | None) -> ServedKnowledgeBase:
        return ServedKnowledgeBase(f"lance:{self.bucket}/kb{next(_NUMBERS)}", embeddings, plain(embeddings))


def place(kind: str, request: pytest.FixtureRequest) -> str:
    """Return where a new knowledge base of a kind may be made."""
    name, folder = f"kb{next(_NUMBERS)}", request.getfixturevalue("tmp_path")
    if kind == "pg":
        return f"pg:{request.getfixturevalue('server')}#{name}"
    if kind == "s3":
        return f"lance:{request.getfixturevalue('bucket')}/{name}"
    if kind == "folder":
        return f"{folder}/{name}"
    if kind == "chroma":
        return f"chroma:{request.getfixturevalue('chroma')}#{name}"
    pytest.importorskip("lancedb")
    return f"lance:{folder}/{name}"


@pytest.fixture(params=["lance", "s3", "pg"])
def address(request: pytest.FixtureRequest) -> str:
    """Return an address to which several hosts may write."""
    return place(request.param, request)


@pytest.mark.loopback
def test_hosts_that_write_at_once_lose_and_double_nothing(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if address.startswith("lance:"):  # so that they merge files and indexes at once, too
        monkeypatch.setattr("ragweave.tools.knowledge.lance._UNINDEXED", 4)
    ServedKnowledgeBase(address, WordEmbeddings()).close()

    def write(number: int) -> None:
        with ServedKnowledgeBase(address, WordEmbeddings()) as kb:
            own = [Document(f"Passage {at} of {number} at Alden.") for at in range(number % 3 + 1)]
            kb.index_documents(own, f"own {number}")
            kb.index_documents(own, "shared")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(9)))
    with ServedKnowledgeBase(address, WordEmbeddings()) as kb:
        counts = Counter(doc.metadata["source"] for doc in kb.passages())
        shared = {doc.page_content.split(" at ")[0][-1] for doc in kb.passages() if doc.metadata["source"] == "shared"}
        assert len(shared) == 1, "passages of several writes stand side by side"
        assert counts.pop("shared") == int(*shared) % 3 + 1
        assert counts == {f"own {number}": number % 3 + 1 for number in range(9)}
        assert len(kb) == sum(counts.values()) + int(*shared) % 3 + 1


@pytest.mark.loopback
def test_a_view_keeps_its_state(address: str) -> None:
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


def test_lance_stores_a_common_name_of_a_few_passages_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lancedb = pytest.importorskip("lancedb")
    monkeypatch.setattr("ragweave.tools.knowledge.lance._RARE", 10)
    monkeypatch.setattr("ragweave.tools.knowledge.graph.MAX_PASSAGES", 4)
    written = ["Mara Lind", "Mara Lind", "Mara Lind", *("no name" for _ in range(17)), "Tin Harbour"]
    with ServedKnowledgeBase(f"lance:{tmp_path}/kb", WordEmbeddings()) as kb:
        for number in range(3):
            kb.add([Document(f"about {name} {number} {at}") for at, name in enumerate(written)], f"part {number}")
        for number in range(3):
            kb.add(Document(f"about Tin Harbour, again {number}"), "later")
    database = lancedb.connect(tmp_path / "kb")
    (table,) = database.list_tables().tables
    names = database.open_table(table).search().where("kind = 'passage'").limit(None).to_arrow()["names"].to_pylist()
    counts = Counter(name for own in names for name in own.split())
    assert counts["mara_lind"] == counts["tin_harbour"] == 5


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
def test_postgres_scores_words_as_a_folder_does(server: str, tmp_path: Path) -> None:
    draw = random.Random(7)
    texts = (
        " ".join(f"w{int(draw.paretovariate(0.7)) % 200}" for _ in range(draw.choice([9, 99, 999]))) for _ in range(300)
    )
    docs, found = [Document(text, id=str(at)) for at, text in enumerate(texts)], []
    with (
        KnowledgeBase.create(tmp_path / "kb", settings={"embedding": None}) as folder,
        ServedKnowledgeBase(f"pg:{server}#words{next(_NUMBERS)}", settings={"embedding": None}) as served,
    ):
        for kb in (folder, served):
            kb.add(docs, "all", split=False)
            best = kb.as_retriever(100, "bm25").invoke("w1 w2 w3 w7 w150")
            found.append({doc.id: doc.metadata["score"] for doc in best})
    assert found[0].keys() == found[1].keys() and found[1] == pytest.approx(found[0], rel=1e-5)


@pytest.mark.loopback
def test_postgres_finds_two_common_words_together(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragweave.tools.knowledge.postgres.SCORED", 10)
    texts = [*("salt is white" for _ in range(20)), *("pepper is black" for _ in range(20)), "salt beside pepper"]
    docs = [Document(text, id=str(at)) for at, text in enumerate(texts)]
    with ServedKnowledgeBase(f"pg:{server}#common{next(_NUMBERS)}", settings={"embedding": None}) as kb:
        kb.add(docs, "all")
        found = kb.as_retriever(3, "bm25").invoke("salt pepper")
    assert [doc.page_content for doc in found[:1]] == ["salt beside pepper"] and len(found) > 1


_WRITER = """
    import sys
    from langchain_core.documents import Document
    from ragweave.testing.store import WordEmbeddings
    from ragweave.tools.knowledge import open_knowledge_base
    with open_knowledge_base(sys.argv[1], embeddings=WordEmbeddings()) as kb:
        for number in range(int(sys.argv[2]), 1_000_000):
            kb.index_documents([Document(f"State {number} of Alden, part {at}.") for at in range(20)], "all")
            print(number, flush=True)
"""


@pytest.mark.loopback
@pytest.mark.parametrize("kills", [1, pytest.param(50, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("kind", ["folder", "lance", "s3", "pg", "chroma"])
def test_a_killed_writer_leaves_one_state(kind: str, kills: int, request: pytest.FixtureRequest) -> None:
    """In Chroma, which has no transactions, it does so once the source has been indexed again."""
    address, last, moments = place(kind, request), 0, random.Random(7)
    make = KnowledgeBase.open_or_create if kind == "folder" else ServedKnowledgeBase
    opened = partial(make, address, embeddings=WordEmbeddings())
    opened().close()
    for _ in range(kills):
        command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(_WRITER), address, str(last + 1)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            first = child.stdout.readline()
            if kind != "chroma":
                with opened() as kb:
                    assert len(states_in(kb)) == 1
            time.sleep(moments.random() / 5)
            child.kill()
            last = max(map(int, (first + child.stdout.read()).split()))
        with opened() as kb:
            for _ in range(5 * (kind == "chroma")):  # a request of the killed writer may arrive after ours
                last += 2
                kb.index_documents([Document(f"State {last} of Alden, part {at}.") for at in range(20)], "all")
                if len(states_in(kb)) == 1:
                    break
            ((state, passages),) = states_in(kb).items()
            assert state >= last and passages == 20
            assert kb.as_retriever(20).invoke(f"State {state} of Alden")
            assert kb.check() == []
            last = state


def test_a_passage_that_lost_its_vector_in_lance_gets_one_again(tmp_path: Path) -> None:
    lancedb = pytest.importorskip("lancedb")
    for name, line in zip("ab", LINES, strict=False):
        (tmp_path / f"{name}.txt").write_text(line)
    with ServedKnowledgeBase(f"lance:{tmp_path}/kb", WordEmbeddings()) as kb:
        kb.index_paths(tmp_path.glob("*.txt"))
        table = lancedb.connect(f"{tmp_path}/kb").open_table("passages")
        table.update(where=f"text = '{LINES[0]}'", values_sql={"vector": "NULL"})
        assert kb.check() == ["1 passages have no vector"]
        kb.rebuild()
        assert kb.index_paths(tmp_path.glob("*.txt")).changed == 1
        assert kb.check() == []


def test_lance_indexes_new_passages_without_writing_the_old_again(tmp_path: Path) -> None:
    """Each segment of an index takes in those after it that are not larger; what was replaced is found in none."""
    lancedb = pytest.importorskip("lancedb")
    segments = []
    with ServedKnowledgeBase(f"lance:{tmp_path}/kb", WordEmbeddings()) as kb:
        for word, count in (("old", 900), ("new", 400), ("few", 40), ("last", 200), ("more", 500)):
            own = range(count) if word != "more" else range(1000, 1500)
            kb.add([Document(f"{word}word of City{at}", id=str(at)) for at in own], "all", split=False)
            data = lancedb.connect(f"{tmp_path}/kb").open_table("passages").to_lance()
            segments.append(
                [round(rows, -1) for rows in data.stats.index_stats("terms_idx")["num_indexed_rows_per_delta"]]
            )
            found = kb.as_retriever(999, "bm25").invoke("oldword")
            assert {doc.page_content.split()[0] for doc in found} == {"oldword"}
            assert kb.as_retriever(1, "bm25").invoke(f"{word}word")[0].page_content.startswith(word)
        counts = Counter(doc.page_content.split()[0] for doc in kb.passages())
        assert counts == {"oldword": 500, "newword": 200, "lastword": 200, "moreword": 500}
    assert segments == [[900], [500, 400], [500, 360], [500, 400], [1400]]


def test_a_chroma_folder_is_read_anew_after_another_process_wrote(tmp_path: Path) -> None:
    pytest.importorskip("chromadb")
    address = f"chroma:{tmp_path}/chroma#papers"
    with ServedKnowledgeBase(address, WordEmbeddings()) as kb:
        kb.add(Document("salt is white"), "salt")
        assert kb.as_retriever(1).invoke("salt")
    script = _WRITER.replace("1_000_000", "int(sys.argv[2]) + 2")
    subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(script), address, "7"], check=True)
    with ServedKnowledgeBase(address, WordEmbeddings()) as kb:
        assert [doc.metadata["source"] for doc in kb.passages()].count("all") == len(kb) - 1 == 20
        assert kb.as_retriever(1).invoke("State 8 of Alden, part 3.")[0].page_content == "State 8 of Alden, part 3."


def states_in(kb: Any) -> Counter[int]:
    """Return the number of passages of each state that a knowledge base holds."""
    return Counter(int(doc.page_content.split()[1]) for doc in kb.passages())


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
