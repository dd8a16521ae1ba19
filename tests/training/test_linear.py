"""Linear judges and routers: trained, saved, loaded and asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.decisions import Choice, Noul
from langchain_core.documents import Document
from tests.extras import needs
from tests.training.labels import judge_row, router_row, write_rows

from ragweave.errors import UsageError
from ragweave.graphs import build_graph
from ragweave.tools.providers import chat_model
from ragweave.tools.retrieval import Bm25Retriever
from ragweave.tools.trained.linear import FEATURES, draft_features
from ragweave.training import train

needs("sklearn", "safetensors")


SHELF = Bm25Retriever.from_documents([Document("Phobos is a moon of Mars."), Document("Paris is in France.")])


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained judge."""
    folder = tmp_path_factory.mktemp("linear")
    card = train("judge", write_rows(folder / "rows.jsonl", map(judge_row, range(60))), folder / "judge")
    assert card.metrics["auc"] == 1.0
    assert card.kind == "linear"
    return folder / "judge"


def _events(graph: Any, node: str) -> list[dict[str, Any]]:
    updates = graph.stream({"question": "Where is Phobos?"}, stream_mode="updates")
    return [note for update in updates for note in ((update.get(node) or {}).get("notes") or [])]


KNOWN, ROUTE = "known", "route"
QUESTIONS: Any = {
    KNOWN: Noul(instructions="Is it known?"),
    ROUTE: Choice(instructions="How many?", criteria={"none": None, "one": None, "several": None}),
}


def asked(model: Any, kind: str, draft: str = "", question: str = "What is the capital 1?", **more: Any) -> Any:
    state = {"question": question, "draft": draft, **more}
    return model.invoke({"state": state, "questions": {kind: QUESTIONS[kind]}}).answers[kind]


def test_a_judge_is_a_decision_model(judge: Path) -> None:
    model: Any = chat_model(f"{judge}/")
    known, unknown = (asked(model, KNOWN, draft).noul for draft in ("It is rome.", "I do not know; it is not clear."))
    assert unknown < model.threshold < known
    assert model.trained_role == "judge"
    assert chat_model(f"trained:{judge}?threshold=1.0").threshold == 1.0  # type: ignore[attr-defined]
    graph = build_graph("slimplm", judge=f"{judge}/", retriever=SHELF)
    (judged,) = _events(graph, "judge")
    assert judged["event"] == "decided"


def test_a_judge_judges_and_nothing_else(judge: Path) -> None:
    model = chat_model(f"{judge}/")
    with pytest.raises(UsageError, match="reads only a question and a draft answer"):
        asked(model, KNOWN)
    with pytest.raises(UsageError, match="name another model for this step"):
        asked(model, KNOWN, "It is Rome.", passage="Rome is in Italy.")
    with pytest.raises(UsageError, match="answers only a Noul"):
        asked(model, ROUTE, "It is Rome.")
    with pytest.raises(UsageError, match="there is no 'max_tokens'"):
        chat_model(f"{judge}/?max_tokens=5")


def test_a_router_chooses_the_route_that_was_right(tmp_path: Path) -> None:
    labels = write_rows(tmp_path / "rows.jsonl", map(router_row, range(90)))
    card = train("router", labels, tmp_path / "router", settings={"retrieve_at_most": 0.8})
    assert card.metrics["accuracy"] > 0.9
    router, careful = chat_model(f"{tmp_path}/router/"), chat_model(f"{tmp_path}/router/?threshold=1.0")
    rows = [router_row(at) for at in range(3)]
    routes = [asked(router, ROUTE, row["draft"], row["question"]).choice for row in rows]
    assert routes == ["none", "one", "several"]
    assert asked(careful, ROUTE, rows[2]["draft"], rows[2]["question"]).choice == "none"
    graph = build_graph("slimplm", route="classifier", router=f"{tmp_path}/router", retriever=SHELF)
    assert [note["event"] for note in _events(graph, "classify")] == ["decided"]


def test_a_router_of_questions_alone_reads_no_draft(tmp_path: Path) -> None:
    labels = write_rows(tmp_path / "rows.jsonl", map(router_row, range(60)))
    train("router", labels, tmp_path / "router", settings={"drafts": False, "held_out": 0})
    router = chat_model(f"{tmp_path}/router/")
    assert asked(router, ROUTE, "both", "Who wrote it? 1") == asked(router, ROUTE, "", "Who wrote it? 1")
    graph = build_graph("adaptive_rag", router=f"{tmp_path}/router", retriever=SHELF)
    assert [note["event"] for note in _events(graph, "classify")] == ["decided"]


def test_a_judge_learns_from_both_labels(tmp_path: Path) -> None:
    labels = write_rows(tmp_path / "rows.jsonl", [judge_row(0), judge_row(2)])
    with pytest.raises(UsageError, match="same label"):
        train("judge", labels, tmp_path / "judge", settings={"held_out": 0})


def test_features_are_of_question_answer_and_reasoning() -> None:
    draft = "Ada built bridges in 1932. So the answer is: Ada Moreno."
    features = draft_features("Who built the same Cedar Bridge?", draft)
    assert features[:5] == pytest.approx(
        [np.log1p(6), np.log1p(2), 1.0, np.log1p(2), 0.0]
    )  # words, names; of the answer
    assert features[6] == pytest.approx(3 / 5)  # new words in the reasoning
    assert features[11] == 0.0  # it does not hold the answer
    assert len(draft_features("", "")) == len(features) == FEATURES
