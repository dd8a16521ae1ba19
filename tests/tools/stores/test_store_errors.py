"""What goes wrong with stores, each in one line that shows no password."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path

import pytest
from langchain_core.documents import Document
from tests.search_server import SearchServer

from ragweave.errors import KnowledgeBaseError, UsageError
from ragweave.testing.store import LINES, WordEmbeddings
from ragweave.tools.knowledge import KnowledgeBase, Settings
from ragweave.tools.knowledge.checking import check, repair
from ragweave.tools.knowledge.served import Served
from ragweave.tools.knowledge.served_checking import drop_served
from ragweave.tools.stores import Address, lease
from ragweave.tools.stores.lease import PREFIX, SECONDS, Lease, writing_to

WORDS = Settings(embedding=None)

needs_qdrant = pytest.mark.skipif(
    find_spec("qdrant_client") is None, reason="needs ragweave[qdrant]"
)


@pytest.fixture
def place(tmp_path: Path) -> Address:
    return Address("qdrant", str(tmp_path / "qdrant"), "t")


@pytest.fixture
def kb(place: Address) -> Iterator[KnowledgeBase]:
    with KnowledgeBase.create(place, embeddings=WordEmbeddings()) as made:
        made.add([Document(line) for line in LINES])
        yield made


@pytest.mark.parametrize(
    ("address", "module"),
    [
        ("pg:postgresql://me:secretword@127.0.0.1:9/rag", "psycopg"),
        ("qdrant:http://127.0.0.1:9", "qdrant_client"),
        ("es:http://me:secretword@127.0.0.1:9", "elasticsearch"),
        ("opensearch:http://me:secretword@127.0.0.1:9", "opensearchpy"),
    ],
)
@pytest.mark.loopback
def test_a_server_that_is_not_there(address: str, module: str) -> None:
    if find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    with pytest.raises(KnowledgeBaseError, match="cannot be reached") as caught:
        KnowledgeBase.open(address)
    told = str(caught.value)
    assert "\n" not in told
    assert "secretword" not in told


@pytest.mark.parametrize("scheme", ["es", "opensearch"])
@pytest.mark.loopback
def test_a_wrong_password(scheme: str) -> None:
    pytest.importorskip({"es": "elasticsearch", "opensearch": "opensearchpy"}[scheme])
    product = {"es": "elasticsearch", "opensearch": "opensearch"}[scheme]
    with SearchServer(product, "me", "right") as server:
        wrong = server.url.replace("right", "wrongword")
        with pytest.raises(KnowledgeBaseError, match=r"refused: 401 .*unable to auth") as caught:
            KnowledgeBase.open(f"{scheme}:{wrong}")
    assert "wrongword" not in str(caught.value)


@pytest.mark.loopback
def test_opensearch_under_the_name_of_elasticsearch() -> None:
    pytest.importorskip("elasticsearch")
    with (
        SearchServer("opensearch") as server,
        pytest.raises(KnowledgeBaseError, match="begin with opensearch:"),
    ):
        KnowledgeBase.create(f"es:{server.url}", settings=WORDS)


@needs_qdrant
def test_chroma_is_for_folders(place: Address) -> None:
    settings = Settings(embedding=None, chroma_url="http://127.0.0.1:9")
    with pytest.raises(UsageError, match="leave it out"):
        KnowledgeBase.create(place, settings=settings)


@needs_qdrant
def test_a_dropped_knowledge_base_is_gone(kb: KnowledgeBase, place: Address) -> None:
    assert drop_served(place) == 4
    with pytest.raises(KnowledgeBaseError, match="no knowledge base at"):
        kb.as_retriever(1, "bm25").invoke("salt")
    with KnowledgeBase.create(place, settings=WORDS) as again:
        with pytest.raises(KnowledgeBaseError, match="recreated since it was opened"):
            kb.add([Document("late")])
        assert len(again) == 0


@needs_qdrant
def test_settings_of_one_never_written_to_may_change(place: Address) -> None:
    KnowledgeBase.create(place, settings=Settings(embedding=None, size=50)).close()
    model = WordEmbeddings()
    with KnowledgeBase.open_or_create(
        place, settings=Settings(embedding=None, size=60), embeddings=model
    ) as kb:
        kb.add([Document(line) for line in LINES])
        assert kb.settings.size == 60
        assert kb.as_retriever(1, "dense").invoke("white salt")[0].page_content == LINES[0]


@needs_qdrant
def test_lost_words_and_vectors_are_found_and_mended(kb: KnowledgeBase, place: Address) -> None:
    home = Served(place)
    rows = list(home.store.held())
    client = home.store._client.get()  # type: ignore[attr-defined]
    client.delete_vectors("ragweave_t", ["dense"], [rows[0].key.key])
    client.delete_vectors("ragweave_t", ["words"], [rows[1].key.key])
    client.set_payload("ragweave_t", {"text": "salt is blue"}, points=[rows[2].key.key])
    home.close()
    found = check(place)
    told = [one.text for one in found]
    assert told[0] == "1 passage does not match its hash"
    assert "has no vector of its own" in told[-1]
    assert any("without the words of its text" in one for one in told)
    model = WordEmbeddings()
    assert repair(place, found, embeddings=model) == 1, "stored vectors were made again"
    assert [one.text for one in check(place)] == told[:1]  # a text whose file is unknown stays


@needs_qdrant
def test_a_repair_without_the_model_keeps_the_vectors(kb: KnowledgeBase, place: Address) -> None:
    home = Served(place)
    rows = {row.text: row.key.key for row in home.store.held()}
    client = home.store._client.get()  # type: ignore[attr-defined]
    client.delete_vectors("ragweave_t", ["words"], [rows["salt is white"], rows["sugar is sweet"]])
    client.delete_vectors("ragweave_t", ["dense"], [rows["sugar is sweet"]])
    home.close()
    assert repair(place, check(place)) == 0
    assert [one.text for one in check(place)] == ["1 passage has no vector of its own"]
    found = kb.as_retriever(9, "dense").invoke("salt is white")
    assert found[0].page_content == "salt is white"
    assert len(found) == 3
    assert repair(place, check(place), embeddings=WordEmbeddings()) == 1
    assert check(place) == []


@needs_qdrant
@pytest.mark.parametrize("damage", [b"", b"nothing", b'{"collections": ', b"\xff"])
def test_a_damaged_list_of_collections_is_told(
    kb: KnowledgeBase, place: Address, damage: bytes
) -> None:
    kb.close()
    Path(place.place, "meta.json").write_bytes(damage)
    with pytest.raises(KnowledgeBaseError, match=r"its files are damaged .*index again") as caught:
        KnowledgeBase.open(place)
    assert "\n" not in str(caught.value)


@needs_qdrant
@pytest.mark.parametrize("odd", ["{}", "[]", '{"collections": {"x": 1}}'])
def test_files_of_perhaps_another_version_are_not_to_be_deleted(
    kb: KnowledgeBase, place: Address, odd: str
) -> None:
    kb.close()
    Path(place.place, "meta.json").write_text(odd)
    with pytest.raises(KnowledgeBaseError, match="or of another version") as caught:
        KnowledgeBase.open(place)
    assert "delete" not in str(caught.value)


@needs_qdrant
@pytest.mark.parametrize("obstacle", ["lock", "folder"])
def test_healthy_files_that_cannot_be_opened_are_not_to_be_deleted(
    kb: KnowledgeBase, place: Address, obstacle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb.close()
    file = next(Path(place.place).rglob("*.sqlite"))
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        if obstacle == "lock":
            connect = sqlite3.connect
            monkeypatch.setattr(
                sqlite3, "connect", lambda *args, **more: connect(*args, **more, timeout=0)
            )
            other.execute("BEGIN EXCLUSIVE")
        else:
            file.rename(file.with_suffix(".moved"))
            file.mkdir()
        with pytest.raises(KnowledgeBaseError, match="its files cannot be opened: ") as caught:
            KnowledgeBase.open(place)
    assert "delete" not in str(caught.value)


@needs_qdrant
def test_a_damaged_collection_is_told(kb: KnowledgeBase, place: Address) -> None:
    kb.close()
    for file in Path(place.place).rglob("*.sqlite"):
        file.write_bytes(b"garbage" * 3_000)
    with pytest.raises(KnowledgeBaseError, match="its files are damaged"):
        KnowledgeBase.open(place)


@needs_qdrant
def test_a_dead_writer_blocks_nobody(
    kb: KnowledgeBase, place: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragweave.tools.stores.lease._RENEWED", 0.01)
    store = Served(place).store
    lease = Lease(store)
    lease.begin()
    with pytest.raises(KnowledgeBaseError, match="is being written by process"):
        kb.add([Document("refused")])
    held = store.record(lease.name)
    assert held is not None
    store.put_record(lease.name, {**held, "process": 2**22 + 1})  # ended, on this machine
    kb.add([Document("one")])
    store.put_record(lease.name, {**held, "machine": "other", "time": time.time()})
    with pytest.raises(KnowledgeBaseError, match="is being written by process"):
        kb.add([Document("refused")])
    store.put_record(lease.name, {**held, "machine": "other", "time": time.time() - SECONDS - 1})
    kb.add([Document("two")])
    assert len(kb) == 6
    assert store.records(PREFIX) == []
    store.close()


def test_on_windows_no_process_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its `os.kill(process, 0)` sends Ctrl-C."""
    sent: list[int] = []
    monkeypatch.setattr(lease.os, "kill", lambda process, _signal: sent.append(process))
    held = {"machine": lease._machine(), "process": 7, "time": time.time() - SECONDS - 1}
    monkeypatch.setattr(lease, "_WINDOWS", True)
    assert not lease._has_ended(held)
    assert lease._is_silent(held), "its age still counts"
    assert sent == []


@pytest.mark.parametrize(
    ("kind", "product", "module"),
    [("es", "elasticsearch", "elasticsearch"), ("opensearch", "opensearch", "opensearchpy")],
)
@pytest.mark.loopback
def test_an_engine_that_another_thread_closes_is_told_in_one_line_or_answers(
    kind: str, product: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(module)
    with SearchServer(product) as server:
        address = Address.parse(f"{kind}:{server.url}#t")
        with KnowledgeBase.create(address, settings=WORDS) as kb:
            store = kb._home.store  # type: ignore[union-attr]
            engine = store._engine  # type: ignore[attr-defined]
            ask = engine._ask

            def closed_before(*asked: object) -> object:
                store.close()
                return ask(*asked)

            monkeypatch.setattr(engine, "_ask", closed_before)
            with suppress(KnowledgeBaseError):
                assert store.record("manifest")
            monkeypatch.undo()
            assert store.record("manifest")


@needs_qdrant
def test_a_writer_that_slept_does_not_commit(kb: KnowledgeBase, place: Address) -> None:
    store = Served(place).store
    with writing_to(store) as lease:
        lease.check()
        lease._renewed -= SECONDS
        with pytest.raises(KnowledgeBaseError, match="try again"):
            lease.check()
    assert not store.switch(7, {"generation": 8}), "another generation was replaced"
    assert kb.manifest.generation == 1
    store.close()


@needs_qdrant
def test_a_write_between_the_two_rankings_of_a_hybrid_query_is_in_both(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb.add([Document("a ticket costs 5 euros", id="price")])
    store = kb._home.store  # type: ignore[attr-defined]
    nearest = store.nearest

    def write_and_ask(*asked: object) -> object:
        monkeypatch.undo()
        kb.add([Document("a ticket costs 9 euros", id="price")])
        return nearest(*asked)

    monkeypatch.setattr(store, "nearest", write_and_ask)
    found = [doc.page_content for doc in kb.as_retriever(9, "hybrid").invoke("ticket euros")]
    assert sorted(found) == ["a ticket costs 9 euros", *sorted(LINES)]
