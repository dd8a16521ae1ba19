"""Nearest training questions."""

from __future__ import annotations

import importlib.util
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.embeddings import Embeddings
from tests.hash_embeddings import HashEmbeddings

from ragweave.errors import MissingExtraError, UsageError
from ragweave.tools.neighbours import TrainingIndex, TrainingQuestion, embeddings_of

ROWS: list[TrainingQuestion] = [
    {"question": "who built the old light in norland", "needed": True},
    {"question": "who built the tower", "needed": True},
    {"question": "how many sides has a hexagon", "needed": False},
    {"question": "how many sides has a square", "needed": False},
]


def test_the_nearest_come_first() -> None:
    found = TrainingIndex(ROWS, HashEmbeddings()).nearest("how many sides has a triangle", 3)
    assert [one.question for one in found[:2]] == [ROWS[2]["question"], ROWS[3]["question"]]
    assert [one.needed for one in found[:2]] == [False, False]
    assert found[0].similarity == pytest.approx(5 / 6)


def test_more_neighbours_than_questions_gives_all() -> None:
    index = TrainingIndex(ROWS, HashEmbeddings())
    assert len(index.nearest("?", 10)) == 4
    assert index.share_needed == 0.5


def test_a_question_without_a_vector_is_like_nothing() -> None:
    found = TrainingIndex(ROWS, HashEmbeddings()).nearest("", 2)
    assert [(one.question, one.similarity) for one in found] == [
        (ROWS[0]["question"], 0.0),
        (ROWS[1]["question"], 0.0),
    ]


def test_training_questions_are_embedded_once_under_threads() -> None:
    embeddings = HashEmbeddings()
    index = TrainingIndex(ROWS, embeddings)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: index.nearest("who built it", 2), range(16)))
    assert embeddings.embedded == len(ROWS)
    assert all(one == found[0] for one in found)


def test_no_questions() -> None:
    with pytest.raises(UsageError, match="there are no training questions"):
        TrainingIndex([], HashEmbeddings())


def test_query_and_document_dimensions_must_agree() -> None:
    class Uneven(HashEmbeddings):
        def embed_query(self, text: str) -> list[float]:
            return [1.0, 2.0]

    with pytest.raises(UsageError, match="2 dimensions for a query but 512 for a document"):
        TrainingIndex(ROWS, Uneven()).nearest("?", 1)


class Given(Embeddings):
    def __init__(self, vectors: list[list[float]]) -> None:
        self.vectors = vectors

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.vectors

    def embed_query(self, text: str) -> list[float]:
        return [1.0, 0.5, -0.25]


@given(
    st.lists(
        st.lists(st.floats(-4, 4).map(lambda x: round(x, 2)), min_size=3, max_size=3), min_size=1
    ),
    st.integers(1, 12),
)
def test_order_and_similarity_are_the_cosine(vectors: list[list[float]], count: int) -> None:
    rows: list[TrainingQuestion] = [
        {"question": str(at), "needed": at % 2 == 0} for at in range(len(vectors))
    ]
    found = TrainingIndex(rows, Given(vectors)).nearest("?", count)
    query = np.array([1.0, 0.5, -0.25])
    lengths = [float(np.linalg.norm(one)) * float(np.linalg.norm(query)) for one in vectors]
    cosine = [
        float(np.dot(one, query)) / length if length else 0.0
        for one, length in zip(vectors, lengths, strict=True)
    ]
    assert len(found) == min(count, len(vectors))
    for one in found:
        assert one.similarity == pytest.approx(cosine[int(one.question)], abs=1e-4)
    best = sorted(cosine, reverse=True)[: len(found)]
    assert [one.similarity for one in found] == pytest.approx(best, abs=1e-4)


def test_an_object_is_itself_and_a_name_loads_nothing() -> None:
    mine = HashEmbeddings()
    assert embeddings_of(mine) is mine
    assert isinstance(embeddings_of("minilm"), Embeddings)
    assert isinstance(embeddings_of("no/such-model"), Embeddings)


@pytest.mark.parametrize(
    ("name", "absent", "extra"),
    [
        ("minilm", {"onnxruntime"}, "offline"),
        ("some/model", {"sentence_transformers"}, "encoders"),
    ],
)
def test_a_missing_extra_is_named(
    name: str, absent: set[str], extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec

    def without(module: str) -> object:
        return None if module in absent else find(module)

    for user in ("neighbours", "retrieval.embedding", "retrieval.onnx_embedding"):
        monkeypatch.setattr(f"ragweave.tools.{user}.find_spec", without)
    with pytest.raises(MissingExtraError, match=rf"ragweave\[{extra}\]"):
        embeddings_of(name)
