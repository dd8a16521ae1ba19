"""Vectors over restarts, below and above the number at which Chroma writes its index to the disk.

chroma-core/chroma#6975 and #7090 report rows that are lost when a process ends between the two.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from tests.command import CODE

from ragweave.tools.knowledge import KnowledgeBase
from ragweave.tools.knowledge.store import FILE

pytest.importorskip("chromadb", reason="needs ragweave[chroma]")

ROOT = Path(__file__).parents[2]
QUERIES = [f"entry {number} of colour {number % 7}" for number in (0, 3, 77, 250, 499)]
READER = """
import json, sys
from pathlib import Path
from tests.attacks.test_restarts import QUERIES, seen
print(json.dumps(seen(Path(sys.argv[1]))))
"""


class Apart(Embeddings):
    """A vector of its own for each text, so that no two entries tie."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        numbers = np.random.default_rng(zlib.crc32(text.encode())).standard_normal(32)
        return [float(one) for one in numbers]


def entries(first: int, last: int) -> list[Document]:
    return [Document(f"entry {number} of colour {number % 7}") for number in range(first, last)]


def seen(kb: Path) -> dict[str, Any]:
    """Return the counts of a knowledge base and what its vectors find first."""
    with KnowledgeBase.open(kb, embeddings=Apart()) as base:
        retriever = base.as_retriever(1, "dense")
        found = [retriever.invoke(query)[0].page_content for query in QUERIES]
    with closing(sqlite3.connect(kb / FILE)) as db:
        (vectors,) = db.execute("SELECT count(*) FROM vectors").fetchone()
        return {"passages": len(base), "vectors": vectors, "found": found}


def after_restart(kb: Path) -> dict[str, Any]:
    """Return what a new process sees."""
    done = subprocess.run(
        [*CODE, READER, str(kb)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def check_over_restarts(kb: Path, passages: int) -> None:
    half = passages * 2 // 3
    with KnowledgeBase.create(kb, embeddings=Apart()) as made:
        made.add(entries(0, half))
    before = seen(kb)
    assert before["passages"] == before["vectors"] == half
    assert before["found"][:4] == QUERIES[:4]
    assert after_restart(kb) == before
    with KnowledgeBase.open(kb, embeddings=Apart()) as again:
        again.add(entries(half, passages), "second")
        (gone,) = again.as_retriever(1, "dense").invoke(QUERIES[0])
        again.delete([str(gone.id)])
    later = seen(kb)
    assert later["passages"] == passages - 1
    assert after_restart(kb) == later
    assert later["found"][0] != QUERIES[0]
    assert later["found"][1:] == QUERIES[1:]
    assert KnowledgeBase.open(kb, embeddings=Apart()).check() == []


@pytest.mark.parametrize("passages", [600, 1500])
def test_nothing_is_lost_over_restarts(
    tmp_path: Path, passages: int, trials: Callable[[int], None]
) -> None:
    check_over_restarts(tmp_path / "kb", passages)
    trials(1)


@pytest.mark.attack
@pytest.mark.parametrize("passages", [5_000, 20_000])
def test_nothing_is_lost_over_restarts_of_many(
    tmp_path: Path, passages: int, trials: Callable[[int], None]
) -> None:
    check_over_restarts(tmp_path / "kb", passages)
    trials(1)


def test_a_process_that_dies_after_a_write_loses_nothing(tmp_path: Path) -> None:
    writer = (
        "import os, sys; from pathlib import Path\n"
        "from tests.attacks.test_restarts import Apart, KnowledgeBase, entries\n"
        "made = KnowledgeBase.create(Path(sys.argv[1]), embeddings=Apart())\n"
        "made.add(entries(0, 900)); made.add(entries(900, 1200), 'second')\n"
        "os._exit(0)\n"  # nothing is closed, flushed or run at exit
    )
    kb = tmp_path / "kb"
    subprocess.run([*CODE, writer, str(kb)], cwd=ROOT, check=True)
    found = seen(kb)
    assert found["passages"] == found["vectors"] == 1200
    assert found["found"] == QUERIES
    assert KnowledgeBase.open(kb, embeddings=Apart()).check() == []
