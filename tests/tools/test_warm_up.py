"""What runs on this machine is loaded before it is timed; what a caller gave is not called."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from langchain_core.documents import Document
from tests.evaluation.towns import planned, run
from tests.scripted import ScriptedChat

from ragweave.cli.screen import loading
from ragweave.testing.store import WordEmbeddings
from ragweave.tools.knowledge import KnowledgeBase
from ragweave.tools.retrieval import DenseRetriever, HybridRetriever, RerankRetriever
from ragweave.tools.warm_up import warm_up


class Loads(ScriptedChat):
    """A scripted model that notes what happens to it, in order."""

    order: list[str] = []  # noqa: RUF012 - a pydantic field

    def warm_up(self) -> None:
        self.order.append("loaded")

    async def _agenerate(self, messages, *args, **kwargs):  # type: ignore[no-untyped-def]
        self.order.append("asked")
        return await super()._agenerate(messages, *args, **kwargs)


def test_a_run_loads_before_its_first_question(tmp_path: Path) -> None:
    model = Loads(replies=["1900"])
    run(planned(tmp_path, "direct", count=2), model)
    assert model.order == ["loaded", "asked", "asked"]


def test_a_retriever_warms_what_it_is_made_of() -> None:
    loaded: list[int] = []
    dense = DenseRetriever(search=lambda _query, _k: [], load=lambda: loaded.append(1))
    warm_up([RerankRetriever.over(HybridRetriever(retrievers=[dense]), "some-model"), None])
    assert loaded == [1]


class Counted(WordEmbeddings):
    """Embeddings that count their queries."""

    asked = 0

    def embed_query(self, text: str) -> list[float]:
        self.asked += 1
        return super().embed_query(text)


def test_embeddings_of_the_callers_own_are_not_called(tmp_path: Path) -> None:
    embeddings = Counted()
    with KnowledgeBase.create(tmp_path / "kb", embeddings=embeddings) as kb:
        kb.add([Document("The bridge of Varn was opened in 1932.")])
        asked = embeddings.asked
        warm_up([kb.as_retriever()])
        assert embeddings.asked == asked


class Terminal(io.StringIO):
    """Standard error of a terminal."""

    def isatty(self) -> bool:
        return True


def test_the_loading_line_comes_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", shown := Terminal())
    with pytest.raises(ValueError, match="broken"), loading():
        assert shown.getvalue() == "loading ..."
        raise ValueError("broken")
    assert shown.getvalue().endswith("\r\x1b[K")


def test_a_pipe_gets_no_loading_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", shown := io.StringIO())
    with loading():
        pass
    assert shown.getvalue() == ""
