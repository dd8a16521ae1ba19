"""A knowledge base that an earlier version indexed is searched as that version did, until it is made anew."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from langchain_core.documents import Document

from ragweave.errors import KnowledgeBaseError
from ragweave.testing.store import WordEmbeddings
from ragweave.tools.knowledge import KnowledgeBase, writing
from ragweave.tools.knowledge.checking import check, repair
from ragweave.tools.knowledge.manifest import Settings
from ragweave.tools.knowledge.served_writing import ServedWriter
from ragweave.tools.retrieval.bm25 import ANALYSIS
from ragweave.tools.stores import Address, place_of
from ragweave.tools.stores.passage_store import MANIFEST

HINDI = Settings(embedding=None, language="hindi")
BOOK = Document("यह किताब है", id="book")
LETTERS = Document("क त ब", id="letters")
PLAIN = Document("salt is white", id="salt")


def found(kb: KnowledgeBase, query: str) -> list[str | None]:
    return [doc.id for doc in kb.as_retriever(3, "bm25").invoke(query)]


def forget(kb: Path) -> None:
    """Write the manifest as it was before it had the number."""
    held = json.loads((kb / "manifest.json").read_text("utf-8"))
    del held["analysis"]
    held["format_version"] = 1
    (kb / "manifest.json").write_text(json.dumps(held), "utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with monkeypatch.context() as earlier, KnowledgeBase.create(tmp_path, settings=HINDI) as kb:
        earlier.setattr(writing, "ANALYSIS", 1)
        kb.add([BOOK, LETTERS, PLAIN], split=False)
    forget(tmp_path)
    return tmp_path


@pytest.fixture
def served(tmp_path: Path) -> Address:
    pytest.importorskip("qdrant_client")
    place = place_of(f"qdrant:{tmp_path / 'q'}#t")
    assert isinstance(place, Address)
    with KnowledgeBase.create(place, settings=HINDI, embeddings=WordEmbeddings()) as kb:
        store = kb._home.store  # type: ignore[union-attr]
        store.put_record(MANIFEST, {**store.record(MANIFEST), "analysis": 1})
        kb.add([BOOK, LETTERS, PLAIN], split=False)
    return place


def test_a_folder_is_searched_as_it_was_and_says_so_once(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with KnowledgeBase.open(folder) as kb:
        assert kb.manifest.analysis == 1
        assert found(kb, "salt") == ["salt"]
        assert not caplog.messages
        assert set(found(kb, "किताब")) == {"book", "letters"}
        found(kb, "किताब")
    (said,) = caplog.messages
    assert f"ragweave kb check {folder} --repair" in said


def test_a_write_makes_the_index_of_a_folder_anew(folder: Path) -> None:
    with KnowledgeBase.open(folder) as kb:
        kb.add([Document("more", id="more")])
        assert found(kb, "किताब") == ["book"]
    held = json.loads((folder / "manifest.json").read_text("utf-8"))
    assert held["analysis"] == ANALYSIS
    assert held["format_version"] == 2, "an earlier version would search it by other terms"
    assert check(folder) == []


def test_a_check_tells_of_it_and_repair_makes_it_anew(folder: Path) -> None:
    (told,) = check(folder)
    assert "terms as earlier versions made them" in told.text
    repair(folder, [told])
    assert check(folder) == []
    with KnowledgeBase.open(folder) as kb:
        assert found(kb, "किताब") == ["book"]


def test_where_nothing_differs_an_older_index_is_sound(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with KnowledgeBase.open(folder) as kb:
        kb.delete(["book"])
    forget(folder)
    assert check(folder) == []
    with KnowledgeBase.open(folder) as kb:
        assert (kb.manifest.analysis, found(kb, "white salt")) == (1, ["salt"])
    assert not caplog.messages


@pytest.mark.skipif(find_spec("qdrant_client") is None, reason="needs ragweave[qdrant]")
def test_one_behind_an_address_keeps_to_its_terms_until_it_is_repaired(served: Address) -> None:
    model = WordEmbeddings()
    with KnowledgeBase.open(served, embeddings=model) as kb:
        kb.add([Document("किताब", id="new")], split=False)
        assert kb.manifest.analysis == 1
        assert set(found(kb, "किताब")) == {"book", "letters", "new"}
    (told,) = check(served)
    assert told.text.startswith("2 passages with terms as earlier versions made them")
    assert repair(served, [told], embeddings=model) == 0
    assert check(served) == []
    with KnowledgeBase.open(served, embeddings=model) as kb:
        assert kb.manifest.analysis == ANALYSIS
        assert set(found(kb, "किताब")) == {"book", "new"}
        assert kb.as_retriever(1, "dense").invoke("salt white")[0].id == "salt"


@pytest.mark.skipif(find_spec("qdrant_client") is None, reason="needs ragweave[qdrant]")
def test_an_open_reader_searches_by_the_new_terms_as_soon_as_they_are_stored(
    served: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the repair ends before it has made a new generation."""

    def stop(*_: object, **__: object) -> None:
        raise KnowledgeBaseError("interrupted")

    model = WordEmbeddings()
    with KnowledgeBase.open(served, embeddings=model) as reader:
        search = reader.as_retriever(3, "bm25")
        assert {doc.id for doc in search.invoke("किताब")} == {"book", "letters"}
        generation = reader.manifest.generation
        monkeypatch.setattr(ServedWriter, "write", stop)
        with pytest.raises(KnowledgeBaseError, match="interrupted"):
            repair(served, check(served), embeddings=model)
        assert [doc.id for doc in search.invoke("किताब")] == ["book"]
        assert reader.manifest.generation == generation


def test_a_newer_analysis_is_refused(folder: Path) -> None:
    held = json.loads((folder / "manifest.json").read_text("utf-8"))
    (folder / "manifest.json").write_text(json.dumps({**held, "analysis": ANALYSIS + 1}), "utf-8")
    with pytest.raises(KnowledgeBaseError, match=r"analysis 3, newer .* upgrade ragweave"):
        KnowledgeBase.open(folder)
