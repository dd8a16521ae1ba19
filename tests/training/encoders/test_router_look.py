"""A router that takes a first look at a knowledge base: trained with one, and asked in graphs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from tests.recordings import row, written
from tests.stopping import Stopping
from tests.tiny_encoder import make_tiny_encoder

from ragweave import build_graph
from ragweave.datasets.recorded import Recording, read_recordings
from ragweave.errors import ModelError, RagweaveError, UsageError
from ragweave.evaluation.runs.passages import GoldRetriever
from ragweave.serving.public_sources import PublicSources
from ragweave.state.records import ROUTES
from ragweave.testing import RecordingRetriever, ReplayChat, ScriptedModel
from ragweave.tools.knowledge import KnowledgeBase, Settings
from ragweave.tools.retrieval import (
    Bm25Retriever,
    DenseRetriever,
    HybridRetriever,
    RerankRetriever,
)
from ragweave.trained import read_card
from ragweave.trained.router import load_router
from ragweave.trained.router_features import look_queries
from ragweave.training.encoders import router_rows
from ragweave.training.train import plan_training, train_part

TOWNS = 40
NAMES = ("Ada Brenner", "Karl Oster", "Mina Falk", "Jon Sorre", "Lea Winter")


def name_of(town: int) -> str:
    return NAMES[town % len(NAMES)]


def outcomes() -> list[dict[str, Any]]:
    """Return recordings of which nothing but the corpus tells whether the draft is right."""
    made = []
    for town in range(TOWNS):
        right = NAMES[(town + town // 20) % len(NAMES)]
        searched = "x" if town % 7 == 0 else right
        one = row(town, none=name_of(town), one=searched, many=right if town % 4 else "x")
        made.append({**one, "question": f"Who built the bridge of town{town}?", "answers": [right]})
    return made


def documents() -> list[Document]:
    """Return the truth about each town: the draft's name for the first twenty, another's after."""
    return [
        Document(f"{NAMES[(town + town // 20) % len(NAMES)]} built the bridge of town{town}.")
        for town in range(TOWNS)
    ]


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an encoder, a knowledge base, rows, and routers of drafts and of questions."""
    folder = tmp_path_factory.mktemp("look")
    base = make_tiny_encoder(folder / "tiny")
    with KnowledgeBase.create(folder / "kb", settings=Settings(embedding=None)) as kb:
        kb.add(documents())
    written(folder / "rows.jsonl", outcomes())
    for name, drafts in (("drafts", True), ("questions", False)):
        settings = {"base": str(base), "held_out": 0.0, "retrieve_at_most": 0.8, "folds": 2}
        settings |= {"look": str(folder / "kb"), "drafts": drafts, "surface_strength": 1.0}
        train_part(plan_training("router", folder / "rows.jsonl", folder / name, settings=settings))
    return folder


def recordings(room: Path) -> list[Recording]:
    return read_recordings(room / "rows.jsonl")


def test_the_look_tells_what_no_draft_shows(room: Path) -> None:
    card = read_card(room / "drafts", "router")
    assert card.settings["look"] == str(room / "kb")
    assert card.data["look"] == {"passages": TOWNS}
    assert card.metrics["out_of_fold_auc"]["mean"] > 0.9
    about = json.loads((room / "drafts" / "router.json").read_text("utf-8"))
    assert "look.first_holds" in about["columns"]
    part = load_router(str(room / "drafts"))
    assert part.looks
    for town, route in ((1, "none"), (25, "one")):
        asked, draft = f"Who built the bridge of town{town}?", f"So the answer is: {name_of(town)}."
        shelf = Bm25Retriever.from_documents(documents())
        found = {text: shelf.find(text, k) for text, k in part.searches(asked, draft).items()}
        assert part.choose(asked, draft, found=found).route == route
    with pytest.raises(ValueError, match="takes a first look"):
        part.choose("Who?", "Ada.")


def test_rows_that_were_looked_up_before_the_base_changed_are_read_again(
    room: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router_rows, "_AT_ONCE", 20)
    shutil.copytree(room / "kb", tmp_path / "kb")
    settings = {"base": str(room / "tiny"), "held_out": 0.0, "look": str(tmp_path / "kb")}
    for name, grows in (("same", False), ("other", True)):
        plan = plan_training("router", room / "rows.jsonl", tmp_path / name, settings=settings)
        with pytest.raises(KeyboardInterrupt):
            train_part(plan, watch=Stopping(20))
        if grows:
            with KnowledgeBase.open(tmp_path / "kb") as kb:
                kb.add([Document("A passage that was added in the meantime.")])
        rest = Stopping()
        train_part(plan, resume=True, watch=rest)
        assert rest.steps == ([20, 40] if grows else [40])


def test_graphs_look_before_they_route_and_count_it_apart(room: Path) -> None:
    rows = recordings(room)
    graph = build_graph(
        "adaptive",
        model=ReplayChat.of(rows),
        retriever=Bm25Retriever.from_documents(documents()),
        route="classifier",
        router=str(room / "drafts"),
        filter="full",
    )
    for town, retrievals in ((1, 0), (25, 1)):
        asked = rows[town].question
        usage = graph.invoke({"question": asked})["usage"]
        queries = look_queries(asked, rows[town].replies["none"].reasoning)
        assert usage["look_searches"] == len(queries) == 3
        assert usage["retrievals"] == retrievals


def test_adaptive_rag_looks_by_the_question_alone(room: Path) -> None:
    shelf = Bm25Retriever.from_documents(documents())
    model = ScriptedModel(script=lambda _call: "So the answer is Ada.")
    graph = build_graph(
        "adaptive_rag", model=model, retriever=shelf, router=str(room / "questions")
    )
    usage = graph.invoke({"question": "Who built the bridge of Town3?"})["usage"]
    assert usage["look_searches"] == 2
    given = {"question": "Who built it?", "passages": ["Ada built it."]}
    assert "look_searches" not in graph.invoke(given)["usage"]


def test_what_cannot_search_by_words_is_refused(room: Path) -> None:
    options: dict[str, Any] = {"route": "classifier", "router": str(room / "drafts")}
    shelf = RecordingRetriever(documents=documents())
    model = ScriptedModel(script=lambda _call: "Ada")
    with pytest.raises(
        UsageError, match="trained with a first look by BM25, and the retriever Rec"
    ):
        build_graph("adaptive", model=model, retriever=shelf, **options)
    with pytest.raises(UsageError, match="trained with a first look"):
        build_graph("adaptive_rag", model=model, retriever=shelf, router=str(room / "questions"))
    late = build_graph("slimplm", model=model, retriever=shelf)
    with pytest.raises(UsageError, match="trained with a first look"):
        late.invoke({"question": "Who built it?"}, context=options)


def test_retrievers_name_their_lexical_part() -> None:
    words = Bm25Retriever.from_documents(documents())
    dense = DenseRetriever(search=lambda _query, _k: [])
    hybrid = HybridRetriever(retrievers=[dense, words])
    assert words.lexical() is hybrid.lexical() is words
    assert RerankRetriever(base=hybrid, model="x").lexical() is words
    assert dense.lexical() is HybridRetriever(retrievers=[dense]).lexical() is None
    for wrapped in (
        lambda below: PublicSources(inner=below),
        lambda below: GoldRetriever(base=below, gold="marked", seed=0),
    ):
        assert wrapped(dense).lexical() is None
        found = wrapped(hybrid).lexical()
        assert type(found) is type(wrapped(hybrid))
        assert words in (getattr(found, "inner", None), getattr(found, "base", None))


def test_a_missing_knowledge_base_trains_nothing_and_a_password_is_not_kept(room: Path) -> None:
    settings = {"base": str(room / "tiny"), "look": str(room / "nowhere")}
    plan = plan_training("router", room / "rows.jsonl", room / "out", settings=settings)
    with pytest.raises(RagweaveError, match="nowhere"):
        train_part(plan)
    assert not (room / "out").exists()
    secret = {**settings, "look": "pg:postgresql://me:hush@host/db#papers"}
    plan = plan_training("router", room / "rows.jsonl", room / "out", settings=secret)
    assert "hush" not in str(plan.recorded_settings())


def test_a_router_without_its_columns_is_damaged(room: Path, tmp_path: Path) -> None:
    for one in (room / "drafts").iterdir():
        if one.is_file():
            (tmp_path / one.name).write_bytes(one.read_bytes())
    card = json.loads((tmp_path / "part.json").read_text("utf-8"))
    card["settings"]["look"] = ""
    (tmp_path / "part.json").write_text(json.dumps(card), "utf-8")
    with pytest.raises(ModelError, match="other features"):
        load_router(str(tmp_path))


def test_the_preview_shows_the_look(room: Path) -> None:
    settings = {"base": str(room / "tiny"), "look": str(room / "kb")}
    plan = plan_training("router", room / "rows.jsonl", room / "out", settings=settings)
    (shown,) = plan.preview(1)
    assert "look.first_holds = " in shown.input
    assert set(shown.target.removeprefix("right: ").split(", ")) <= set(ROUTES)
    assert np.isfinite(float(shown.input.rsplit("= ", 1)[1]))
