"""The knowledge base with BM25: what goes in, what changes, what comes out."""

from __future__ import annotations

import gc
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document

from ragweave.errors import KnowledgeBaseError, UsageError
from ragweave.tools.knowledge import IndexReport, KnowledgeBase, Settings, Skip, manifest
from ragweave.tools.knowledge.store import Store
from ragweave.tools.knowledge.writing import Writer

LEXICAL = Settings(embedding=None)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "whales.md").write_text("# Whales\n\nWhales sing songs in the deep sea.")
    (folder / "bread.txt").write_text("Bread is baked in ovens.")
    (folder / "rows.jsonl").write_text('{"id": "r1", "text": "Rivers run to the sea."}\nbad\n')
    return folder


@pytest.fixture
def kb(tmp_path: Path) -> KnowledgeBase:
    return KnowledgeBase.create(tmp_path / "kb", settings=LEXICAL)


def found(kb: KnowledgeBase, query: str, k: int = 9) -> list[str]:
    return [doc.page_content for doc in kb.as_retriever(k).invoke(query)]


def test_index_and_ask(kb: KnowledgeBase, docs: Path) -> None:
    report = kb.index_paths([docs])
    assert (report.added, report.passages, report.generation) == (3, 3, 1)
    assert [str(skip) for skip in report.skipped] == [
        f"{docs}/rows.jsonl:2: not JSON (Expecting value)"
    ]
    assert len(kb) == 3
    whales, rivers = kb.as_retriever(k=5).invoke("singing whales of the sea")
    assert whales.metadata["title"] == "Whales"
    assert whales.metadata["source"] == (docs / "whales.md").as_posix()
    assert (rivers.id, rivers.metadata["line"]) == ("r1", 1)


def test_positions_lead_back_to_the_source(kb: KnowledgeBase, docs: Path) -> None:
    text = " ".join(f"word{n}" for n in range(230))
    (docs / "long.txt").write_text(text)
    kb.index_paths([docs / "long.txt"])
    (passage,) = kb.as_retriever().invoke("word150")
    assert text[passage.metadata["start"] : passage.metadata["end"]] == passage.page_content
    assert passage.page_content.split()[0] == "word100"


def test_again_takes_only_what_changed(kb: KnowledgeBase, docs: Path) -> None:
    kb.index_paths([docs])
    again = kb.index_paths([docs])
    assert (again.unchanged, again.added, again.changed, again.generation) == (3, 0, 0, 1)
    assert len(again.skipped) == 1
    os.utime(docs / "bread.txt", (1, 1))
    assert kb.index_paths([docs]).generation == 1
    (docs / "bread.txt").write_text("Cakes are baked too.")
    (docs / "new.txt").write_text("Clouds carry rain.")
    (docs / "whales.md").unlink()
    report = kb.index_paths([docs])
    assert (report.added, report.changed, report.removed, report.unchanged) == (1, 1, 1, 1)
    assert (report.generation, report.passages) == (2, 3)
    assert found(kb, "whales ovens") == []
    assert set(found(kb, "cakes clouds")) == {"Clouds carry rain.", "Cakes are baked too."}


def test_files_elsewhere_stay(kb: KnowledgeBase, docs: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("Stones are old.")
    kb.index_paths([docs, other])
    other.unlink()
    assert kb.index_paths([docs]).removed == 0
    assert found(kb, "stones") == ["Stones are old."]
    assert kb.index_paths([other]).removed == 1
    assert found(kb, "stones") == []


def test_a_file_that_becomes_unreadable_leaves(kb: KnowledgeBase, docs: Path) -> None:
    kb.index_paths([docs])
    (docs / "bread.txt").write_bytes(b"\0\1\2")
    report = kb.index_paths([docs])
    assert (report.removed, report.passages) == (1, 2)
    assert f"{docs}/bread.txt: binary, not text" in map(str, report.skipped)
    assert kb.index_paths([docs]).generation == report.generation


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission_is_named(kb: KnowledgeBase, docs: Path) -> None:
    (docs / "bread.txt").chmod(0)
    report = kb.index_paths([docs])
    assert report.added == 2
    assert f"{docs}/bread.txt: Permission denied" in map(str, report.skipped)


def test_own_folder_is_not_indexed(docs: Path) -> None:
    with KnowledgeBase.create(docs / "kb", settings=LEXICAL) as kb:
        assert kb.index_paths([docs]).added == 3
        assert kb.index_paths([docs]).added == 0


def test_same_content_is_one_passage_while_any_source_holds_it(
    kb: KnowledgeBase, docs: Path
) -> None:
    for name in ("a", "b"):
        (docs / name).mkdir()
        (docs / name / "same.txt").write_text("Night falls.")
    assert kb.index_paths([docs / "a", docs / "b"]).passages == 1
    (docs / "a" / "same.txt").unlink()
    kb.index_paths([docs / "a"])
    (passage,) = kb.as_retriever().invoke("night")
    assert passage.metadata["source"] == (docs / "b" / "same.txt").as_posix()
    (docs / "b" / "same.txt").unlink()
    kb.index_paths([docs / "b"])
    assert found(kb, "night") == []


def test_ids_are_stable_and_told_apart(kb: KnowledgeBase) -> None:
    first = kb.add([Document("Salt."), Document(id="p", page_content="Pepper.")], "spices")
    assert first == [*kb.add([Document("Salt.")]), "p"]
    assert kb.add([Document(id="p", page_content="Other.")], "else")[0].startswith("p~")
    assert len(kb) == 3
    assert kb.add([Document(id="p", page_content="Pepper again.")], "spices") == ["p"]
    assert found(kb, "pepper") == ["Pepper again."]


def test_documents_are_cut_and_keep_their_metadata(kb: KnowledgeBase) -> None:
    text = " ".join(f"w{n}" for n in range(150))
    doc = Document(id="d", page_content=text, metadata={"title": "T", "source": "S", "year": 7})
    assert kb.add([doc]) == ["d#0", "d#1"]
    meta = kb.as_retriever().invoke("w120")[0].metadata
    assert (meta["title"], meta["source"], meta["year"]) == ("T", "S", 7)
    assert kb.add([doc], "whole", split=False) == ["d"]
    assert kb.delete(["d"]) == 3
    assert len(kb) == 0
    assert found(kb, "w120") == []


def test_adding_the_same_changes_nothing(kb: KnowledgeBase) -> None:
    kb.add([Document("Salt.")])
    generation = kb.manifest.generation
    kb.add([Document("Salt.")])
    assert kb.delete(["nobody"]) == 0
    assert kb.manifest.generation == generation
    with pytest.raises(UsageError, match="no text"):
        kb.add([Document(" ")])


def test_delete_source(kb: KnowledgeBase, docs: Path) -> None:
    kb.index_paths([docs])
    assert kb.delete_source(str(docs / "whales.md"))
    assert not kb.delete_source("nobody")
    assert found(kb, "whales") == []


def test_a_file_keeps_one_name_from_whichever_folder_it_is_indexed(
    kb: KnowledgeBase, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(docs.parent)
    kb.index_paths(["docs"])
    (docs / "bread.txt").write_text("Bread is baked at dawn.")
    monkeypatch.chdir(docs)
    assert kb.index_paths(["."]).changed == 1
    (bread,) = kb.as_retriever(1).invoke("bread")
    (whales,) = kb.as_retriever(1).invoke("whales")
    assert (bread.metadata["source"], whales.metadata["source"]) == (
        "docs/bread.txt",
        "docs/whales.md",
    )
    assert kb.delete_source(bread.metadata["source"])
    assert kb.delete_source("whales.md")  # its path from here
    assert not kb.delete_source("bread.txt")
    assert len(kb) == 1


def test_a_folder_that_cannot_be_listed_keeps_its_files(
    kb: KnowledgeBase, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = docs / "locked"
    locked.mkdir()
    for name in ("a", "b"):
        (locked / f"{name}.txt").write_text(f"Salt {name} is white.")
    kb.index_paths([docs])
    (docs / "bread.txt").unlink()
    real = os.scandir

    def scandir(path: str) -> object:
        if Path(path) == locked:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)  # root may list every folder
    for paths in ([docs], [locked]):
        report = kb.index_paths(paths)
        assert f"{locked}: Permission denied; 2 indexed files of it stay" in map(
            str, report.skipped
        )
        assert len(found(kb, "salt")) == 2
    assert found(kb, "bread") == []
    monkeypatch.undo()
    (locked / "a.txt").unlink()
    assert kb.index_paths([docs]).removed == 1


def test_a_knowledge_base_that_vanishes_is_told_at_once(kb: KnowledgeBase) -> None:
    kb.add([Document("Salt is white.")])
    retriever = kb.as_retriever()
    assert retriever.invoke("salt")
    (kb.path / "manifest.json").rename(kb.path / "kept")
    for _ in range(2):
        with pytest.raises(KnowledgeBaseError, match=r"it has no manifest\.json"):
            retriever.invoke("salt")
    (kb.path / "kept").rename(kb.path / "manifest.json")
    assert retriever.invoke("salt")


def test_a_report_counts_files_and_rows_apart() -> None:
    def line(*skips: Skip, passages: int = 2) -> str:
        return str(IndexReport(1, 0, 0, 0, skips, passages, 0, 1))

    start = "2 passages; files: 1 added, 0 changed, 0 removed, 0 unchanged"
    file, row = Skip("a", "empty"), Skip("b", "not JSON", 3)
    assert line() == f"{start}; none skipped"
    assert line(file, row, file) == f"{start}; 2 files and 1 row skipped"
    assert line(row, row) == f"{start}; 2 rows skipped"
    assert line(file, passages=1).startswith("1 passage; files")


def test_an_open_reader_sees_the_next_generation(kb: KnowledgeBase) -> None:
    reader = KnowledgeBase.open(kb.path)
    retriever = reader.as_retriever()
    assert retriever.invoke("salt") == []
    kb.add([Document("Salt is white.")])
    assert len(retriever.invoke("salt")) == 1
    for number in range(4):
        kb.add([Document(f"Salt number {number}.")])
    assert len(retriever.invoke("salt")) == 5
    assert sorted(one.name for one in (kb.path / "bm25").iterdir()) == ["4", "5"]


def test_a_reader_without_the_right_to_write_sees_each_generation(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    access, tidy, answers = os.access, Writer._tidy, []
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK and access(path, mode))
    reader = KnowledgeBase.open(kb.path).as_retriever(9)

    def ask_and_tidy(*given: object) -> None:
        answers.append({doc.page_content for doc in reader.invoke("harbour")})
        tidy(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(Writer, "_tidy", ask_and_tidy)
    for cargo in ("ships", "trains", "zebras"):
        texts = {f"Harbour {number}: {cargo}." for number in range(5)}
        kb.add([Document(text, id=text[8]) for text in texts])
        answers.append({doc.page_content for doc in reader.invoke("harbour")})
        assert answers[-2:] == [texts, texts]


def test_a_reader_of_a_folder_that_was_made_anew_reads_the_new_one(kb: KnowledgeBase) -> None:
    reader = KnowledgeBase.open(kb.path).as_retriever()
    kb.add([Document("The lamp was lit in 1891."), Document("The bakery sells bread.")])
    assert len(reader.invoke("lamp")) == 1
    kb.close()
    shutil.rmtree(kb.path)
    with KnowledgeBase.create(kb.path, settings=LEXICAL) as anew:
        anew.add([Document(f"Lamp {number} was lit in 2020.") for number in range(3)])
    assert {doc.page_content[-5:] for doc in reader.invoke("lamp")} == {"2020."}
    assert len(reader.invoke("lamp")) == 3


def test_a_folder_that_is_made_anew_during_a_query_is_asked_again(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = KnowledgeBase.open(kb.path).as_retriever()
    kb.add([Document("The lamp was lit in 1891.")])
    by_rows = Store.by_rows

    def make_anew(store: Store, rows: list[int]) -> dict[int, Document]:
        monkeypatch.undo()
        shutil.rmtree(kb.path)
        with KnowledgeBase.create(kb.path, settings=LEXICAL) as anew:
            anew.add([Document("The bakery sells bread."), Document("The lamp was lit in 2020.")])
        return by_rows(store, rows)

    monkeypatch.setattr(Store, "by_rows", make_anew)
    assert [doc.page_content for doc in reader.invoke("lamp")] == ["The lamp was lit in 2020."]


words = st.lists(st.sampled_from(["sea", "sun", "oak", "elm", "ash"]), min_size=1, max_size=3)
states = st.dictionaries(st.sampled_from(["a", "b", "c"]), words.map(" ".join), max_size=3)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=st.lists(states, min_size=1, max_size=4))
def test_any_history_ends_as_a_fresh_index_of_the_last_state(
    history: list[dict[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("history")
    docs = root / "docs"
    docs.mkdir()
    with (
        KnowledgeBase.create(root / "grown", settings=LEXICAL) as grown,
        KnowledgeBase.create(root / "fresh", settings=LEXICAL) as fresh,
    ):
        for state in history:
            for name in ("a", "b", "c"):
                (docs / f"{name}.txt").unlink(missing_ok=True)
            for name, text in state.items():
                (docs / f"{name}.txt").write_text(text)
            grown.index_paths([docs])
        fresh.index_paths([docs])
        for query in ("sea sun", "oak", "a b c elm ash"):
            one, two = (base.as_retriever(9).invoke(query) for base in (grown, fresh))
            assert one == two


def test_open_or_create_and_settings(tmp_path: Path) -> None:
    made = Settings(embedding=None, size=50, language="german", html="page")
    with KnowledgeBase.open_or_create(tmp_path / "kb", settings=made) as kb:
        assert kb.settings == made
    with KnowledgeBase.open_or_create(tmp_path / "kb") as kb:
        assert kb.settings == made
        kb.add([Document("Salz ist weiß.")])
    with pytest.raises(KnowledgeBaseError, match="size = 50, not 60"):
        KnowledgeBase.open_or_create(
            tmp_path / "kb", settings=Settings(embedding=None, size=60, language="german")
        )
    manifest = json.loads((tmp_path / "kb" / "manifest.json").read_text())
    assert (manifest["format_version"], manifest["language"]) == (2, "german")


def test_modes_and_k_are_checked(kb: KnowledgeBase) -> None:
    with pytest.raises(UsageError, match="k must"):
        kb.as_retriever(0)
    with pytest.raises(UsageError, match="unknown retriever 'best'"):
        kb.as_retriever(mode="best")  # type: ignore[arg-type]
    for mode in ("dense", "hybrid"):
        with pytest.raises(KnowledgeBaseError, match="no embeddings"):
            kb.as_retriever(mode=mode)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="at least one"):
        kb.index_paths([])
    with pytest.raises(KnowledgeBaseError, match="no such file or folder: nowhere"):
        kb.index_paths(["nowhere"])


def test_folders_that_are_none_of_ours(tmp_path: Path, kb: KnowledgeBase) -> None:
    with pytest.raises(KnowledgeBaseError, match="no knowledge base at"):
        KnowledgeBase.open(tmp_path / "nowhere")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "thesis.txt").write_text("precious")
    with pytest.raises(KnowledgeBaseError, match="not a ragweave knowledge base"):
        KnowledgeBase.open(tmp_path / "foreign")
    with pytest.raises(KnowledgeBaseError, match=r"contains other files \(thesis.txt\)"):
        KnowledgeBase.create(tmp_path / "foreign", settings=LEXICAL)
    with pytest.raises(KnowledgeBaseError, match="already"):
        KnowledgeBase.create(kb.path, settings=LEXICAL)
    with pytest.raises(KnowledgeBaseError, match="is a file"):
        KnowledgeBase.create(tmp_path / "foreign" / "thesis.txt", settings=LEXICAL)
    (tmp_path / "foreign" / "manifest.json").write_text('{"name": "web app"}')
    with pytest.raises(KnowledgeBaseError, match="foreign"):
        KnowledgeBase.open(tmp_path / "foreign")


def test_a_broken_off_creation_can_be_made_good(tmp_path: Path, kb: KnowledgeBase) -> None:
    (kb.path / "manifest.json").unlink()
    with KnowledgeBase.open_or_create(kb.path, settings=LEXICAL) as again:
        assert len(again) == 0


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("manifest.json", b"{", "damaged"),
        ("manifest.json", b'{"format": "ragweave-knowledge-base", "format_version": 1}', "damaged"),
        ("manifest.json", b'{"format": "ragweave-knowledge-base", "format_version": 9}', "newer"),
        ("passages.sqlite", b"nonsense" * 4096, "cannot be read"),
        ("bm25/1/data.csc.index.npy", b"", "damaged"),
        ("bm25/1/rows.npy", b"junk", "damaged"),
        ("bm25/1/terms.npy", None, "damaged"),
        ("passages.sqlite", None, "cannot be read"),
    ],
)
def test_damage_is_one_clear_error(
    kb: KnowledgeBase, name: str, data: bytes | None, message: str
) -> None:
    kb.add([Document("Salt is white.")])
    kb.close()
    for log in kb.path.glob("passages.sqlite-*"):
        log.unlink()
    (kb.path / name).unlink()
    if data is not None:
        (kb.path / name).write_bytes(data)
    with pytest.raises(KnowledgeBaseError, match=message) as caught:
        KnowledgeBase.open(kb.path).as_retriever().invoke("salt")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [b"nonsense" * 4096, b"", None])
def test_a_damaged_database_is_no_full_disk_to_a_writer(
    kb: KnowledgeBase, docs: Path, data: bytes | None
) -> None:
    kb.add([Document("Salt is white.")])
    kb.close()
    for log in kb.path.glob("passages.sqlite-*"):
        log.unlink()
    (kb.path / "passages.sqlite").unlink()
    if data is not None:
        (kb.path / "passages.sqlite").write_bytes(data)
    with pytest.raises(
        KnowledgeBaseError, match=r"is damaged \(.*\); delete the folder and index again"
    ):
        kb.index_paths([docs])


def test_import_is_light() -> None:
    code = (
        "import sys, ragweave.tools.knowledge\n"
        "heavy = {'torch', 'chromadb', 'sentence_transformers', 'transformers'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or None)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_base_that_is_not_closed_leaves_no_connection_open(tmp_path: Path) -> None:
    with KnowledgeBase.create(tmp_path / "kb", settings=Settings(embedding=None)) as base:
        base.add([Document("Mars has two moons.")])
    store = Store(tmp_path / "kb")
    with store.reading() as connection:
        pass
    del store
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


def test_a_relative_path_is_the_same_folder_wherever_the_process_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "one")
    with KnowledgeBase.create("kb", settings=LEXICAL) as kb:
        kb.add([Document("Salt is white.")])
        monkeypatch.chdir(tmp_path / "two")
        with KnowledgeBase.create("kb", settings=LEXICAL) as other:
            other.add([Document("Salt is grey.")])
        assert found(kb, "salt") == ["Salt is white."]
        kb.add([Document("Salt is cheap.")])
        assert sorted(found(kb, "salt")) == ["Salt is cheap.", "Salt is white."]
        assert kb.path == Path("kb")
        assert len(other) == 1


def test_a_model_that_is_left_open_is_the_one_of_the_knowledge_base(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb.add([Document("Salt is white.")])
    monkeypatch.setattr(manifest, "dense_available", lambda: True)
    with KnowledgeBase.open_or_create(kb.path, settings=Settings()) as again:
        assert again.settings.embedding is None
    with pytest.raises(KnowledgeBaseError, match="created with size = 100, not 50"):
        KnowledgeBase.open_or_create(kb.path, settings=Settings(size=50))


@pytest.mark.parametrize("counting", [{"unit": "tokens"}, {"chunker": "token"}])
def test_tokens_are_counted_by_a_models_tokenizer_or_not_at_all(
    tmp_path: Path, counting: dict[str, Any]
) -> None:
    with pytest.raises(UsageError, match="counted by the tokenizer of a named embedding model"):
        KnowledgeBase.create(tmp_path / "kb", settings=Settings(embedding=None, **counting))
    assert not (tmp_path / "kb").exists()
    (tmp_path / "old").mkdir()
    with KnowledgeBase.create(tmp_path / "old", settings=LEXICAL) as old:
        path = old.path / "manifest.json"
    values = json.loads(path.read_text("utf-8"))
    values["settings"] |= {**counting, "size": 2}
    path.write_text(json.dumps(values), "utf-8")
    with KnowledgeBase.open(tmp_path / "old") as old:  # made by an earlier version
        assert len(old.add([Document("Salt is white.")])) == 2
