"""Checking a knowledge base: each kind of damage is found, told in a line, and mended."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from langchain_core.documents import Document
from tests.tools.knowledge.kb_embeddings import BagEmbeddings

from ragweave.errors import KnowledgeBaseError
from ragweave.tools.knowledge import KnowledgeBase
from ragweave.tools.knowledge.checking import check, repair
from ragweave.tools.knowledge.vectors import Vectors

QUERY = "number 3 about pepper"


@pytest.fixture
def kb(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    docs.mkdir()
    for number in range(6):
        (docs / f"{number}.txt").write_text(f"text number {number} about pepper")
    with KnowledgeBase.create(tmp_path / "kb", embeddings=BagEmbeddings()) as base:
        base.index_paths([docs])
    return tmp_path / "kb"


def found(kb: Path) -> dict[str, list[str]]:
    with KnowledgeBase.open(kb, embeddings=BagEmbeddings()) as base:
        return {
            mode: [one.page_content for one in base.as_retriever(1, mode).invoke(QUERY)]  # type: ignore[arg-type]
            for mode in ("bm25", "dense")
        }


def change(kb: Path, statement: str) -> None:
    with sqlite3.connect(kb / "passages.sqlite") as database:
        database.execute(statement)
    database.close()


def with_vectors(act: Callable[[Vectors], object]) -> Callable[[Path], None]:
    def run(kb: Path) -> None:
        with KnowledgeBase.open(kb, embeddings=BagEmbeddings()) as base:
            act(base._home.vectors)

    return run


def dead_rows(kb: Path) -> None:
    change(
        kb,
        "INSERT INTO passages (id, content, source, place, text, metadata, added) "
        "VALUES ('x', 'x', 'x', 0, 'x', '{}', 99)",
    )


def changed_text(kb: Path) -> None:
    change(kb, "UPDATE passages SET text = 'planted' WHERE text LIKE '%number 3%'")


def other_index(kb: Path) -> None:
    file = next((kb / "bm25" / "1").glob("data*"))
    file.write_bytes(file.read_bytes()[:-1] + b"\x7f")


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "orphans": (with_vectors(lambda v: v.put(["dead"], [[1.0] * 64])), "1 vector belongs to no"),
    "lost vectors": (with_vectors(lambda v: v.delete(v.contents()[:2])), "2 passages have no vec"),
    "no vectors": (lambda kb: shutil.rmtree(kb / "chroma"), "vectors are missing"),
    "no index": (lambda kb: shutil.rmtree(kb / "bm25"), "bm25"),
    "other index": (other_index, "differs from a newly built one"),
    "dead index": (lambda kb: (kb / "bm25" / "77").mkdir(), "old generation"),
    "dead rows": (dead_rows, "1 row of passages left by an interrupted write"),
    "changed text": (changed_text, "1 passage does not match its hash"),
    "lost source": (lambda kb: change(kb, "DELETE FROM sources WHERE row = 2"), "counts 6 sources"),
}


@pytest.mark.parametrize("kind", list(DAMAGE))
def test_damage_is_found_and_mended(kb: Path, kind: str) -> None:
    assert check(kb) == []
    sound = found(kb)
    act, said = DAMAGE[kind]
    act(kb)
    findings = check(kb)
    assert any(said in one.text for one in findings)
    assert all("\n" not in one.text for one in findings)
    repair(kb, findings, embeddings=BagEmbeddings())
    assert check(kb) == []
    assert found(kb) == sound


def test_a_write_that_changes_nothing_collects_orphans(kb: Path) -> None:
    DAMAGE["orphans"][0](kb)
    with KnowledgeBase.open(kb, embeddings=BagEmbeddings()) as base:
        assert base._home.vectors.count() == 7
        base.index_paths([kb.parent / "docs"])
        assert base._home.vectors.count() == 6
    assert check(kb) == []


def test_what_cannot_be_mended_is_an_error(kb: Path, tmp_path: Path) -> None:
    with pytest.raises(KnowledgeBaseError, match="no knowledge base at"):
        check(tmp_path / "none")
    data = (kb / "passages.sqlite").read_bytes()
    (kb / "passages.sqlite").write_bytes(data[:5_000] + b"\xff" * (len(data) - 5_000))
    with pytest.raises(KnowledgeBaseError, match="delete"):
        check(kb)


def test_documents_added_from_memory_check_too(tmp_path: Path) -> None:
    with KnowledgeBase.create(tmp_path / "kb", embeddings=BagEmbeddings()) as base:
        base.add([Document("half \ud800 a sign", metadata={"title": "t\ud800"}), Document("b")])
    assert check(tmp_path / "kb") == []
