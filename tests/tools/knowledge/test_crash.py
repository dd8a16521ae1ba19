"""Writers that are killed, interrupted, refused or out of disk; readers beside them."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from langchain_core.documents import Document
from tests.tools.knowledge.kb_embeddings import BagEmbeddings

from ragweave.errors import KnowledgeBaseError
from ragweave.tools.knowledge import KnowledgeBase, Settings

WRITER = Path(__file__).with_name("kb_writer.py")
COUNT = 320
"""Passages of the write that is broken off: five batches."""


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "old.txt").write_text("the old text about salt")
    return folder


@pytest.fixture
def kb(tmp_path: Path, docs: Path) -> Iterator[KnowledgeBase]:
    with KnowledgeBase.create(tmp_path / "kb", embeddings=BagEmbeddings()) as made:
        made.index_paths([docs])
        rows = [f'{{"text": "new text number {n} about pepper"}}\n' for n in range(COUNT)]
        (docs / "new.jsonl").write_text("".join(rows))
        (docs / "old.txt").unlink()
        yield made


def start(kb: KnowledgeBase, docs: Path, log: Path, **more: object) -> subprocess.Popen[str]:
    command = [sys.executable, str(WRITER), str(kb.path), str(docs), str(log), "0.3"]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, **more)  # type: ignore[call-overload,no-any-return]


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, "the writer never came so far"
        time.sleep(0.02)


def batches(log: Path) -> int:
    return log.read_text().count("\n") if log.exists() else 0


def texts(kb: KnowledgeBase, query: str, mode: str) -> list[str]:
    return [doc.page_content for doc in kb.as_retriever(5, mode).invoke(query)]  # type: ignore[arg-type]


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_broken_off_write(kb: KnowledgeBase, docs: Path, tmp_path: Path, sign: int) -> None:
    log = tmp_path / "log"
    kb.close()
    with start(kb, docs, log, stderr=subprocess.DEVNULL) as writer:
        wait_for(lambda: batches(log) >= 3)
        with pytest.raises(KnowledgeBaseError, match=f"being written by process {writer.pid};"):
            kb.index_paths([docs])
        for mode in ("bm25", "dense", "hybrid"):
            assert texts(kb, "salt", mode) == ["the old text about salt"]
        writer.send_signal(sign)
    assert writer.returncode != 0
    with KnowledgeBase.open(kb.path, embeddings=BagEmbeddings()) as again:
        assert (len(again), again.manifest.generation) == (1, 1)
        for mode in ("bm25", "dense"):
            assert texts(again, "salt pepper", mode) == ["the old text about salt"]
    model = BagEmbeddings()
    with KnowledgeBase.open(kb.path, embeddings=model) as after:
        report = after.index_paths([docs])
        assert (report.added, report.removed, report.passages) == (1, 1, COUNT)
        assert 0 < report.embedded == len(model.embedded) <= COUNT - 2 * 64
        assert texts(after, "salt", "bm25") == []
        assert len(texts(after, "new text number 7 about pepper", "dense")) == 5
    assert len(kb) == COUNT


def test_vectors_of_a_dropped_write_are_tidied(
    kb: KnowledgeBase, docs: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    kb.close()
    with start(kb, docs, log) as writer:
        wait_for(lambda: batches(log) >= 2)
        writer.kill()
    (docs / "new.jsonl").unlink()
    kb.add([Document("something else")])
    assert kb._home.vectors.count() == 2


def test_reader_of_another_process_sees_whole_generations(
    kb: KnowledgeBase, docs: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    retriever = kb.as_retriever(3, "hybrid")
    with start(kb, docs, log) as writer:
        seen = set()
        while writer.poll() is None:
            found = retriever.invoke("the old new text")
            seen.add((len(found), found[0].page_content.startswith("the old")))
            time.sleep(0.05)
    assert writer.returncode == 0
    assert seen <= {(1, True), (3, False)}
    assert (1, True) in seen
    assert len(retriever.invoke("pepper")) == 3


def test_lock_of_a_dead_writer_does_not_block(kb: KnowledgeBase, docs: Path) -> None:
    (kb.path / "write.lock").write_text("999999999")
    assert kb.index_paths([docs]).passages == COUNT


def test_full_disk_leaves_the_old_index(tmp_path: Path, docs: Path) -> None:
    (docs / "big.txt").write_text(" ".join(f"word{n}" for n in range(60_000)))
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "a.txt").write_text("about salt")
    with KnowledgeBase.create(tmp_path / "kb", settings=Settings(embedding=None)) as kb:
        kb.index_paths([tmp_path / "small"])
        for limit in (200_000, 400_000, 500_000, 600_000):
            soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            try:
                with pytest.raises(
                    KnowledgeBaseError, match=r"cannot write to .* its index is unchanged"
                ):
                    kb.index_paths([docs])
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
                signal.signal(signal.SIGXFSZ, old)
            assert texts(kb, "salt word7", "bm25") == ["about salt"]
        assert kb.index_paths([docs]).added == 2
        assert len(texts(kb, "salt word7", "bm25")) == 3


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_without_write_permission(tmp_path: Path) -> None:
    with KnowledgeBase.create(tmp_path / "kb", settings=Settings(embedding=None)) as kb:
        kb.add([Document("about salt")])
    kb.path.chmod(0o500)
    with KnowledgeBase.open(kb.path) as readable:
        assert texts(readable, "salt", "bm25") == ["about salt"]
        with pytest.raises(KnowledgeBaseError, match=r"cannot write to .* its index is unchanged"):
            readable.add([Document("more")])
    kb.path.chmod(0o700)


def test_what_a_killed_writer_left_beside_the_manifest_goes_with_the_next_write(
    kb: KnowledgeBase, docs: Path
) -> None:
    left = kb.path / ".manifest.json.1-aa.new"
    left.write_text("half")
    kb.index_paths([docs])
    assert not left.exists()
