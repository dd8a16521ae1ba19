"""Names and facts that a chat model adds to passages: they are searched, and never returned."""

from __future__ import annotations

from pathlib import Path

import pytest
from langchain_core.documents import Document

from ragweave.errors import ModelError
from ragweave.testing import ScriptedModel
from ragweave.testing.scripted import ModelCall
from ragweave.tools.knowledge import IndexSettings, KnowledgeBase, ServedKnowledgeBase

BOOK, PERSON = "The book Salt Roads was written by Ada Maria Brenner.", "Bapi grew up in Norhaven."
DOCS = [
    Document(BOOK, metadata={"title": "Salt Roads"}),
    Document(PERSON, metadata={"title": "Bapi"}),
    *(Document(f"The author of roads {n} was born and buried.", metadata={"title": f"Roads {n}"}) for n in range(4)),
]
QUESTION = "Where was the author of Salt Roads born?"
FACT = "Ada Maria Brenner taught astronomy."


def said(call: ModelCall) -> str:
    known = f"NAME: Bapi | Ada Maria Brenner\nnonsense\n- FACT: {FACT}\nFACT: {'x' * 1000}"
    return known if PERSON in call.text else "I can't help with that."


def opened(kind: str, folder: Path) -> KnowledgeBase | ServedKnowledgeBase:
    settings = IndexSettings(embedding=None)
    if kind == "folder":
        return KnowledgeBase.create(folder / "kb", settings=settings)
    pytest.importorskip("lancedb")
    return ServedKnowledgeBase(f"lance:{folder / 'kb'}", settings=settings)


@pytest.mark.parametrize("kind", ["folder", "lance"])
def test_a_name_and_a_fact_that_only_the_model_knows_lead_to_a_passage(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    model = ScriptedModel(script=said)
    with opened(kind, tmp_path) as kb:
        kb.index_documents(DOCS, "docs")
        plain = [doc.metadata["title"] for doc in kb.as_retriever(2).invoke(QUESTION)]
        report = kb.index_documents(DOCS, "docs", enrich=model)
        best = kb.as_retriever(2).invoke(QUESTION)
        (by_fact, *_) = kb.as_retriever(1).invoke("Who taught astronomy?")
        shown = [*best, by_fact, *kb.passages()]
        fields = {field.name for field in kb.fields()}
    assert "Bapi" not in plain
    assert [doc.metadata["title"] for doc in best] == ["Salt Roads", "Bapi"]
    assert best[1].metadata["via"]["name"] == "Ada Maria Brenner"
    assert by_fact.page_content == PERSON
    assert not any(FACT in str(doc) or "enriched" in doc.metadata for doc in shown)
    assert fields == {"title"}
    assert report.enriched.startswith("6 passages enriched: 6 calls, ")


def test_each_passage_is_asked_about_once_also_if_the_server_fails(tmp_path: Path) -> None:
    asked: list[str] = []

    def failing(call: ModelCall) -> str:
        asked.append(call.last)
        if len(asked) == 3:
            raise ConnectionError("no route")
        return said(call)

    files = tmp_path / "files"
    files.mkdir()
    for number, doc in enumerate(DOCS):
        (files / f"{number}.md").write_text(f"# {doc.metadata['title']}\n\n{doc.page_content}\n", "utf-8")
    model = ScriptedModel(script=failing)
    with opened("folder", tmp_path) as kb:
        assert kb.index_paths(files).enriched == ""
        with pytest.raises(ModelError, match="no route; replies are kept"):
            kb.index_paths(files, enrich=model)
        report = kb.index_paths(files, enrich=model)
        again = kb.index_paths(files, enrich=model)
        plain = kb.index_paths(files)
        best = kb.as_retriever(2).invoke(QUESTION)
    assert report.enriched.startswith("6 passages enriched: 4 calls, ")
    assert len(asked) == 7
    assert (report.changed, again.unchanged, plain.unchanged) == (6, 6, 6)
    assert best[1].page_content.endswith(PERSON)
