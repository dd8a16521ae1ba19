"""SKR-KNN: neighbours decide, one call answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragweave.errors import UsageError
from ragweave.graphs import build_graph
from ragweave.graphs.skr_knn import SkrKnnOptions
from ragweave.testing import RecordingRetriever, ScriptedModel
from ragweave.testing.store import WordEmbeddings

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
    path.write_text("\n".join(json.dumps({"question": text, "needed": needed}) for text, needed in ROWS), "utf-8")
    return str(path)


def run(question: str, training: str, *, context: Any = None, **options: Any) -> tuple[dict[str, Any], list[str]]:
    retriever = RecordingRetriever()
    given = {"embeddings": WordEmbeddings(512), "neighbours": 3, **options}
    graph = build_graph("skr_knn", model=ScriptedModel(script=["Ada"]), retriever=retriever, training=training, **given)
    *_, state = graph.stream({"question": question}, stream_mode="values", context=context)
    return state, retriever.searches


def test_the_nearest_questions_decide(training: str) -> None:
    state, searches = run("Who built the light?", training)
    assert searches == ["Who built the light?"]
    assert state["notes"][0]["detail"] == {
        "share": 2 / 3,
        "prior": 0.5,
        "questions": [question for question, _ in ROWS[:3]],
    }
    assert run("How many sides has a triangle?", training)[1] == []


@pytest.mark.parametrize(("prior", "searched"), [(0.6, 1), (0.7, 0), (None, 1), (0.0, 1), (1.0, 0)])
def test_the_prior(prior: float | None, searched: int, training: str) -> None:
    assert len(run("who built the light", training, prior=prior)[1]) == searched
    assert len(run("who built the light", training, context={"prior": prior})[1]) == searched


def test_a_tie_retrieves(training: str) -> None:
    assert run("?", training, neighbours=6)[1] == ["?"]


def test_training_questions_are_embedded_once(training: str) -> None:
    embeddings = WordEmbeddings(512)
    model, retriever = ScriptedModel(script=["Ada"]), RecordingRetriever()
    graph = build_graph("skr_knn", model=model, retriever=retriever, training=training, embeddings=embeddings)
    graph.batch([{"question": question} for question in ("who built the light", "square", "hexagon")])
    assert len(embeddings.embedded) == len(ROWS)


def test_without_training_questions_a_run_says_what_to_do() -> None:
    with pytest.raises(UsageError, match="needs training questions: training=PATH"):
        build_graph("skr_knn").invoke({"question": "?"})


def test_slimplms_values() -> None:
    options = SkrKnnOptions(profile="paper")
    assert (options.neighbours, options.embedding) == (8, "princeton-nlp/unsup-simcse-bert-base-uncased")
    assert SkrKnnOptions(profile="paper", neighbours=3).neighbours == 3


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no rows"),
        ("{", "a.jsonl: is not JSON"),
        ('\n{"question": "?", "needed": 1}', "a.jsonl:2: needed: Input should be a valid boolean"),
    ],
)
def test_a_file_that_cannot_be_read(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(text, "utf-8")
    with pytest.raises(UsageError, match=says):
        run("?", str(path))
