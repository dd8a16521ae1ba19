"""kill -9 at any moment: what is on the disk opens, goes on, and leaves no orphan."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tools.knowledge.kb_embeddings import BagEmbeddings

from ragweave.tools.knowledge import KnowledgeBase
from ragweave.tools.knowledge.checking import check

WRITER = Path(__file__).parents[1] / "tools" / "knowledge" / "kb_writer.py"
COUNT = 320
QUERY = "text number 7 about pepper"


def make(folder: Path) -> tuple[Path, Path]:
    """Make a knowledge base of one generation, and the documents of the next one."""
    docs = folder / "docs"
    docs.mkdir(parents=True)
    (docs / "old.txt").write_text("the old text about salt")
    with KnowledgeBase.create(folder / "kb", embeddings=BagEmbeddings()) as made:
        made.index_paths([docs])
    rows = [f'{{"text": "text number {n} about pepper"}}\n' for n in range(COUNT)]
    (docs / "new.jsonl").write_text("".join(rows))
    (docs / "old.txt").unlink()
    return folder / "kb", docs


def start(kb: Path, docs: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(WRITER), str(kb), str(docs), str(kb.parent / "log")]
    return subprocess.Popen([*command, "0.02"], stderr=subprocess.DEVNULL)


def state(kb: Path) -> tuple[int, int, list[str]]:
    with KnowledgeBase.open(kb, embeddings=BagEmbeddings()) as base:
        first = base.as_retriever(1, "dense").invoke(QUERY)[0].page_content
        found = [one.page_content for one in base.as_retriever(5, "bm25").invoke(QUERY)]
        return len(base), base._home.vectors.count(), [first, *found]


def kill_while_indexing(folder: Path, moments: int, seed: int) -> None:
    _, docs = make(folder / "start")
    whole = folder / "whole"
    shutil.copytree(folder / "start", whole)
    began = time.monotonic()
    (whole / "log").touch()
    assert start(whole / "kb", docs).wait(timeout=120) == 0
    length = time.monotonic() - began
    undisturbed = state(whole / "kb")
    assert check(whole / "kb") == []
    rng = random.Random(seed)
    for number in range(moments):
        here = folder / f"killed{number}"
        shutil.copytree(folder / "start", here)
        writer = start(here / "kb", docs)
        time.sleep(length * (0.35 + 0.7 * rng.random()))
        writer.kill()
        writer.wait()
        assert state(here / "kb")[0] in (1, COUNT)
        model = BagEmbeddings()
        with KnowledgeBase.open(here / "kb", embeddings=model) as base:
            base.index_paths([docs])
        assert state(here / "kb") == undisturbed
        assert check(here / "kb") == []
        shutil.rmtree(here)


def test_index_killed(tmp_path: Path) -> None:
    kill_while_indexing(tmp_path, moments=2, seed=1)


@pytest.mark.attack
def test_index_killed_often(tmp_path: Path, trials: Callable[[int], None]) -> None:
    kill_while_indexing(tmp_path, moments=40, seed=2)
    trials(39)


def test_a_dropped_write_leaves_no_vector(tmp_path: Path) -> None:
    kb, docs = make(tmp_path)
    writer = start(kb, docs)
    log = tmp_path / "log"
    until = time.monotonic() + 60
    while not (log.exists() and log.read_text().count("\n") >= 3):
        assert time.monotonic() < until
        time.sleep(0.01)
    writer.kill()
    writer.wait()
    assert check(kb)
    (docs / "new.jsonl").unlink()
    (docs / "old.txt").write_text("the old text about salt")
    with KnowledgeBase.open(kb, embeddings=BagEmbeddings()) as base:
        base.index_paths([docs])
    assert check(kb) == []
    assert state(kb)[:2] == (1, 1)
