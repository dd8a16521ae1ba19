"""Qdrant's collections and clients: no knowledge base stands where another one does."""

from __future__ import annotations

import threading
from importlib.util import find_spec
from pathlib import Path

import pytest
from langchain_core.documents import Document

from ragweave.errors import KnowledgeBaseError
from ragweave.tools.knowledge import KnowledgeBase, Settings
from ragweave.tools.knowledge.served_checking import drop_served
from ragweave.tools.stores import STORES, Address
from ragweave.tools.stores.qdrant import QdrantStore
from ragweave.tools.stores.qdrant_clients import _clients

if find_spec("qdrant_client") is None:
    pytest.skip('needs: pip install "ragweave[qdrant]"', allow_module_level=True)

WORDS = Settings(embedding=None)


@pytest.fixture
def places(tmp_path: Path) -> tuple[Address, Address]:
    folder = str(tmp_path / "qdrant")
    return Address("qdrant", folder, "x"), Address("qdrant", folder, "x_records")


def made(place: Address, text: str) -> None:
    with KnowledgeBase.create(place, settings=WORDS) as kb:
        kb.add([Document(text)])


def texts(place: Address) -> list[str]:
    with KnowledgeBase.open(place) as kb:
        return [doc.page_content for doc in kb.as_retriever(9, "bm25").invoke("salt sugar")]


@pytest.fixture
def of_an_earlier_version(places: tuple[Address, Address], monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(QdrantStore, "_records_in", lambda self, _client: f"{self._rows}_records")
        made(places[0], "salt is white")


@pytest.mark.parametrize("first", [0, 1])
def test_the_records_of_one_are_not_the_passages_of_another(
    places: tuple[Address, Address], first: int
) -> None:
    one, other = places[first], places[1 - first]
    made(one, "salt is white")
    made(other, "sugar is sweet")
    assert (texts(one), texts(other)) == (["salt is white"], ["sugar is sweet"])
    drop_served(other)
    assert texts(one) == ["salt is white"]


@pytest.mark.usefixtures("of_an_earlier_version")
def test_records_of_an_earlier_version_are_read_where_they_are(
    places: tuple[Address, Address],
) -> None:
    assert texts(places[0]) == ["salt is white"]
    with KnowledgeBase.open(places[0]) as kb:
        kb.add([Document("sugar is sweet")], "more")
    assert len(texts(places[0])) == 2
    drop_served(places[0])
    for place in places:
        made(place, "honey and salt")
        assert texts(place) == ["honey and salt"]


@pytest.mark.usefixtures("of_an_earlier_version")
def test_what_would_stand_among_the_records_of_an_earlier_version_is_refused(
    places: tuple[Address, Address],
) -> None:
    with pytest.raises(KnowledgeBaseError, match="the manifest of #x there; choose another"):
        KnowledgeBase.create(places[1], settings=WORDS)
    with pytest.raises(KnowledgeBaseError, match="choose another"):
        STORES["qdrant"].open(places[1]).drop()
    assert texts(places[0]) == ["salt is white"]


def test_a_store_that_another_thread_closes_answers_and_leaves_nothing_open(
    places: tuple[Address, Address],
) -> None:
    made(places[0], "salt is white")
    store = STORES["qdrant"].open(places[0])
    assert isinstance(store, QdrantStore)
    with store._use() as client:
        closing = threading.Thread(target=store.close)
        closing.start()
        closing.join(10)
        assert not closing.is_alive()
        assert client.collection_exists("ragweave_x")
    assert places[0].place not in _clients
    assert store.record("manifest") is not None
    store.close()
    assert places[0].place not in _clients
