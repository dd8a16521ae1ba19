"""Passages that the processes of a cluster encode, of which now and then none is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document

from ragweave.errors import KnowledgeBaseError
from ragweave.testing.store import WordEmbeddings
from ragweave.tools.knowledge import KnowledgeBase, cluster_encoding, served_writing
from ragweave.tools.knowledge.cluster_encoding import ClusterEmbeddings

DOCUMENTS = [Document(f"bridge number {number}") for number in range(90)]
SIZES: list[int] = []
"""How many processes there are, each time that it is asked; then none."""


class Nodes:
    """As much of a pool as encoding takes."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._model = WordEmbeddings()

    async def __aenter__(self) -> Nodes:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    @property
    def size(self) -> int:
        return SIZES.pop(0) if SIZES else 0

    async def do(self, payload: Callable[[int], list[str]]) -> list[list[float]]:
        return self._model.embed_documents(payload(0))


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterEmbeddings]:
    monkeypatch.setattr(cluster_encoding, "check_address", lambda _address: None)
    monkeypatch.setattr(cluster_encoding, "connected", lambda _address: nullcontext())
    monkeypatch.setattr(cluster_encoding, "Pool", Nodes)
    monkeypatch.setattr(cluster_encoding, "BATCH", 8)
    monkeypatch.setattr(served_writing, "_LOOKED_UP", 32)
    with ClusterEmbeddings("words", WordEmbeddings(), "local") as made:
        yield made


@pytest.fixture(params=["folder", "qdrant"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    needed = {"folder": "chromadb", "qdrant": "qdrant_client"}[request.param]
    if find_spec(needed) is None:
        pytest.skip(f"needs {needed}")
    return str(tmp_path / "kb") if request.param == "folder" else f"qdrant:{tmp_path / 'q'}#t"


@pytest.mark.parametrize("sizes", [[], [1], [4, 0, 1]])
def test_passages_that_no_process_is_left_for_wait_for_the_next_one(
    model: ClusterEmbeddings, place: str, sizes: list[int]
) -> None:
    SIZES[:] = sizes
    with KnowledgeBase.create(place, embeddings=model) as kb:
        kb.add(DOCUMENTS[:70])
        kb.add(DOCUMENTS[70:], "more")
        assert len(kb) == 90
        found = kb.as_retriever(999, "dense").invoke("bridge")
    assert {doc.page_content for doc in found} == {doc.page_content for doc in DOCUMENTS}


@pytest.mark.skipif(find_spec("qdrant_client") is None, reason="needs ragweave[qdrant]")
def test_a_write_that_lost_passages_is_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = served_writing.chunks
    with KnowledgeBase.create(f"qdrant:{tmp_path / 'q'}#t", embeddings=WordEmbeddings()) as kb:
        with monkeypatch.context() as patch:
            patch.setattr(
                served_writing, "chunks", lambda items, n: (part[:60] for part in chunks(items, n))
            )
            with pytest.raises(KnowledgeBaseError, match="only 60 of 90 new passages"):
                kb.add(DOCUMENTS)
        assert len(kb) == 0
        kb.add(DOCUMENTS)
        assert len(kb) == len(kb.as_retriever(999, "dense").invoke("bridge")) == 90


def test_lists_of_no_items_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 0"):
        list(served_writing.chunks(iter("abc"), 0))
    assert list(served_writing.chunks(iter("abc"), 2)) == [["a", "b"], ["c"]]
