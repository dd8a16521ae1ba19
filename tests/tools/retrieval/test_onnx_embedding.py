"""The packaged MiniLM by ONNX Runtime gives sentence-transformers' vectors, without torch."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_tests.unit_tests import EmbeddingsUnitTests

from ragweave.tools.knowledge import KnowledgeBase
from ragweave.tools.retrieval import embedding, onnx_embedding
from ragweave.tools.retrieval.embedding import (
    PACKAGED,
    SentenceTransformerEmbeddings,
    named_embeddings,
)
from ragweave.tools.retrieval.onnx_embedding import OnnxEmbeddings, onnx_available

pytestmark = pytest.mark.skipif(not onnx_available(), reason="needs ragweave[offline]")

TEXTS = [
    "What does BlendFilter blend?",
    "",
    "word " * 400,  # longer than the model reads
    "Straße, 東京, 😀 and a\u0000b",
    "A passage of some length about nothing in particular. " * 6,
]


class TestUnit(EmbeddingsUnitTests):
    @property
    def embeddings_class(self) -> type[OnnxEmbeddings]:
        return OnnxEmbeddings

    @property
    def embedding_model_params(self) -> dict[str, str]:
        return {}


@pytest.fixture(scope="module")
def reference() -> SentenceTransformerEmbeddings:
    pytest.importorskip("sentence_transformers")
    return SentenceTransformerEmbeddings(PACKAGED)


def test_vectors_equal_those_of_sentence_transformers(reference):
    ours, theirs = OnnxEmbeddings().embed_documents(TEXTS), reference.embed_documents(TEXTS)
    np.testing.assert_allclose(ours, theirs, atol=2e-6)


@given(st.lists(st.text(max_size=80), min_size=1, max_size=5))
@settings(max_examples=15, deadline=None)
def test_a_text_s_vector_does_not_depend_on_its_neighbours(texts):
    together = OnnxEmbeddings().embed_documents(texts)
    alone = [OnnxEmbeddings().embed_query(text) for text in texts]
    np.testing.assert_allclose(together, alone, atol=2e-6)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)


def test_token_spans_equal_those_of_sentence_transformers(reference):
    for text in TEXTS:
        assert OnnxEmbeddings().token_spans(text) == reference.token_spans(text)


def test_no_texts_give_no_vectors():
    assert OnnxEmbeddings().embed_documents([]) == []


def test_a_first_answer_imports_neither_torch_nor_chroma_nor_scipy(tmp_path):
    pytest.importorskip("chromadb", reason="needs ragweave[chroma]")
    with KnowledgeBase.create(tmp_path / "kb") as kb:
        kb.add([Document("The Varn bridge was opened in 1932."), Document("Salt is white.")])
    code = (
        "import sys\n"
        "from ragweave import KnowledgeBase, build_graph\n"
        "found = KnowledgeBase.open(sys.argv[1]).as_retriever()\n"
        "graph = build_graph('concat_pf', model='extractive', retriever=found)\n"
        "out = graph.invoke({'question': 'When was the Varn bridge opened?'})\n"
        "assert out['answer'] == '1932', out\n"
        "heavy = {'torch', 'transformers', 'sentence_transformers', 'chromadb', 'scipy', 'bs4'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "kb")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_without_onnx_runtime_sentence_transformers_is_used(monkeypatch):
    assert isinstance(named_embeddings(PACKAGED), OnnxEmbeddings)
    assert isinstance(named_embeddings("some/model"), SentenceTransformerEmbeddings)
    monkeypatch.setattr(onnx_embedding, "_NEEDED", ("no_such_package",))
    assert isinstance(named_embeddings(PACKAGED), SentenceTransformerEmbeddings)
    assert embedding.packaged_available()
