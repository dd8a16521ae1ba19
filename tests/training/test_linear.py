"""Linear judges and routers: trained, saved, loaded and asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage
from tests.training.labels import judge_row, router_row, write_rows

from ragweave.errors import ModelError, UsageError
from ragweave.graphs import build_graph
from ragweave.tools.knowledge import KnowledgeBase
from ragweave.tools.knowledge.settings import Settings
from ragweave.tools.models.specs import chat_model
from ragweave.tools.models.tasks import attach
from ragweave.tools.retrieval import Bm25Retriever
from ragweave.tools.trained.features import FEATURES, draft_features, hashed_words, probe_features, probe_queries
from ragweave.tools.trained.linear import Linear, read_linear, read_rows, write_linear
from ragweave.tools.trained.router import load_router
from ragweave.training import train

pytest.importorskip("sklearn")
pytest.importorskip("safetensors")


SHELF = Bm25Retriever.from_documents([Document("Phobos is a moon of Mars."), Document("Paris is in France.")])


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained judge."""
    folder = tmp_path_factory.mktemp("linear")
    card = train("judge", write_rows(folder / "rows.jsonl", map(judge_row, range(60))), folder / "judge")
    assert card.metrics["auc"] == 1.0
    assert card.kind == "linear"
    return folder / "judge"


def _notes(update: dict[str, Any]) -> list[dict[str, Any]]:
    return [note for node in update.values() for note in ((node or {}).get("notes") or [])]


def asked(model: Any, draft: str, task: Any = "judge") -> Any:
    return model.invoke(
        [attach(HumanMessage("?"), {"task": task, "question": "What is the capital 1?", "draft": draft})]
    )


def test_a_judge_is_a_chat_model_that_says_its_probability(judge: Path) -> None:
    model: Any = chat_model(f"{judge}/")
    known, unknown = asked(model, "It is rome."), asked(model, "I do not know; it is not clear.")
    assert (known.text, unknown.text) == ("<Known(True)>", "<Known(False)>")
    assert known.response_metadata["probability"] > known.response_metadata["threshold"]
    assert model.trained_role == "judge"
    careful = chat_model(f"trained:{judge}?threshold=1.0")
    assert asked(careful, "It is rome.").text == "<Known(False)>"


def test_a_judge_judges_and_nothing_else(judge: Path) -> None:
    model = chat_model(f"{judge}/")
    with pytest.raises(UsageError, match="takes no plain prompts"):
        model.invoke("Who?")
    with pytest.raises(UsageError, match="can only do the task 'judge', not 'answer'"):
        asked(model, "", task="answer")
    with pytest.raises(UsageError, match="has no setting 'max_tokens'"):
        chat_model(f"{judge}/?max_tokens=5")


def test_weights_are_read_as_they_were_written(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    rows = read_rows([("Who?", "Ada."), ("Where is it?", "")], "minilm")
    sizes = (rows.features.shape[1], rows.vectors.shape[1], 1 << 15)
    weights = Linear(*(random.normal(size=(2, size)) for size in sizes), bias=random.normal(size=2))
    write_linear(tmp_path, weights, FEATURES)
    again = read_linear(tmp_path, FEATURES)
    assert np.array_equal(again.probabilities(rows), weights.probabilities(rows))
    with pytest.raises(ModelError, match="train it again"):
        read_linear(tmp_path, FEATURES[1:])


def test_a_router_chooses_the_route_that_was_right(tmp_path: Path) -> None:
    labels = write_rows(tmp_path / "rows.jsonl", map(router_row, range(90)))
    card = train("router", labels, tmp_path / "router", settings={"retrieve_at_most": 0.8})
    assert card.metrics["accuracy"] > 0.9
    router = load_router(f"{tmp_path}/router")
    rows = [router_row(at) for at in range(3)]
    routes = [router.choose(row["question"], row["draft"]).route for row in rows]
    assert routes == ["none", "one", "many"]
    assert router.searches("Who?", "Ada") == {}
    assert router.choose(rows[2]["question"], rows[2]["draft"], 1.0).route == "none"
    with pytest.raises(UsageError, match="trained as a router"):
        chat_model(f"{tmp_path}/router/")
    graph = build_graph("slimplm", route="classifier", router=f"{tmp_path}/router", retriever=SHELF)
    notes = [
        one
        for update in graph.stream({"question": "Where is Phobos?"}, stream_mode="updates")
        for one in _notes(update)
    ]
    assert "routed" in {one["event"] for one in notes}


def test_a_router_of_questions_alone_reads_no_draft(tmp_path: Path) -> None:
    labels = write_rows(tmp_path / "rows.jsonl", map(router_row, range(60)))
    train("router", labels, tmp_path / "router", settings={"drafts": False, "held_out": 0})
    router = load_router(tmp_path / "router")
    assert not router.drafts
    assert router.choose("Who wrote it? 1", "both") == router.choose("Who wrote it? 1", "")
    graph = build_graph("adaptive_rag", router=f"{tmp_path}/router", retriever=SHELF)
    notes = [
        one
        for update in graph.stream({"question": "Where is Phobos?"}, stream_mode="updates")
        for one in _notes(update)
    ]
    assert "routed" in {one["event"] for one in notes}


def test_a_router_may_search_before_it_chooses(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "play.txt").write_text("The play was written by Paris Moreno in 7 days.", "utf-8")
    with KnowledgeBase.create(tmp_path / "kb", settings=Settings(embedding=None)) as base:
        base.index_paths([tmp_path / "docs"])
    labels = write_rows(tmp_path / "rows.jsonl", map(router_row, range(30)))
    card = train("router", labels, tmp_path / "router", settings={"kb": str(tmp_path / "kb"), "held_out": 0})
    router = load_router(tmp_path / "router")
    assert card.probes
    assert list(router.searches("Who?", "Ada.")) == ["Who?", "Who? Ada"]
    with pytest.raises(UsageError, match="search for each"):
        router.choose("Who?", "Ada.")
    with KnowledgeBase.open(tmp_path / "kb") as base:
        retriever = base.as_retriever(1, "bm25")
        graph = build_graph("slimplm", route="classifier", router=f"{tmp_path}/router", retriever=retriever)
        updates = graph.stream({"question": "Who wrote the play?"}, stream_mode="updates")
        (routed,) = (one for update in updates for one in _notes(update) if one["event"] == "routed")
        assert routed["detail"]["searches"] >= 1


def test_a_judge_learns_from_both_labels(tmp_path: Path) -> None:
    labels = write_rows(tmp_path / "rows.jsonl", [judge_row(0), judge_row(2)])
    with pytest.raises(UsageError, match="same label"):
        train("judge", labels, tmp_path / "judge", settings={"held_out": 0})


def test_features_are_of_question_answer_and_reasoning() -> None:
    draft = "Ada built bridges in 1932. So the answer is: Ada Moreno."
    found = dict(zip(FEATURES, draft_features("Who built the same Cedar Bridge?", draft), strict=True))
    assert found["question.compares"] == 1.0
    assert found["question.names"] == pytest.approx(np.log1p(2))
    assert found["answer.words"] == pytest.approx(np.log1p(2))
    assert (found["answer.digit"], found["reasoning.holds_answer"]) == (0.0, 0.0)
    assert found["reasoning.new"] == pytest.approx(3 / 5)
    assert len(draft_features("", "")) == len(FEATURES)
    assert len(hashed_words("Who built it?", "").columns) == 5


def test_a_probe_search_shows_whether_the_passages_hold_the_answer() -> None:
    queries = list(probe_queries("Who built it?", "Ada Moreno."))
    assert queries == ["Who built it?", "Who built it? Ada Moreno"]
    passage = Document("Ada Moreno built it.", metadata={"score": 3.0})
    found = {queries[0]: [passage], queries[1]: [passage]}
    gap, gain, holds = probe_features("Who built it?", "Ada Moreno.", found)
    assert (gap, gain, holds) == (0.75, 0.0, 1.0)
    assert probe_features("Who built it?", "", {}) == [0.0, 0.0, 0.0]
