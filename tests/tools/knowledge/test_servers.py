"""Addresses of servers, what is noted of them, and retrievers by name or import path."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from ragweave.errors import KnowledgeBaseError, UsageError
from ragweave.testing.store import KnowledgeStoreTests, WordEmbeddings
from ragweave.tools.knowledge import (
    IndexSettings,
    KnowledgeBase,
    ServedKnowledgeBase,
    needs_kb,
    open_knowledge_base,
    retriever_of,
)
from ragweave.tools.knowledge.filters import ALL


def test_an_address_is_checked(tmp_path: Path) -> None:
    for address in ("pg:nothing", "pg:#papers", "mongo:x#y", "postgresql://me:secret@host/db"):
        with pytest.raises(UsageError, match=r"pg:postgresql://host.*; kinds: lance, pg, chroma") as e:
            ServedKnowledgeBase(address, WordEmbeddings())
        assert "secret" not in str(e.value)
    pytest.importorskip("psycopg")
    with pytest.raises(KnowledgeBaseError, match=r"9/db#papers cannot be opened") as e:
        ServedKnowledgeBase("pg:postgresql://me:secret@127.0.0.1:9/db#papers", WordEmbeddings())
    assert "secret" not in str(e.value)
    with pytest.raises(KnowledgeBaseError, match="no knowledge base"):
        open_knowledge_base(tmp_path / "none")


def test_an_address_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="open_knowledge_base"):
        KnowledgeBase.open_or_create("pg:postgresql://me@host/db#papers")
    assert not [*tmp_path.iterdir()]


def test_settings_are_stored_and_forgotten(tmp_path: Path) -> None:
    pytest.importorskip("chromadb")
    address = f"chroma:{tmp_path}/chroma#papers"
    settings = IndexSettings(size=7)
    with ServedKnowledgeBase(address, WordEmbeddings(), settings) as kb:
        kb.add(Document("salt is white"))
        assert kb.settings.size == 7
        with pytest.raises(UsageError, match="auto, dense"):
            kb.as_retriever(mode="bm25")
    with ServedKnowledgeBase(address, WordEmbeddings()) as again:
        assert again.settings.size == 7
    with pytest.raises(KnowledgeBaseError, match="size = 7, not 8"):
        ServedKnowledgeBase(address, WordEmbeddings(), IndexSettings(size=8))
    with pytest.raises(KnowledgeBaseError, match="cannot be compared"):
        ServedKnowledgeBase(address, WordEmbeddings(model="other"), settings)
    with ServedKnowledgeBase(address, WordEmbeddings()) as kb:
        assert kb.drop() == 1
    with ServedKnowledgeBase(address, WordEmbeddings()) as fresh:
        assert (len(fresh), fresh.settings.size) == (0, 100)
    with pytest.raises(KnowledgeBaseError, match="cannot be read"):  # it is closed
        len(fresh)


def test_rows_are_read_again_by_other_fields(tmp_path: Path) -> None:
    pytest.importorskip("chromadb")
    (tmp_path / "rows.jsonl").write_text('{"body": "A lost key.", "cost": "Forty euro."}\n')
    for field, text in (("body", "A lost key."), ("cost", "Forty euro.")):
        with ServedKnowledgeBase(f"chroma:{tmp_path}/chroma#rows", WordEmbeddings(), {"text_field": field}) as kb:
            kb.index_paths(tmp_path / "rows.jsonl")
            assert [doc.page_content for doc in kb.as_retriever(5).invoke("key euro")] == [text]


def test_only_indexing_makes_a_collection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("chromadb")
    model = WordEmbeddings()
    for project in ("one", "two"):
        (tmp_path / project).mkdir()
        monkeypatch.chdir(tmp_path / project)
        with pytest.raises(KnowledgeBaseError, match=r"no knowledge base chroma:c#notes.*ragweave index FILES"):
            open_knowledge_base("chroma:c#notes", embeddings=model)
        with ServedKnowledgeBase("chroma:c#notes", model) as kb:
            assert len(kb) == 0
            kb.add(Document("salt is white"))
        with pytest.raises(KnowledgeBaseError, match=r"no knowledge base.*ragweave index FILES"):
            open_knowledge_base("chroma:c#note", embeddings=model)
        with open_knowledge_base("chroma:c#notes", embeddings=model) as kb:
            assert kb.as_retriever(1).invoke("salt")


@pytest.mark.loopback
def test_settings_are_not_noted_where_no_server_answers() -> None:
    pytest.importorskip("chromadb")
    for size in (50, 60):
        with pytest.raises(KnowledgeBaseError, match="cannot be opened"):
            ServedKnowledgeBase("chroma:http://127.0.0.1:9#y", WordEmbeddings(), IndexSettings(size=size))


def test_the_next_run_finishes_one_that_failed(tmp_path: Path) -> None:
    pytest.importorskip("chromadb")
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text(f"note {number}")
    model = WordEmbeddings()

    def refuse() -> None:
        raise ConnectionError("refused")

    with ServedKnowledgeBase(f"chroma:{tmp_path}/chroma#notes", model) as kb:
        model.before = refuse
        with pytest.raises(KnowledgeBaseError, match="the embedding model failed: refused"):
            kb.index_paths([tmp_path / f"{number}.txt" for number in range(3)])
        assert len(kb) == 0
        model.before = lambda: None
        assert kb.index_paths([tmp_path / f"{number}.txt" for number in range(3)]).added == 3
        assert len(kb.as_retriever(5).invoke("note")) == 3


class Newest(BaseRetriever):
    """A LangChain retriever over a knowledge base, by a word of its own."""

    base: Any
    most: int = 1

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(f"newest of {len(self.base)}")] * self.most


def newest(kb: KnowledgeBase, most: int = 1) -> Newest:
    return Newest(base=kb, most=most)


NEWEST = f"{__name__}:newest"


@pytest.fixture
def kb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KnowledgeBase:
    monkeypatch.setitem(sys.modules, __name__, sys.modules[Newest.__module__])
    kb = KnowledgeBase.create(tmp_path / "kb", settings=IndexSettings(embedding=None))
    kb.add(Document("salt is white"))
    return kb


def test_retrievers_by_name_and_by_path(kb: KnowledgeBase) -> None:
    assert retriever_of("bm25", kb).invoke("salt")[0].page_content == "salt is white"
    (doc,) = retriever_of(f"{NEWEST}?most=3", kb, 1).invoke("x")
    assert doc.page_content == "newest of 1" and doc.id
    assert needs_kb("auto") and needs_kb(NEWEST) and not needs_kb(f"{__name__}:Newest")
    for spec, base, message in (
        ("bm26", kb, "did you mean 'bm25'"),
        ("bm25", None, "--kb"),
        (NEWEST, None, "--kb"),
        ("no_such_module:Retriever", None, "cannot be imported"),
        (f"{__name__}:Newest", None, "cannot be made"),
        ("datetime:timedelta", None, "not a LangChain retriever"),
    ):
        with pytest.raises(UsageError, match=message):
            retriever_of(spec, base)


def test_a_users_text_names_a_retriever_and_what_it_searches(kb: KnowledgeBase) -> None:
    place = str(kb.path)
    for text in ("bm25", f"bm25:{place}", place, NEWEST):
        assert retriever_of(text, place).invoke("salt")
    other = f"{__name__}:Newest?base=x"
    assert retriever_of(other, "no/such/folder", permitted=ALL).invoke("salt")
    with pytest.raises(UsageError, match="so it cannot be filtered"):
        retriever_of(other, permitted={"team": "hr"})
    for wrong in ("no/such/folder", "bm25"):
        with pytest.raises(UsageError, match=r"no such knowledge base|name one with --kb"):
            retriever_of(wrong)


@pytest.mark.loopback
class TestChroma(KnowledgeStoreTests):
    @pytest.fixture(autouse=True)
    def _server(self, chroma: str, tmp_path: Path) -> None:
        self.url, self.folder, self.number = chroma, tmp_path, 0

    def create(self, embeddings: Any) -> ServedKnowledgeBase:
        self.number += 1
        address = f"chroma:{self.url}#{self.folder.name.strip('_0')}x{self.number}"
        return ServedKnowledgeBase(address, embeddings)
