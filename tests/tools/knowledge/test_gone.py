"""Indexed files that are gone, moved, or for now cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from langchain_core.documents import Document

from ragweave.errors import UsageError
from ragweave.tools.knowledge import KnowledgeBase, Settings
from ragweave.tools.knowledge.checking import check, missing_files

LEXICAL = Settings(embedding=None)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "proj"
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "bridge.txt").write_text("The bridge opened in 1901.")
    (folder / "docs" / "z.txt").write_text("Zebras graze.")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def kb(tmp_path: Path) -> KnowledgeBase:
    return KnowledgeBase.create(tmp_path / "kb", settings=LEXICAL)


def found(kb: KnowledgeBase, query: str) -> list[str]:
    return [doc.page_content for doc in kb.as_retriever(9).invoke(query)]


def test_a_folder_that_was_moved_replaces_its_files(
    kb: KnowledgeBase, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb.index_paths("docs")
    moved = project.rename(project.with_name("proj2"))
    monkeypatch.chdir(moved)
    Path("docs/z.txt").unlink()
    report = kb.index_paths("docs")
    assert (report.added, report.removed, report.gone) == (1, 1, ("docs/z.txt",))
    assert found(kb, "bridge") == ["The bridge opened in 1901."]
    assert found(kb, "zebras") == ["Zebras graze."]  # its disk may be unmounted
    assert kb.index_paths("docs").gone == ("docs/z.txt",)
    assert (missing_files(kb.path), check(kb.path)) == (["docs/z.txt"], [])
    pruned = kb.index_paths([], prune=True)
    assert (pruned.removed, pruned.gone, found(kb, "zebras")) == (1, (), [])
    assert missing_files(kb.path) == []


def test_rows_of_a_moved_file_keep_their_ids(
    kb: KnowledgeBase, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("rows.jsonl").write_text('{"id": "r1", "text": "Rivers run to the sea."}')
    kb.index_paths(["rows.jsonl"])
    monkeypatch.chdir(project.rename(project.with_name("proj2")))
    assert kb.index_paths(["rows.jsonl"]).gone == ()
    assert [doc.id for doc in kb.as_retriever(9).invoke("rivers")] == ["r1"]


def test_a_file_of_the_same_name_and_other_content_replaces_none(
    kb: KnowledgeBase, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two disks that are not there now each have a README, and a third one is indexed."""
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "README.md").write_text(f"The readme of {name}.")
    for name in ("a", "b"):
        monkeypatch.chdir(tmp_path / name)
        kb.index_paths("README.md")
        (tmp_path / name).rename(tmp_path / f"{name}-gone")
    monkeypatch.chdir(tmp_path / "c")
    report = kb.index_paths("README.md")
    assert (report.added, report.removed, report.gone) == (1, 0, ("README.md", "README.md"))
    assert len(found(kb, "readme")) == 3


@pytest.mark.parametrize("name", ["folder", "file.txt"])
def test_a_link_to_what_is_not_there_now_keeps_what_is_indexed(
    kb: KnowledgeBase, project: Path, name: str
) -> None:
    target = project / "docs" if name == "folder" else project / "docs" / "z.txt"
    Path(name).symlink_to(target)
    kb.index_paths(name)
    (project / "docs").rename(project / "elsewhere")
    report = kb.index_paths(name)
    assert (report.removed, len(report.skipped)) == (0, 1)
    assert found(kb, "zebras") == ["Zebras graze."]


def test_nothing_is_replaced_by_what_cannot_be_read_or_has_another_name(
    kb: KnowledgeBase, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb.index_paths("docs")
    monkeypatch.chdir(project.rename(project.with_name("proj2")))
    Path("docs/bridge.txt").write_bytes(b"\0\1\2")
    Path("docs/z.txt").rename("docs/zoo.txt")
    assert kb.index_paths("docs").gone == ("docs/bridge.txt", "docs/z.txt")
    assert found(kb, "bridge") == ["The bridge opened in 1901."]


def test_files_that_only_cannot_be_seen_are_not_gone(
    kb: KnowledgeBase, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb.index_paths("docs")
    Path("other.txt").write_text("Other.")
    real = os.lstat

    def lstat(path: str) -> os.stat_result:
        if str(path).startswith(str(project / "docs")):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "lstat", lstat)
    assert kb.index_paths("other.txt", prune=True).removed == 0
    assert missing_files(kb.path) == []


def test_behind_an_address_files_may_be_on_another_machine(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("qdrant_client", reason="needs ragweave[qdrant]")
    with KnowledgeBase.create(f"qdrant:{tmp_path / 'q'}#kb", settings=LEXICAL) as kb:
        kb.index_paths("docs")
        monkeypatch.chdir(project.rename(project.with_name("proj2")))
        report = kb.index_paths("docs")
        assert (report.added, report.removed, report.gone) == (2, 0, ())
        assert kb.index_paths("docs", prune=True).removed == 2
        assert missing_files(kb.path) == []


@pytest.mark.parametrize(
    ("name", "data"),
    [("cut.pdf", b"%PDF-1.7 half"), ("cut.docx", b"PK\3\4 half"), ("cut.txt.gz", b"\x1f\x8b\x08")],
)
def test_what_is_indexed_of_a_file_that_is_half_saved_stays(
    kb: KnowledgeBase, project: Path, name: str, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project / "docs" / name
    path.write_bytes(b"whole")
    from ragweave.tools.knowledge import intake
    from ragweave.tools.knowledge.markup import Loaded

    with monkeypatch.context() as patch:
        patch.setattr(intake, "load", lambda *_: iter([Loaded("Owls fly at night.", "Owls")]))
        kb.index_paths(path)
    path.write_bytes(data)
    for _ in range(2):
        report = kb.index_paths([path])
        assert (report.removed, len(report.skipped)) == (0, 1)
        assert report.skipped[0].reason.endswith("; what is indexed of it stays")
        assert found(kb, "owls") == ["Owls fly at night."]
    path.write_bytes(b"whole")  # what was indexed
    assert kb.index_paths([path]).unchanged == 1
    path.unlink()
    assert kb.index_paths([path]).removed == 1


def test_what_is_indexed_of_a_file_without_access_stays(
    kb: KnowledgeBase, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb.index_paths("docs")
    bridge = project / "docs" / "bridge.txt"
    bridge.write_text("The bridge was closed.")
    real = Path.open

    def open_it(path: Path, *args: object, **kwargs: object) -> object:
        if path.name == bridge.name:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *args, **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", open_it)  # root may read every file
    report = kb.index_paths("docs")
    assert [str(skip) for skip in report.skipped] == [
        "docs/bridge.txt: Permission denied; what is indexed of it stays"
    ]
    assert found(kb, "bridge") == ["The bridge opened in 1901."]
    monkeypatch.undo()
    monkeypatch.chdir(project)
    assert kb.index_paths("docs").changed == 1
    assert found(kb, "bridge") == ["The bridge was closed."]


def test_one_thing_is_a_list_of_one(kb: KnowledgeBase, project: Path) -> None:
    numbers = [Document(f"Number {n} is here.", id=str(n)) for n in range(1, 13)]
    assert kb.add(numbers) == [str(n) for n in range(1, 13)]
    assert kb.delete("12") == 1
    assert len(kb) == 11
    assert len(kb.add("Hi")) == 1  # type: ignore[arg-type]
    assert kb.add(Document("Alone.", id="d")) == ["d"]
    assert kb.add({"page_content": "From JSON.", "id": "j"}) == ["j"]  # type: ignore[arg-type]
    assert found(kb, "hi") == ["Hi"]
    assert kb.index_paths(str(project / "docs")).added == 2
    assert kb.index_paths(project / "docs").unchanged == 2
    with pytest.raises(UsageError, match="example"):
        kb.index_pages("example.org is no address")


@pytest.mark.parametrize("given", ["", " ", ["docs", ""]])
def test_an_empty_path_is_not_this_folder(
    kb: KnowledgeBase, project: Path, given: str | list[str]
) -> None:
    with pytest.raises(UsageError, match="path to index is empty"):
        kb.index_paths(given)
    assert len(kb) == 0


OWN = {
    "start": 12.5,
    "end": 20.0,
    "score": 0.9,
    "query": "q7",
    "position": 3,
    "rank": 2,
    "merged_rank": 0,
    "of_run": "question",
}


def test_a_document_keeps_its_own_fields_beside_those_of_its_passages(kb: KnowledgeBase) -> None:
    kb.add(Document("He speaks of the bridge.", metadata={**OWN, "page": 4}))
    (passage,) = kb.as_retriever().invoke("bridge")
    assert {key: passage.metadata[f"{key}_"] for key in OWN} == OWN
    assert (passage.metadata["start"], passage.metadata["end"]) == (0, 24)
    assert (passage.metadata["page"], passage.metadata["rank"]) == (4, 0)


def test_a_passage_of_a_knowledge_base_goes_into_another_as_it_is(
    kb: KnowledgeBase, project: Path, tmp_path: Path
) -> None:
    kb.index_paths("docs")
    passages = kb.as_retriever().invoke("bridge zebras")
    with KnowledgeBase.create(tmp_path / "other", settings=LEXICAL) as other:
        other.add(passages)
        (one,) = other.as_retriever().invoke("bridge")
        assert one.metadata == kb.as_retriever().invoke("bridge")[0].metadata
        generation = other.manifest.generation
        other.add(reversed(passages))
        assert other.manifest.generation == generation
