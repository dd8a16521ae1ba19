"""Names and texts that no encoding can write: skipped by name, the others indexed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from langchain_core.documents import Document

from ragweave.tools.knowledge import KnowledgeBase, Settings, Skip


@pytest.fixture
def kb(tmp_path: Path) -> KnowledgeBase:
    return KnowledgeBase.create(tmp_path / "kb", settings=Settings(embedding=None))


def test_a_name_that_is_not_utf8_is_skipped_and_printable(
    kb: KnowledgeBase, tmp_path: Path
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "good.txt").write_text("Salt is white.")
    bad = os.path.join(os.fsencode(docs), b"bad\xffname.txt")  # noqa: PTH118 - bytes
    try:
        Path(os.fsdecode(bad)).write_text("Pepper is black.")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    report = kb.index_paths([docs])
    assert (report.added, report.passages) == (1, 1)
    assert [str(skip) for skip in report.skipped] == [
        f"{docs}/bad\\xffname.txt: its path is not UTF-8; rename it"
    ]
    assert kb.index_paths([docs]).unchanged == 1


def test_rows_with_lone_surrogates_are_skipped_by_line(kb: KnowledgeBase, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(
        '{"text": "Salt \\ud83d\\ude00 is white."}\n'
        '{"text": "half \\ud800"}\n'
        '{"text": "a", "title": "\\uDFFF"}\n'
        '{"text": "a", "id": "\\ud800"}\n'
        '{"text": "a", "more": [{"deep": "\\ud800"}]}\n'
        '{"text": "a", "\\ud800": 1}\n'
        '{"text": "Pepper is black, not \\\\ud800."}\n'
    )
    report = kb.index_paths([path])
    assert report.passages == 2
    assert [skip.line for skip in report.skipped] == [2, 3, 4, 5, 6]
    assert str(report.skipped[0]) == f"{path}:2: half a character (a lone surrogate escape)"
    (doc,) = kb.as_retriever().invoke("salt \ud800")
    assert doc.page_content == "Salt \U0001f600 is white."


def test_documents_with_lone_surrogates_are_added_with_question_marks(kb: KnowledgeBase) -> None:
    doc = Document(id="i\ud800", page_content="Salt \ud800", metadata={"title": "T\udfff"})
    assert kb.add([doc], "s\ud800") == ["i?"]
    (found,) = kb.as_retriever().invoke("salt")
    assert (found.page_content, found.metadata["title"]) == ("Salt ?", "T?")
    assert found.metadata["source"] == "s?"
    assert kb.delete(["i\ud800"]) == 1
    assert kb.delete_source("s\ud800")


def test_a_skip_of_any_path_can_be_printed() -> None:
    assert str(Skip(os.fsdecode(b"a\xfe"), "why", 3)).encode() == rb"a\xfe:3: why"
