"""Names and facts that a chat model adds to passages: they are searched, and never returned."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from threading import Barrier

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
    """Passages of different files are asked about at once; what is paid for when a call fails is not asked again."""
    asked: Counter[str] = Counter()
    together = Barrier(2)

    def failing(call: ModelCall) -> str:
        title = call.last.split('"')[1]
        asked[title] += 1
        if title in ("Bapi", "Salt Roads"):
            together.wait(60)
        if title == "Roads 2" and asked[title] == 1:
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
        best = kb.as_retriever(4).invoke(QUESTION)
    assert report.enriched.startswith("6 passages enriched: ")
    assert asked == {doc.metadata["title"]: 1 + (doc.metadata["title"] == "Roads 2") for doc in DOCS}
    assert (report.changed, again.unchanged, plain.unchanged) == (6, 6, 6)
    (found,) = [doc for doc in best if doc.page_content.endswith(PERSON)]
    assert found.metadata["via"]["name"] == "Ada Maria Brenner"


def test_more_passages_than_are_asked_about_together(tmp_path: Path) -> None:
    model = ScriptedModel(script=lambda call: f"NAME: Alias{call.last.split('number')[1].split()[0]}")
    for number in range(70):
        (tmp_path / f"{number}.md").write_text(f"The entry number {number} is here.\n", "utf-8")
    with opened("folder", tmp_path / "base") as kb:
        report = kb.index_paths(tmp_path, enrich=model)
        found = [kb.as_retriever(1).invoke(f"What is Alias{number}?")[0].page_content for number in (3, 66)]
    assert report.enriched.startswith("70 passages enriched: 70 calls, ")
    assert found == ["The entry number 3 is here.", "The entry number 66 is here."]
