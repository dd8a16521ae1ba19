"""The knowledge base in a folder: what is indexed, found, filtered, cited and deleted."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document

from ragweave import build_graph
from ragweave.errors import KnowledgeBaseError, UsageError
from ragweave.graphs.dos_rag import in_document_order
from ragweave.testing.store import WordEmbeddings
from ragweave.tools.knowledge import IndexSettings, KnowledgeBase, ingest

PLAIN = IndexSettings(embedding=None)


@pytest.fixture
def kb(tmp_path: Path) -> KnowledgeBase:
    return KnowledgeBase.create(tmp_path / "kb", settings=PLAIN)


def texts(kb: KnowledgeBase, query: str, **more: Any) -> list[str]:
    return [doc.page_content for doc in kb.as_retriever(**more).invoke(query)]


def test_files_are_indexed_once(kb: KnowledgeBase, docs: Path) -> None:
    first = kb.index_paths([docs])
    assert (first.added, first.passages, len(kb)) == (2, 2, 2)
    state = [*kb.path.glob("index-*")]
    again = kb.index_paths(docs)
    assert (again.added, again.unchanged, [*kb.path.glob("index-*")]) == (0, 2, state)
    os.utime(docs / "ferry.txt", (1, 1))
    assert kb.index_paths([docs]).unchanged == 2
    (docs / "ferry.txt").write_text("The ferry sails at ten.")
    (docs / "harbour.md").unlink()
    report = kb.index_paths([docs])
    assert (report.changed, report.removed, len(kb)) == (1, 1, 1)
    assert texts(kb, "ferry") == ["The ferry sails at ten."]


@pytest.mark.parametrize("hours", [0, 24])
def test_a_change_that_leaves_size_and_time_is_seen(kb: KnowledgeBase, docs: Path, hours: int) -> None:
    """Of a file that was just written, and of one that the clock, set back since, takes to be of tomorrow."""
    file = docs / "ferry.txt"
    os.utime(file, (time.time() + 3_600 * hours,) * 2)
    assert kb.index_paths(file).added == 1
    before = file.stat()
    file.write_text(file.read_text().replace("nine", "five"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert kb.index_paths(file).changed == 1


def test_a_file_is_deleted_by_a_relative_path(kb: KnowledgeBase, docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(docs.parent)
    kb.index_paths([docs])
    assert kb.delete(source="docs/ferry.txt") == 1 and texts(kb, "ferry") == []


@pytest.mark.parametrize("target", ["docs/old", "elsewhere"])
def test_a_moved_file_keeps_its_vectors(tmp_path: Path, docs: Path, target: str) -> None:
    model = WordEmbeddings()
    kb = KnowledgeBase.create(tmp_path / "kb", embeddings=model)
    kb.index_paths([docs])
    (tmp_path / target).mkdir()
    (docs / "ferry.txt").rename(tmp_path / target / "ferry.txt")
    embedded = len(model.embedded)
    report = kb.index_paths([tmp_path / target])
    assert (report.added, report.removed, report.embedded) == (1, 1, 0)
    assert len(model.embedded) == embedded
    (doc,) = kb.as_retriever(1, "bm25").invoke("ferry")
    assert doc.metadata["source"].endswith(f"{target}/ferry.txt")


def test_a_folder_that_is_gone_leaves_the_index(kb: KnowledgeBase, docs: Path) -> None:
    kb.index_paths([docs])
    shutil.rmtree(docs)
    assert len(kb.missing_files()) == 2 and kb.check() == []
    assert kb.index_paths([docs]).removed == 2 and len(kb) == 0
    with pytest.raises(KnowledgeBaseError, match="no such file or folder"):
        kb.index_paths([docs / "never"])
    with pytest.raises(UsageError, match="at least one"):
        kb.index_paths([])


def test_an_unreadable_file_is_a_line(kb: KnowledgeBase, docs: Path) -> None:
    (docs / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")
    (docs / "photo.bin").write_bytes(bytes(range(256)))
    report = kb.index_paths([docs])
    assert report.added == 2 and len(report.notices) == 2
    assert "2 skipped" in str(report)
    assert [str(notice) for notice in kb.index_paths([docs]).notices] == [str(n) for n in report.notices]


def test_odd_files_are_lines(kb: KnowledgeBase, docs: Path) -> None:
    (docs / "one").symlink_to("two")
    (docs / "two").symlink_to("one")
    (docs / "self").symlink_to(".")
    (docs / ".hidden").mkdir()
    (docs / ".hidden" / "file.txt").write_text("x")
    KnowledgeBase.create(docs / "another", settings=PLAIN)
    os.mkfifo(docs / "pipe")
    Path(os.fsdecode(os.fsencode(docs) + b"/\xff.txt")).write_text("x")
    report = kb.index_paths([docs])
    assert (report.added, len(report.notices)) == (2, 4)


def test_equal_texts_fill_one_place(tmp_path: Path) -> None:
    kb = KnowledgeBase.create(tmp_path / "kb", embeddings=WordEmbeddings())
    for n in range(6):
        kb.add(Document("Refunds in the newsletter.", metadata={"title": f"N{n}"}), f"n{n}")
    kb.add(Document("Refunds take ten days.", metadata={"tags": ["money", "days"]}), "rules")
    for mode in ("bm25", "dense", "hybrid", "graph"):
        assert len(texts(kb, "refunds", mode=mode, k=5)) == 2
        assert texts(kb, "refunds", mode=mode, filter={"tags": "days"}) == ["Refunds take ten days."]
    assert texts(kb, "refunds", filter={"tags": "none"}) == []


def test_a_filter_name_is_only_a_name(kb: KnowledgeBase) -> None:
    kb.add(Document("Refunds.", metadata={'a"b': 1, "x": {"y": "deep"}, "n": float("nan")}))
    assert texts(kb, "refunds", filter={'a"b': 1}) == ["Refunds."]
    assert texts(kb, "refunds", filter={"x": "deep"}) == ["Refunds."]
    with pytest.raises(UsageError, match="no passage has a field"):
        kb.as_retriever(filter={'x"."y': "deep"})


def test_documents_with_an_id_are_replaced(tmp_path: Path) -> None:
    kb = KnowledgeBase.create(tmp_path / "kb", settings=IndexSettings(embedding=None, size=3))
    for text, names in (
        ("salt is white pepper is black sugar is sweet", ["d#0", "d#1", "d#2"]),
        ("salt is white pepper is black", ["d#0", "d#1"]),
        ("pepper is black salt is white", ["d#0", "d#1"]),
    ):
        for url in ("old", "new"):
            doc = Document(text, id="d", metadata={"url": url})
            assert kb.add([doc]) == names
            state = [*kb.path.glob("index-*")]
            assert kb.add(doc) == names and [*kb.path.glob("index-*")] == state
            assert len(kb) == len(names)
            assert kb.as_retriever(1).invoke("salt")[0].metadata["url"] == url
    assert kb.add([Document("one", id="d"), Document("two", id="d")]) == ["d", "d"]
    assert texts(kb, "one two") == ["two"]


def test_documents_are_added_and_deleted(kb: KnowledgeBase) -> None:
    names = kb.add([Document("One.", id="a"), Document("Two.")], "s")
    assert names[0] == "a" and kb.add(Document("Two."), "s") == names[1:]
    assert kb.delete("a") == 1 and kb.delete(["unknown"]) == 0
    assert kb.delete(source="s") == 1 and kb.sources() == []
    kb.add(Document("Long text " * 100, id="b"), split=False)
    assert len(kb) == 1
    with pytest.raises(UsageError, match="no text"):
        kb.add(Document(" "))


def test_a_text_without_a_token_of_the_model_is_refused(tmp_path: Path) -> None:
    class NoTokens(WordEmbeddings):
        def token_spans(self, text: str) -> list[tuple[int, int]]:
            return []

    kb = KnowledgeBase.create(tmp_path / "kb", settings={"chunker": "token"}, embeddings=NoTokens())
    with pytest.raises(UsageError, match="no text"):
        kb.add(Document("\x01"))


def test_a_row_id_is_never_used_again(tmp_path: Path) -> None:
    kb = KnowledgeBase.create(tmp_path / "kb", embeddings=WordEmbeddings())
    kb.add([Document("salt", id="1"), Document("pepper", id="2")])
    kb.delete("2")
    kb.add(Document("sugar", id="3"))
    assert texts(kb, "sugar", mode="bm25") == ["sugar"] and texts(kb, "pepper", mode="bm25") == []
    assert texts(kb, "sugar", mode="dense", k=1) == ["sugar"]


def test_another_model_of_the_same_class_is_refused(tmp_path: Path) -> None:
    kb = KnowledgeBase.create(tmp_path / "kb", embeddings=WordEmbeddings())
    kb.add(Document("One."))
    with pytest.raises(KnowledgeBaseError, match=r"WordEmbeddings:words, whose.*WordEmbeddings:oth"):
        KnowledgeBase.open(tmp_path / "kb", embeddings=WordEmbeddings(model="other"))
    bare = KnowledgeBase.open(tmp_path / "kb")
    assert texts(bare, "one", mode="bm25") == ["One."] and bare.delete("unknown") == 0
    for work in (bare.as_retriever, lambda: bare.add(Document("Two."))):
        with pytest.raises(KnowledgeBaseError, match="pass that object to open"):
            work()
    assert len(bare) == 1
    plain = KnowledgeBase.create(tmp_path / "plain", settings=PLAIN)
    with pytest.raises(KnowledgeBaseError, match="has no embeddings"):
        plain.as_retriever(mode="dense")
    with pytest.raises(KnowledgeBaseError, match="without embeddings"):
        KnowledgeBase.open(tmp_path / "plain", embeddings=WordEmbeddings())


def test_vectors_of_another_length_are_refused(tmp_path: Path) -> None:
    KnowledgeBase.create(tmp_path / "kb", embeddings=WordEmbeddings()).add(Document("One."))
    longer = KnowledgeBase.open(tmp_path / "kb", embeddings=WordEmbeddings(size=32))
    with pytest.raises(KnowledgeBaseError, match="64 dimensions"):
        longer.as_retriever(mode="dense").invoke("one")
    with pytest.raises(KnowledgeBaseError, match="64 dimensions"):
        longer.add(Document("Two."))
    assert len(longer) == 1


def test_settings_are_fixed_once_there_are_passages(tmp_path: Path, docs: Path) -> None:
    KnowledgeBase.create(tmp_path / "kb")
    first = IndexSettings(embedding=None, size=50)
    kb = KnowledgeBase.open_or_create(tmp_path / "kb", settings=first)
    kb.index_paths([docs])
    with pytest.raises(KnowledgeBaseError, match="size = 50, not 100"):
        KnowledgeBase.open_or_create(tmp_path / "kb", settings=PLAIN)
    auto = IndexSettings(size=50)
    for same in (auto, {"unit": "words"}, {}, None):
        assert KnowledgeBase.open_or_create(tmp_path / "kb", settings=same).settings == first
    for wrong in ({"size": 0}, {"overlap": 100}, {"unit": "pages"}, {"language": "klingon"}):
        with pytest.raises(UsageError, match=f"{next(iter(wrong))}"):
            IndexSettings(**wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="unknown chunker"):
        KnowledgeBase.create(tmp_path / "other", settings=IndexSettings(embedding=None, chunker="x"))
    with pytest.raises(KnowledgeBaseError, match="no knowledge base at"):
        KnowledgeBase.open(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="unknown mode"):
        kb.as_retriever(mode="words")


def test_rows_are_read_again_by_other_fields(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"body": "A lost key.", "cost": "Forty euro."}\n')
    for field, text in (("plot", []), ("body", ["A lost key."]), ("cost", ["Forty euro."])):
        kb = KnowledgeBase.open_or_create(tmp_path / "kb", settings=IndexSettings(embedding=None, text_field=field))
        report = kb.index_paths(tmp_path / "rows.jsonl")
        assert [passage.page_content for passage in kb.passages()] == text
        assert [notice.status for notice in report.notices] == ["skipped"] * (not text)
        assert kb.index_paths(tmp_path / "rows.jsonl").changed == 0


def test_fields_of_rows_do_not_replace_what_the_package_sets(kb: KnowledgeBase, tmp_path: Path) -> None:
    rows = (f'{{"title": "Salt", "text": "salt {number}", "position": {9 - number}}}\n' for number in range(3))
    (tmp_path / "rows.jsonl").write_text("".join(rows))
    kb.index_paths(tmp_path / "rows.jsonl")
    passages = in_document_order(kb.as_retriever().invoke("salt"))
    assert [passage.metadata["position_"] for passage in passages] == [9, 8, 7]


def test_the_columns_of_an_faq_keep_their_names(kb: KnowledgeBase, tmp_path: Path) -> None:
    (tmp_path / "faq.csv").write_text("question,answer,text\nWho pays?,The guest.,The guest pays for salt.\n")
    kb.index_paths(tmp_path / "faq.csv")
    out = build_graph("concat", retriever=kb.as_retriever(filter={"question": "Who pays?"})).invoke(
        {"question": "Who pays for salt?"}
    )
    assert [passage.metadata["question"] for passage in out["passages"]] == ["Who pays?"]


@pytest.mark.parametrize(
    ("given", "path"), [("Salt", ["Salt"]), ([1, ["a"]], ["1", "['a']"]), ({"a": 1}, ["{'a': 1}"]), (None, [])]
)
def test_headings_of_any_form_are_texts(kb: KnowledgeBase, given: Any, path: list[str]) -> None:
    kb.add(Document("Refunds.", metadata={"heading_path": given}))
    (doc,) = kb.as_retriever().invoke("refunds")
    assert doc.metadata["heading_path"] == path


def test_a_loaders_documents_take_the_place_of_a_source(kb: KnowledgeBase) -> None:
    pages = [Document("Salt is white.", metadata={"page": 3, "source": "x"}), Document(" ")]
    assert kb.index_documents(pages, "book").added == 1
    assert kb.index_documents(pages, "book").unchanged == 1
    assert kb.index_documents([Document("Salt is grey.")], "book").changed == 1
    (doc,) = kb.as_retriever().invoke("salt")
    assert (doc.page_content, doc.metadata["source"]) == ("Salt is grey.", "book")


def test_pages_are_indexed_once(kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(url: str) -> tuple[bytes, str]:
        if url.endswith("lost"):
            raise OSError("not found")
        return b"<title>Tides</title><main><p>High water is at noon.</p></main>", ".html"

    monkeypatch.setattr(ingest, "fetch", fetch)
    page = "https://example.org/page"
    report = kb.index_pages([f"{page}#top", "https://example.org/lost"])
    assert (report.added, str(report.notices[0])) == (1, "https://example.org/lost: cannot be fetched (not found)")
    assert kb.index_pages(page).unchanged == 1
    (doc,) = kb.as_retriever(k=1).invoke("high water")
    assert (doc.metadata["title"], doc.metadata["source"]) == ("Tides", page)
    assert kb.delete(source=page) == 1
    with pytest.raises(UsageError):
        kb.index_pages("file:///etc/passwd")


@pytest.mark.parametrize("mark", ["\u00ad", "\u200b", "\u2060", "\ufeff"])
def test_marks_of_line_breaks_within_words_are_left_out(mark: str, kb: KnowledgeBase) -> None:
    text = f"Ada Bren{mark}ner mapped the Alden{mark}valley.\n\nThe valley lies in the north."
    kb.add([Document(text), Document("Another text."), Document("می\u200cخواهم")])
    for query in ("Aldenvalley", f"Alden{mark}valley"):
        assert "Ada Brenner mapped the Aldenvalley." in texts(kb, query, k=1, mode="bm25")[0]
    assert any(doc.page_content == "می\u200cخواهم" for doc in kb.passages())
    out = build_graph("concat").invoke({"question": "Who mapped the Aldenvalley?", "passages": [text]})
    assert "Ada Brenner mapped the Aldenvalley." in out["passages"][0].page_content
