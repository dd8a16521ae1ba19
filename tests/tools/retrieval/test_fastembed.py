"""Embedding models and rerankers by fastembed: tiny ONNX models are made here, nothing is downloaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document

from ragweave.errors import KnowledgeBaseError
from ragweave.tools.embeddings.named import named_embeddings, unit
from ragweave.tools.knowledge import IndexSettings, KnowledgeBase
from ragweave.tools.retrieval import Bm25Retriever, RerankRetriever

WORDS = ["[PAD]", "[UNK]", "query", "passage", ":", "rome", "paris", "italy", "france", "capital", "of", "is", "the"]
TABLE = np.random.default_rng(3).normal(size=(len(WORDS), 8)).astype(np.float32)
CITIES = ["paris is the capital of france", "rome is the capital of italy", "rome rome rome"]


def make_tiny_onnx(folder: Path, table: Any, *, summed: bool) -> Path:
    """Write a model that looks up a row of `table` for each word; `summed` over the words, as a ranking head."""
    import tokenizers
    from onnx import TensorProto, helper, numpy_helper, save_model

    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["rows"])]
    if summed:
        nodes.append(helper.make_node("ReduceSum", ["rows", "axis"], ["sums"], keepdims=0))
    arrays = {"table": table, "axis": np.array([1], np.int64)}
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["texts", "words"])],
        [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    folder.mkdir()
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save_model(model, str(folder / "model.onnx"))
    vocabulary = {word: place for place, word in enumerate(WORDS)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 64, "pad_token": "[PAD]"}))
    return folder


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the specs of an embedding model and a cross-encoder, which scores by "rome" alone."""
    pytest.importorskip("fastembed")
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType
    from fastembed.rerank.cross_encoder import TextCrossEncoder

    folder = tmp_path_factory.mktemp("onnx")
    of_rome = np.eye(len(WORDS), 1, -WORDS.index("rome"), np.float32)
    TextEmbedding.add_custom_model(
        "tiny/e5-tiny", PoolingType.MEAN, True, ModelSource(hf="tiny/e5"), TABLE.shape[1], "model.onnx"
    )
    TextCrossEncoder.add_custom_model("tiny/ranker", ModelSource(hf="tiny/ranker"), "model.onnx")
    embedder = make_tiny_onnx(folder / "embedder", TABLE, summed=False)
    ranker = make_tiny_onnx(folder / "ranker", of_rome, summed=True)
    return {
        "embedding": f"fastembed:tiny/e5-tiny?threads=1&specific_model_path={embedder}",
        "rerank": f"fastembed:tiny/ranker?specific_model_path={ranker}",
    }


def mean_of(*words: str) -> Any:
    return unit(TABLE[[WORDS.index(word) for word in words]].mean(axis=0))


def test_a_knowledge_base_is_embedded_by_onnx_with_the_prefixes_of_the_model(
    specs: dict[str, str], tmp_path: Path
) -> None:
    spec = specs["embedding"]
    settings = IndexSettings(embedding=spec)
    with KnowledgeBase.create(tmp_path / "kb", settings=settings) as kb:
        kb.add([Document(text) for text in CITIES], "cities")
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        best = kb.as_retriever(3, "dense").invoke("capital of italy")
    model = named_embeddings(spec)
    assert np.allclose(model.embed_query("rome"), mean_of("query", ":", "rome"), atol=1e-6)
    assert np.allclose(model.embed_documents(["paris", "rome is"])[1], mean_of("passage", ":", "rome", "is"), atol=1e-6)
    question, passage = (mean_of(*text.split()) for text in ("query : capital of italy", f"passage : {CITIES[1]}"))
    scores = {doc.page_content: doc.metadata["score"] for doc in best}
    assert scores[CITIES[1]] == pytest.approx(float(question @ passage), abs=1e-5)


def test_a_cross_encoder_reranks_by_onnx(specs: dict[str, str]) -> None:
    base = Bm25Retriever.from_documents([Document(text) for text in CITIES])
    best = RerankRetriever.over(base, specs["rerank"], k=2).invoke("the capital of rome")
    assert [(doc.page_content, doc.metadata["score"]) for doc in best] == [(CITIES[2], 4.0), (CITIES[1], 2.0)]


def test_a_model_that_fastembed_lacks_is_named_with_the_nearest(specs: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(KnowledgeBaseError, match=r"did you mean 'BAAI/bge-small-en-v1\.5'"):
        named_embeddings("fastembed:BAAI/bge-small-en-v15").embed_query("rome")
    with pytest.raises(KnowledgeBaseError, match=r"tiny/e5-tiny.* cannot be loaded"):
        named_embeddings(f"fastembed:tiny/e5-tiny?specific_model_path={tmp_path / 'none'}").embed_query("rome")
