"""Context filter and reranker by a pruning model: Provence's relevant tokens, and its two heads."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from tests.tiny_encoder import make_tiny_encoder

from ragweave import build_graph
from ragweave.errors import PromptTooLongError, UsageError
from ragweave.tools.filters import ProvenceFilter, by_best_span, context_filter
from ragweave.tools.filters.provence import _loaded, without_case_and_punctuation

QUESTION = "Who wrote Hamlet?"
needs_torch = pytest.mark.skipif(
    not (find_spec("torch") and find_spec("transformers")), reason="needs torch and transformers"
)


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
    with pytest.raises(PromptTooLongError, match="tokens, and 12 fit the pruner"):
        named.keep("who wrote hamlet " * 9, passages)


@needs_torch
def test_a_passage_is_kept_whole_where_one_of_its_sentences_would_be(checkpoint: Path) -> None:
    passages = [
        Document("A cat saw a bird. Hamlet Shakespeare.", id="a"),
        Document("The dog ate snow.", id="b"),
    ]
    one = context_filter("provence", encoder=str(checkpoint), granularity="passage")
    (span,) = one.keep(QUESTION, passages)
    assert (span["passage_id"], span["text"]) == ("a", passages[0].page_content)
    assert (span["start"], span["end"]) == (0, len(passages[0].page_content))


@needs_torch
def test_the_share_of_relevant_tokens_is_a_half_or_what_is_asked_for(checkpoint: Path) -> None:
    passages = [Document("The river Hamlet is green."), Document("A cat saw a bird.")]
    assert ProvenceFilter(str(checkpoint)).keep(QUESTION, passages) == []
    (span,) = ProvenceFilter(str(checkpoint), share=0.1).keep(QUESTION, passages)
    assert span["text"] == "The river Hamlet is green."
    numbers: list[dict[str, float]] = [{"threshold": 5}, {"threshold": -0.1}, {"share": 2}]
    for given in numbers:
        with pytest.raises(UsageError, match="must be between 0 and 1 for provence"):
            ProvenceFilter(str(checkpoint), **given)  # type: ignore[arg-type]


@needs_torch
def test_a_checkpoint_whose_own_code_would_run_is_refused(tmp_path: Path) -> None:
    config = {"architectures": ["XProvence"], "auto_map": {"AutoModel": "modeling.XProvence"}}
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


# -- the released model: two heads ---------------------------------------------------------------

CITIES = [
    Document("The river is green. A cat saw a bird.", id="a"),
    Document("William Shakespeare was born in England.", id="b"),
    Document("Paris is the capital of France. Hamlet ate snow.", id="c"),
]


class TwoHeads:
    """The released checkpoint's form, tiny; its heads as transformers' own models compute them."""

    def __init__(self, folder: Path) -> None:
        import torch
        import transformers
        from safetensors.torch import save_file

        self.folder = make_tiny_encoder(folder, limit=32)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
        form = {
            "relative_attention": True,
            "position_buckets": 8,
            "pos_att_type": ["p2c", "c2p"],
            "position_biased_input": False,
            "type_vocab_size": 0,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
            "pooler_hidden_size": 32,
            "id2label": {"0": "LABEL_0"},
            "label2id": {"LABEL_0": 0},
        }
        self.settings: dict[str, Any] = {
            "vocab_size": len(self.tokenizer),
            "intermediate_size": 64,
            "max_position_embeddings": 32,
            "initializer_range": 0.5,
            **size,
            **form,
        }
        torch.manual_seed(1)
        config = transformers.DebertaV2Config(**self.settings)
        self.ranker = transformers.DebertaV2ForSequenceClassification(config).eval()
        config.num_labels = 2
        self.tagger = transformers.DebertaV2ForTokenClassification(config).eval()
        self.tagger.deberta = self.ranker.deberta
        weights = {**self.ranker.state_dict()}
        for name in ("weight", "bias"):
            weights[f"token_classifier.{name}"] = self.tagger.state_dict()[f"classifier.{name}"]
        save_file(weights, folder / "model.safetensors")
        code = {"AutoModel": "modeling_provence.Provence"}
        whole = {"architectures": ["Provence"], "model_type": "Provence", "auto_map": code}
        (folder / "config.json").write_text(json.dumps({**self.settings, **whole}), "utf-8")

    def relevance(self, text: str) -> float:
        """Return what the ranking head says of a text that fits one window."""
        return float(self.ranker(**self.encoded(text)).logits[0, 0].detach())

    def keep(self, text: str) -> list[float]:
        """Return the probabilities of its tokens."""
        encoded = self.encoded(text)
        found = self.tagger(**encoded).logits.softmax(-1)[0, :, 1].tolist()
        return [one for one, part in zip(found, encoded.sequence_ids(0), strict=True) if part == 1]

    def encoded(self, text: str) -> Any:
        return self.tokenizer("who wrote hamlet", text, return_tensors="pt")


@pytest.fixture(scope="module")
def two_heads(tmp_path_factory: pytest.TempPathFactory) -> TwoHeads:
    return TwoHeads(tmp_path_factory.mktemp("provence"))


@needs_torch
def test_both_heads_are_read_as_transformers_computes_them(two_heads: TwoHeads) -> None:
    for doc in CITIES:
        read = _loaded(str(two_heads.folder)).read(QUESTION, doc.page_content)
        assert read.relevance == pytest.approx(two_heads.relevance(doc.page_content), abs=1e-5)
        keep = [one.keep for one in read.tokens]
        assert keep == pytest.approx(two_heads.keep(doc.page_content), abs=1e-5)
    assert without_case_and_punctuation(" Who  wrote 'Hamlet'?") == "who wrote hamlet"


@needs_torch
def test_the_ranking_head_orders_passages_where_that_is_wanted(two_heads: TwoHeads) -> None:
    by_head = sorted(CITIES, key=lambda doc: -two_heads.relevance(doc.page_content))
    assert [doc.id for doc in by_head] != [doc.id for doc in CITIES]
    spans = ProvenceFilter(str(two_heads.folder), threshold=0.0).keep(QUESTION, CITIES)
    assert len(spans) == 5
    assert [doc.id for doc in by_best_span(CITIES, spans)] == [doc.id for doc in by_head]
    options: Any = {"filter": "provence", "encoder": str(two_heads.folder), "threshold": 0.0}
    for rerank, expected in ((True, by_head), (False, CITIES)):
        graph = build_graph("filco", model="extractive", rerank=rerank, **options)
        out = graph.invoke({"question": QUESTION, "passages": CITIES})
        assert [doc.id for doc in out["passages"]] == [doc.id for doc in expected]


@needs_torch
def test_a_long_passage_ranks_by_its_best_window(two_heads: TwoHeads) -> None:
    pruner = _loaded(str(two_heads.folder))
    words = "the cat saw a green bird in the city of london where snow is old . " * 3
    read = pruner.read(QUESTION, words)
    encoded = pruner._encoded("who wrote hamlet", words)
    assert len(encoded["input_ids"]) > 1
    scores = pruner.model(encoded)[1].tolist()
    assert read.relevance == pytest.approx(max(scores), abs=1e-5)
    assert len(read.tokens) == 48


@needs_torch
def test_weights_of_another_network_are_refused(two_heads: TwoHeads, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    for path in two_heads.folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    weights = load_file(two_heads.folder / "model.safetensors")
    del weights["token_classifier.bias"]
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(UsageError, match=r"lacks token_classifier\.bias"):
        ProvenceFilter(str(tmp_path)).keep(QUESTION, CITIES)
    (tmp_path / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(UsageError, match="can't be read as Provence's weights"):
        ProvenceFilter(str(tmp_path)).keep(QUESTION, CITIES)
