"""Context filters by an encoder: RECOMP's nearest sentences and Provence's relevant tokens."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from tests.tiny_encoder import make_tiny_encoder

from ragweave import build_graph
from ragweave.errors import UsageError
from ragweave.tools.extractive import minilm
from ragweave.tools.filters import ProvenceFilter, RecompFilter, context_filter
from ragweave.tools.filters.encoders import _loaded

PASSAGES = [
    Document("Rome is old. Hamlet was written by William Shakespeare.", id="a"),
    Document("A cat saw a bird. The river is green.", id="b"),
]
QUESTION = "Who wrote Hamlet?"
HAMLET = "Hamlet was written by William Shakespeare."
needs_torch = pytest.mark.skipif(
    not (find_spec("torch") and find_spec("transformers")), reason="needs torch and transformers"
)


class Shared:
    """Scores a pair by the words that both have."""

    def predict(self, pairs: list[tuple[str, str]], /) -> list[float]:
        return [
            len(set(q.lower().split("?")[0].split()) & set(t.lower().split())) for q, t in pairs
        ]


def texts(spans: Any) -> list[str]:
    return [one["text"] for one in spans]


def test_recomp_keeps_the_nearest_sentences() -> None:
    assert texts(RecompFilter(Shared()).keep(QUESTION, PASSAGES)) == [HAMLET]
    assert len(RecompFilter(Shared(), top=None).keep(QUESTION, PASSAGES)) == 4
    assert texts(RecompFilter(Shared(), threshold=0.5, top=3).keep(QUESTION, PASSAGES)) == [HAMLET]
    assert RecompFilter(Shared(), threshold=9).keep(QUESTION, PASSAGES) == []
    assert RecompFilter(Shared()).keep(QUESTION, []) == []
    with pytest.raises(UsageError, match="top must be at least 1"):
        RecompFilter(Shared(), top=0)


@pytest.mark.skipif(not minilm.available(), reason='needs pip install "ragweave[offline]"')
def test_recomp_with_the_packaged_model_in_filco() -> None:
    graph = build_graph("filco", model="extractive?similarity=lexical", filter="recomp")
    out = graph.invoke({"question": QUESTION, "passages": PASSAGES})
    assert [doc.page_content for doc in out["passages"]] == [HAMLET]


# -- Provence ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a tiny token classifier that keeps the tokens of what it was shown as relevant."""
    import torch
    import transformers

    folder = make_tiny_encoder(tmp_path_factory.mktemp("pruner"), limit=24)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    torch.manual_seed(0)
    model = transformers.BertForTokenClassification.from_pretrained(folder, num_labels=2)
    keep = tokenizer.convert_tokens_to_ids(["hamlet", "william", "shakespeare"])
    with torch.no_grad():  # embeddings of these words point one way, and the head reads that way
        table = model.bert.embeddings.word_embeddings.weight
        table[:] = 0
        table[:, 0] = -1
        table[keep, 0] = 1
        for layer in model.bert.encoder.layer:
            layer.attention.output.dense.weight.zero_()
            layer.output.dense.weight.zero_()
        model.bert.embeddings.position_embeddings.weight.zero_()
        model.bert.embeddings.token_type_embeddings.weight.zero_()
        model.classifier.weight.zero_()
        model.classifier.weight[1, 0] = 8
        model.classifier.bias.zero_()
    model.save_pretrained(folder)
    return folder


@needs_torch
def test_provence_keeps_sentences_most_of_whose_tokens_are_relevant(checkpoint: Path) -> None:
    passages = [
        Document("The river is green. William Shakespeare Hamlet.", id="a"),
        Document("A cat saw a bird. The dog ate snow. " * 4 + "Hamlet Shakespeare.", id="b"),
    ]
    spans = ProvenceFilter(str(checkpoint)).keep(QUESTION, passages)
    assert {one["text"] for one in spans} == {"William Shakespeare Hamlet.", "Hamlet Shakespeare."}
    assert ProvenceFilter(str(checkpoint), threshold=1.0).keep(QUESTION, passages) == []
    named = context_filter("provence", encoder=str(checkpoint))
    assert len(named.keep(QUESTION, passages)) == 2
    with pytest.raises(UsageError, match="tokens, and 12 fit the pruner"):
        named.keep("who wrote hamlet " * 9, passages)


@needs_torch
def test_a_checkpoint_whose_own_code_would_run_is_refused(tmp_path: Path) -> None:
    config = {"architectures": ["Provence"], "auto_map": {"AutoModel": "modeling.Provence"}}
    (tmp_path / "config.json").write_text(json.dumps(config), "utf-8")
    with pytest.raises(UsageError, match="needs code that comes with it"):
        ProvenceFilter(str(tmp_path))
    (tmp_path / "config.json").write_text('{"architectures": ["BertModel"]}', "utf-8")
    with pytest.raises(UsageError, match="is no token classifier"):
        ProvenceFilter(str(tmp_path))
    for name in ("nobody/nothing-here", str(tmp_path / "none"), "a//b"):
        with pytest.raises(UsageError, match="no pruning checkpoint"):
            ProvenceFilter(name)
    with pytest.raises(UsageError, match="needs a checkpoint: encoder=PATH"):
        ProvenceFilter("")


@needs_torch
def test_a_classifier_of_other_labels_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    import transformers

    model = transformers.BertForTokenClassification.from_pretrained(
        checkpoint, num_labels=3, ignore_mismatched_sizes=True
    )
    model.save_pretrained(tmp_path)
    transformers.AutoTokenizer.from_pretrained(checkpoint).save_pretrained(tmp_path)
    with pytest.raises(UsageError, match="has 3 labels, not two"):
        _loaded(str(tmp_path))
