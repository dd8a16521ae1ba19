from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Run

from ragweave.testing import ScriptedModel

BM25 = ("--embedding", "none")


def test_indexes_and_then_only_what_changed(ragweave: Run, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for name in "abc":
        (docs / f"{name}.txt").write_text(f"The colour of {name} is green.\n", "utf-8")
    first = ragweave("index", "docs", "--kb", "kb", *BM25, cwd=tmp_path)
    assert "3 passages; files: 3 added (no vectors)" in first.stdout
    (docs / "a.txt").write_text("The colour of a is blue.\n", "utf-8")
    (docs / "b.txt").unlink()
    again = ragweave("index", "docs", "--kb", "kb", cwd=tmp_path)
    assert "2 passages; files: 1 changed, 1 removed, 1 unchanged (no vectors)" in again.stdout
    assert (first.returncode, again.returncode) == (0, 0)


def test_mistakes_are_one_line_and_exit_2(ragweave: Run, tmp_path: Path, kb: Path) -> None:
    cases = [
        (("index", "--kb", "kb"), "nothing to index"),
        (("index", "", "--kb", "new", *BM25), "at least one file or folder"),
        (("index", str(tmp_path), "--kb", "", *BM25), "needs a folder"),
        (("index", "missing", "--kb", "kb", *BM25), "missing"),
        (("index", str(tmp_path), "--kb", str(kb), "--size", "50"), "size"),
        (("index", str(tmp_path), "--kb", "kb", "--unit", "pages", *BM25), "unit"),
        (("index", str(tmp_path), "--kb", "kb", "--chunker", "heading", *BM25), "headings"),
        (("index", "https://example.org/a", "--kb", "kb", *BM25), "read only with --fetch"),
        (("index", str(tmp_path), "--kb", "kb", "--language", "klingon", *BM25), "klingon"),
        (("index", str(tmp_path), "--ray", "--kb", "new"), "--ray needs --kb lance:"),
        (("index", str(tmp_path), "--ray", "--kb", "lance:new", "--enrich", "x"), "leave out web pages"),
    ]
    for args, message in cases:
        done = ragweave(*args, cwd=tmp_path)
        assert done.returncode == 2, done
        assert message in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_a_mistyped_path_leaves_no_knowledge_base(ragweave: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Good text about apples.\n", "utf-8")
    done = ragweave("index", "a.txt", "b.text", "--kb", "kb", *BM25, cwd=tmp_path)
    assert (done.returncode, "no such file or folder: b.text" in done.stderr) == (2, True)
    assert not (tmp_path / "kb").exists()


def test_a_folder_without_readable_files_is_said(ragweave: Run, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "picture.bin").write_bytes(b"\x00\x01")
    done = ragweave("index", "docs", "--kb", "kb", *BM25, cwd=tmp_path)
    assert done.returncode == 2
    assert "no passage was indexed" in done.stderr


def test_deleting_the_last_file_is_no_mistake(ragweave: Run, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.txt").write_text("The colour of a is green.\n", "utf-8")
    assert ragweave("index", "docs", "--kb", "kb", *BM25, cwd=tmp_path).returncode == 0
    (docs / "a.txt").unlink()
    (docs / "left.zzz").write_text("of no type that is known", "utf-8")
    done = ragweave("index", "docs", "--kb", "kb", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 removed" in done.stdout


@pytest.mark.loopback
def test_to_skip_every_file_is_an_error_whatever_was_there(ragweave: Run, tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text("The colour of a is green.\n", "utf-8")
    (tmp_path / "x.json").write_bytes(b"\0\0")
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7 nonsense")
    for first in (False, True):
        bad = ragweave("index", "x.json", "broken.pdf", "--kb", "kb", *BM25, cwd=tmp_path)
        assert bad.returncode == 2
        assert "skipped: " in bad.stderr
        assert "no passage was indexed: every file found was skipped" in bad.stderr
        if not first:
            good = ragweave("index", "good.txt", "x.json", "--kb", "kb", cwd=tmp_path)
            assert good.returncode == 0, good.stderr
    again = ragweave("index", "good.txt", "x.json", "--kb", "kb", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    local = "http://127.0.0.1:9/nothing.html"
    page = ragweave("index", "--fetch", local, "--kb", "kb", cwd=tmp_path)
    assert (page.returncode, "cannot be fetched" in page.stderr) == (2, True)


def test_a_folder_that_moved_is_recognised(ragweave: Run, tmp_path: Path) -> None:
    docs = tmp_path / "proj" / "docs"
    docs.mkdir(parents=True)
    (docs / "bridge.txt").write_text("The bridge opened in 1901.\n", "utf-8")
    (docs / "z.txt").write_text("Zebras graze.\n", "utf-8")
    index = ("index", "docs", "--kb", "kb")
    assert ragweave(*index, *BM25, cwd=docs.parent).returncode == 0
    moved = docs.parent.rename(tmp_path / "proj2")
    (moved / "docs" / "z.txt").unlink()
    assert "files: 1 added, 1 removed (" in ragweave(*index, cwd=moved).stdout
    checked = ragweave("doctor", "--kb", "kb", cwd=moved)
    assert (checked.returncode, "z.txt: the file is gone" in checked.stdout) == (0, True)
    assert "1 removed" in ragweave("index", str(docs), "--kb", "kb", cwd=moved).stdout
    assert "gone" not in ragweave("doctor", "--kb", "kb", cwd=moved).stdout


def test_a_damaged_index_is_repaired(ragweave: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The colour of a is green.\n", "utf-8")
    assert ragweave("index", "a.txt", "--kb", "kb", *BM25, cwd=tmp_path).returncode == 0
    (rows,) = (tmp_path / "kb").glob("index-*/rows")
    rows.unlink()
    broken = ragweave("doctor", "--kb", "kb", cwd=tmp_path)
    assert (broken.returncode, "cannot be opened" in broken.stdout) == (1, True)
    assert "no problems found" in ragweave("doctor", "--kb", "kb", "--repair", cwd=tmp_path).stdout
    assert "no problems found" in ragweave("doctor", "--kb", "kb", cwd=tmp_path).stdout


def test_loaders_and_retrievers_of_langchain_community(ragweave: Run, tmp_path: Path) -> None:
    pytest.importorskip("langchain_community.document_loaders")
    (tmp_path / "a.txt").write_text("The harbour of Varn freezes in January.", "utf-8")
    loader = ("--loader", "langchain_community.document_loaders:TextLoader", "--kb", "kb", *BM25)
    missing = ragweave("index", "missing.txt", *loader, cwd=tmp_path)
    assert missing.returncode == 2 and "missing.txt cannot be read with langchain_community" in missing.stderr
    ask = ("ask", "When does the harbour of Varn freeze?", "-m", "concat", "--model", "extractive?similarity=lexical")
    empty = ragweave(*ask, "--kb", "kb", cwd=tmp_path)
    assert empty.returncode == 2 and "kb is empty: fill it with `ragweave index" in empty.stderr
    done = ragweave("index", "a.txt", *loader, cwd=tmp_path)
    assert "1 passage; files: 1 added" in done.stdout, done.stderr
    tfidf = 'langchain_community.retrievers:TFIDFRetriever.from_texts?texts=["The harbour of Varn freezes in January."]'
    for place in (("--kb", "kb"), ("--retriever", tfidf)):
        asked = ragweave(*ask, *place, cwd=tmp_path)
        assert "January" in asked.stdout, asked.stderr


def test_a_langchain_loader_by_its_path(ragweave: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from langchain_core.documents import Document\n"
        "class Loader:\n"
        "    def __init__(self, topic, times=1):\n"
        "        self.text = f'All about {topic}. ' * times\n"
        "    def lazy_load(self):\n"
        "        yield Document(self.text, metadata={'kind': 'lesson'})\n"
    )
    index = ("index", "salt", "pepper", "--loader", "mine:Loader?times=2", "--kb", "kb", *BM25)
    done = ragweave(*index, cwd=tmp_path)
    assert "kb: 2 passages; files: 1 added" in done.stdout, done.stderr
    for chosen, text in (("kind=lesson", "salt"), ("kind=other", "no passage passes")):
        asked = ragweave(
            *("ask", "What is it all about salt?", "--kb", "kb", "-m", "concat", "--json"),
            *("--filter", chosen),
            cwd=tmp_path,
        )
        assert text in asked.stdout + asked.stderr


def test_a_model_enriches_passages_and_the_report_says_what_it_cost(
    ragweave: Run, scripted: dict[str, ScriptedModel], tmp_path: Path
) -> None:
    scripted["m"] = ScriptedModel(script=lambda _call: "NAME: Bapi | Ada Brenner")
    (tmp_path / "bapi.md").write_text("# Bapi\n\nBapi grew up in Norhaven.\n", "utf-8")
    (tmp_path / "trip.md").write_text("# Trip\n\nThey met Ada Brenner there.\n", "utf-8")
    done = ragweave("index", ".", "--kb", "kb", "--embedding", "none", "--enrich", "scripted:m", cwd=tmp_path)
    assert "2 passages enriched: 2 calls, " in done.stdout, done.stderr


def test_dates_are_counted_and_the_newest_version_is_quoted(ragweave: Run, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for name, days in (("leave 2021-01-01", "five"), ("leave 2025-03-01", "ten"), ("leave", "some")):
        (docs / f"{name}.txt").write_text(f"Staff may carry over {days} days of leave.\n", "utf-8")
    done = ragweave("index", "docs", "--kb", "kb", *BM25, cwd=tmp_path)
    assert "dates: 2 from name, 1 without one\n" in done.stdout
    question, kb = "Staff may carry over five days of leave?", ("--kb", "kb", "-k", "1")
    for more, days in (((), "five"), (("--prefer", "newest"), "ten"), (("-m", "concat[prefer=newest]"), "ten")):
        assert f"— Staff may carry over {days} days" in ragweave("ask", question, *kb, *more, cwd=tmp_path).stdout
    wrong = ragweave("ask", question, *kb, "--prefer", "oldest", cwd=tmp_path)
    assert (wrong.returncode, "newest" in wrong.stderr) == (2, True)
