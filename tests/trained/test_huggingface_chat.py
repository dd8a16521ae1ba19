"""A Hugging Face model in this process: replies, log-probabilities, and the gates over them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from ragweave import build_graph, chat_model
from ragweave.errors import ModelError, UsageError
from ragweave.testing import CARDS, RecordingRetriever
from ragweave.tools.models.forms import gives_logprobs, token_probabilities
from ragweave.tools.models.uncertainty import gate_settings, uncertainty
from ragweave.tools.scorers import HuggingFaceScorer
from ragweave.trained import huggingface_chat

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    "{{ m.role[0] }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}a: {% endif %}"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random model that reads and writes bytes."""
    from tests.tiny_parts import byte_tokenizer

    path = tmp_path_factory.mktemp("hf")
    torch.manual_seed(5)
    tokenizer = byte_tokenizer()
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=2048,
        initializer_range=0.5,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return chat_model(f"hf:{folder}?device=cpu&max_tokens=12")


def content(message: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = message.response_metadata["logprobs"]["content"]
    return found


def test_log_probabilities_are_the_scorers(model: Any, folder: Path) -> None:
    reply = model.invoke("Who?", logprobs=True, top_logprobs=3)
    places = content(reply)
    ended = reply.response_metadata["finish_reason"] == "stop"
    assert reply.usage_metadata["output_tokens"] == len(places) + ended
    ids = [model._tokenizer.convert_tokens_to_ids(one) for one in reply.text]
    total = sum(one["logprob"] for one in places)
    if None not in ids:  # every byte is a character of its own
        scorer = HuggingFaceScorer(str(folder), device="cpu", end_token=False)
        assert total == pytest.approx(scorer.score([("Who?\n", reply.text)])[0], abs=1e-3)
    for one in places:
        best = [other["logprob"] for other in one["top_logprobs"]]
        assert len(best) == 3 and best == sorted(best, reverse=True)
        assert one["logprob"] == pytest.approx(best[0])  # greedy: the likeliest was taken
        assert sum(map(math.exp, best)) <= 1 + 1e-6
    assert token_probabilities(reply, reply.text) is not None


@pytest.mark.parametrize("wanted", [False, True])
def test_rows_of_the_vocabulary_are_kept_where_they_are_asked_for_alone(
    model: Any, monkeypatch: pytest.MonkeyPatch, wanted: bool
) -> None:
    kept, write = [], huggingface_chat._written

    def noting(*args: Any) -> huggingface_chat.Written:
        kept.append(write(*args))
        return kept[-1]

    monkeypatch.setattr(huggingface_chat, "_written", noting)
    reply = model.invoke("Who?", logprobs=wanted)
    (written,) = kept
    assert len(written.logits) == (reply.usage_metadata["output_tokens"] if wanted else 0)


def test_greedy_replies_repeat_and_warm_ones_follow_their_seed(model: Any) -> None:
    assert model.invoke("Who?").text == model.invoke("Who?").text
    warm = [model.invoke("Who?", temperature=2.0, seed=seed).text for seed in (1, 1, 2, 3)]
    assert warm[0] == warm[1]
    assert len(set(warm)) > 1


def test_a_stop_word_ends_text_and_tokens_alike(model: Any) -> None:
    whole = model.invoke("Who?", logprobs=True)
    word = whole.text[4]
    reply = model.invoke("Who?", stop=[word], logprobs=True)
    assert reply.text == whole.text[: whole.text.index(word)]
    assert len(content(reply)) < len(content(whole))
    assert reply.response_metadata["finish_reason"] == "stop"


def test_the_template_is_used_and_a_system_message_finds_a_place(folder: Path) -> None:
    from tests.tiny_parts import byte_tokenizer

    from ragweave.trained.huggingface_chat import prompt_ids

    tokenizer = byte_tokenizer()
    tokenizer.chat_template = TEMPLATE
    asked = [
        SystemMessage("Be short."),
        HumanMessage("Who?"),
        AIMessage("Ada"),
        HumanMessage("Why?"),
    ]
    said = tokenizer.decode(prompt_ids(tokenizer, asked))
    assert said == "u: Be short.\n\nWho?\na: Ada\nu: Why?\na: "
    with pytest.raises(ModelError, match="refuses this conversation"):
        prompt_ids(tokenizer, [SystemMessage("Be short.")])


@pytest.mark.parametrize("gate", ["mean", "least", "entropy", "margin"])
def test_every_gate_measures_its_replies(model: Any, gate: Any) -> None:
    assert gives_logprobs(model)
    found = uncertainty(model.invoke("Who?", **gate_settings(gate)), gate)
    assert found is not None and found > 0


def test_the_uncertainty_gate_runs_without_a_server(model: Any) -> None:
    retriever = RecordingRetriever(documents=list(CARDS))
    for threshold, retrievals in ((-1.0, 1), (1.0, 0)):
        graph = build_graph(
            "uncertainty_gate", model=model, retriever=retriever, threshold=threshold, k=1
        )
        *_, state = graph.stream({"question": "Who?"}, stream_mode="values")
        (noted,) = [one["detail"] for one in state["notes"] if one["event"] == "gated"]
        assert 0 < noted["uncertainty"] <= 1
        assert state["usage"]["retrievals"] == retrievals


def test_mistakes_are_one_line(folder: Path, tmp_path: Path, model: Any) -> None:
    with pytest.raises(ModelError, match="no such folder"):
        chat_model(f"hf:{tmp_path / 'none'}")
    with pytest.raises(UsageError, match="has no setting 'n_ctx'"):
        chat_model(f"hf:{folder}?n_ctx=10")
    (tmp_path / "config.json").write_text('{"is_encoder_decoder": true}', "utf-8")
    with pytest.raises(UsageError, match="encoder-decoder"):
        chat_model(f"hf:{tmp_path}")
    with pytest.raises(UsageError, match="context holds 2048"):
        model.invoke("x" * 2040)
    with pytest.raises(UsageError, match="no setting 'grammar'"):
        model.invoke("Who?", grammar="root ::= x")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("dtype=float33", "dtype must be auto, float32"),
        ("dtype=int8", "dtype must be"),
        ("dtype=nn", "dtype must be"),
        ("device=gpu", "device must be auto, cpu"),
        ("device=cuda:99", "CUDA devices on this machine"),
        ("device=meta", "can't be used here"),
    ],
)
def test_a_device_or_number_type_that_is_not_there_is_refused_at_once(
    folder: Path, settings: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        chat_model(f"hf:{folder}?{settings}")


def test_a_device_without_cuda_is_refused_at_once(folder: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match="torch sees 0 CUDA devices"):
        chat_model(f"hf:{folder}?device=cuda")


def test_settings_of_a_call_keep_the_bounds_of_the_models(model: Any) -> None:
    plain = model.invoke("Who?").text
    none = dict.fromkeys(("max_tokens", "temperature", "top_p", "seed", "top_logprobs"))
    assert model.invoke("Who?", **none).text == plain
    for wrong in (
        {"max_tokens": 0},
        {"temperature": -1},
        {"temperature": "warm"},
        {"top_p": 5},
        {"top_logprobs": 100_000},
    ):
        (name,) = wrong
        with pytest.raises(UsageError, match=name):
            model.invoke("Who?", **wrong)
