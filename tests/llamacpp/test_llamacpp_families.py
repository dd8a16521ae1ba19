"""Model families: which sampling a file gets, and how thinking is switched."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.messages import HumanMessage

pytest.importorskip("gguf", reason="writing a test model needs the gguf package")
pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")

import tiny_gguf
from ragweave.errors import UsageError
from ragweave.llamacpp import LlamaCppChat
from ragweave.llamacpp.families import FAMILIES, family_of, is_base_model
from ragweave.llamacpp.gguf import GGUFFacts
from ragweave.llamacpp.options import LlamaCppFields, call_options
from ragweave.llamacpp.sampling import Sampler, Sampling
from ragweave.nodes.options import Options
from ragweave.nodes.sampling import draws_nothing
from ragweave.tools.models.tasks import attach

THINKS = (
    "{% for m in messages %}{{ m.content }}{% endfor %}"
    "{% if enable_thinking %}<think>\n{% else %}<think>\n\n</think>\n\n{% endif %}"
)


def facts(architecture: str, name: str, file: str = "m.gguf") -> GGUFFacts:
    told = {"general.architecture": architecture, "general.name": name}
    return GGUFFacts(Path(file), 0, told, 0)


@pytest.mark.parametrize(
    ("architecture", "name", "family"),
    [
        ("qwen3", "Qwen3 0.6B Instruct", "Qwen3"),
        ("qwen3moe", "Qwen3 30B A3B", "Qwen3"),
        ("qwen35", "Qwen3.5 0.8B", "Qwen3.5"),
        ("qwen2", "Qwen2.5 Coder 0.5B Instruct", "Qwen2.5"),
        ("gemma3", "Gemma 3 1b It", "Gemma 3"),
        ("gemma4", "Gemma 4 E2B It", "Gemma 4"),
        ("llama", "Meta Llama 3.1 8B Instruct", "Llama 3"),
        ("llama", "Llama-3.2-1B-Instruct", "Llama 3"),
        ("llama", "Smollm2 135M 8k Lc100K Mix1 Ep2", "SmolLM2"),
        ("smollm3", "SmolLM3 3B", "SmolLM3"),
        ("lfm2", "LFM2 1.2B", "LFM2"),
        ("lfm2", "LFM2.5 1.2B Instruct", "LFM2.5"),
        ("granite", "Granite 4.0 Micro", "Granite 4"),
        ("granitehybrid", "Granite 4.0 H Tiny", "Granite 4"),
        ("phi3", "Phi 4 Mini Instruct", "Phi-4-mini"),
        ("llama", "Mistral 7B Instruct", None),
        ("phi3", "Phi 3.5 Mini Instruct", None),
        ("gpt2", "Llama 3", None),
        ("qwen35moe", "Qwen3.5-35B-A3B", "Qwen3.5"),
        ("qwen35moe", "Qwen_Qwen3.5 122B A10B", "Qwen3.5"),
        ("qwen35moe", "Qwen3.6 35B A3B", None),
        ("qwen3", "Qwen3 4B Instruct 2507", "Qwen3"),
        ("qwen3", "Qwen3 4B Thinking 2507", "Qwen3"),
        ("qwen3moe", "Qwen3 Coder 30B A3B Instruct", "Qwen3"),
        ("qwen3next", "Qwen3 Next 80B A3B Instruct", "Qwen3"),
        ("qwen3", "DeepSeek R1 0528 Qwen3 8B", None),
        ("qwen3", "Qwen3 Reranker 0.6B", None),
        ("qwen3", "Jan v1 4B", None),
        ("qwen2", "qwen2.5-0.5b-instruct", "Qwen2.5"),
        ("qwen2", "Qwen2 0.5B Instruct", None),
        ("qwen2", "DeepSeek R1 Distill Qwen 1.5B", None),
        ("qwen2", "Dolphin3.0 Qwen2.5 0.5B", None),
        ("qwen2", "QwQ 32B", None),
        ("gemma3n", "Gemma 3n E2B it", "Gemma 3"),
        ("gemma3", "Gemma 3 270m It Qat", "Gemma 3"),
        ("gemma3", "Medgemma 4b It", None),
        ("gemma4", "gemma-4-26B-A4B-it", "Gemma 4"),
        ("gemma4-assistant", "Gemma 4 E2B It Assistant", None),
        ("llama", "Meta-Llama-3-8B-Instruct", "Llama 3"),
        ("llama", "Llama 3.3 70B Instruct", "Llama 3"),
        ("llama", "CodeLlama 34b Instruct", None),
        ("llama", "LLaMA 33B", None),
        ("llama", "open_llama_3b_v2", None),
        ("llama", "TinyLlama 1.1B 3T", None),
        ("llama", "DeepSeek R1 Distill Llama 8B", None),
        ("llama", "Hermes 3 Llama 3.1 8B", None),
        ("llama", "Llama 3.1 Nemotron Nano 8B v1", None),
        ("llama", "Llama 3.1 Tulu 3 8B", None),
        ("llama", "Smollm2 360M 8k Lc100K Dpo Ultaf Ep2", "SmolLM2"),
        ("smollm3", "SmolLM3-3B", "SmolLM3"),
        ("lfm2moe", "LFM2 8B A1B", "LFM2"),
        ("lfm2", "LFM2.5-1.2B-Thinking", "LFM2.5"),
        ("lfm2", "LFM2 1.2B RAG", None),
        ("granitehybrid", "Granite 4.0 H Small", "Granite 4"),
        ("granite", "Granite 3.3 8b Instruct", None),
        ("phi3", "Phi-4-mini-instruct", "Phi-4-mini"),
        ("phi3", "Phi 4 Mini Reasoning", None),
        ("phi3", "Phi-4-mini-flash-reasoning", None),
        ("phi3", "Phi 4", None),
    ],
)
def test_a_family_is_found_by_architecture_and_name(
    architecture: str, name: str, family: str | None
) -> None:
    found = family_of(facts(architecture, name))
    assert (found.name if found else None) == family


def test_a_file_s_name_will_do() -> None:
    found = family_of(facts("llama", "", "Llama-3.2-3B-Instruct-Q4_K_M.gguf"))
    assert found is not None
    assert found.name == "Llama 3"


@pytest.mark.parametrize(
    ("file", "family"),
    [
        ("Qwen_Qwen3-0.6B-UD-Q4_K_XL.gguf", "Qwen3"),
        ("Qwen3-235B-A22B-Q4_K_M-00001-of-00003.gguf", "Qwen3"),
        ("Qwen3-8B-heretic-Q4_K_M.gguf", None),
        ("DeepSeek-R1-Distill-Qwen3-8B.gguf", None),
    ],
)
def test_a_file_s_name_ends_in_its_quantisation(file: str, family: str | None) -> None:
    found = family_of(facts("qwen3", "", file))
    assert (found.name if found else None) == family


def test_a_fine_tune_whose_base_stands_by_itself_is_none_of_the_family() -> None:
    """What converts models splits a name: `Llama-3.1` and `Lexi-Uncensored`."""
    told = facts("llama", "Llama 3.1 8B Lexi Uncensored", "lexi.gguf")
    parts = {"general.basename": "Llama-3.1", "general.finetune": "Lexi-Uncensored"}
    assert family_of(replace(told, metadata={**told.metadata, **parts})) is None
    parts["general.finetune"] = "Instruct"
    assert family_of(replace(told, metadata={**told.metadata, **parts})) is not None


def test_every_family_names_its_source_and_settings_that_exist() -> None:
    for family in FAMILIES:
        assert family.source
        for settings in (family.text, family.thinking or {}):
            Sampling(**settings)  # type: ignore[arg-type]


def test_a_base_model_is_told_by_its_name() -> None:
    assert is_base_model(facts("qwen2", "Qwen2.5 0.5B Base"))
    assert is_base_model(facts("gemma3", "", "gemma-3-1b-pt-Q4_0.gguf"))
    assert not is_base_model(facts("qwen2", "Qwen2.5 0.5B Instruct", "database-expert.gguf"))
    for name in (
        "Llama 3 8B Instruct PT BR",
        "tucano-2b4-instruct-pt",
        "sql-base-chat",
        "4b-it-pt",
    ):
        assert not is_base_model(facts("llama", name))


def test_a_base_model_with_a_template_is_named_once_at_its_first_call(
    make_chat: Callable[..., Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tiny_gguf.write(tmp_path / "qwen2.5-0.5b-base.gguf", end_bias=-50.0)
    model = make_chat(path=path, max_tokens=1)
    for one in (model, model.model_copy(), model.bind(temperature=0.5)):
        one.invoke("hello")
    (record,) = warnings_in(caplog)
    assert "qwen2.5-0.5b-base.gguf looks like a base model" in record.getMessage()
    assert "chat_template=plain" in record.getMessage()


@pytest.mark.parametrize(
    ("file", "template"), [("base", "plain"), ("base", "{{ 'hi' }}"), ("it", None)]
)
def test_a_model_that_is_used_as_it_should_be_needs_no_warning(
    make_chat: Callable[..., Any],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    file: str,
    template: str | None,
) -> None:
    path = tiny_gguf.write(tmp_path / f"{file}.gguf", end_bias=-50.0)
    make_chat(path=path, max_tokens=1, chat_template=template).invoke("hello")
    assert not warnings_in(caplog)


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return what was logged for people: the level of the log is other tests' too."""
    return [one for one in caplog.records if one.levelno >= logging.WARNING]


def in_family(make_chat: Callable[..., Any], **settings: Any) -> LlamaCppChat:
    name = settings.pop("name", "Qwen3 0.6B")
    model: LlamaCppChat = make_chat(**settings)
    told = {
        **model._facts.metadata,
        "general.architecture": "qwen3",
        "general.name": name,
    }
    object.__setattr__(model._facts, "metadata", told)
    return model


def drawn(model: LlamaCppChat, message: HumanMessage, **overrides: Any) -> Sampling:
    return model._options([message], None, overrides).request.sampling


def test_the_card_s_sampling_is_for_free_text_only(make_chat: Callable[..., Any]) -> None:
    model = in_family(make_chat, sampling="card")
    free = HumanMessage("Tell me.")
    assert drawn(model, free).temperature == 0.7
    assert (drawn(model, free).top_p, drawn(model, free).top_k) == (0.8, 20)
    for name in ("judge", "filter", "need", "rewrite", "step", "topic", "extract"):
        asked = attach(free, {"task": name, "question": "q"})  # type: ignore[typeddict-item]
        assert drawn(model, asked).temperature == 0.0  # type: ignore[arg-type]
    short = attach(free, {"task": "answer", "question": "q", "answer_type": "short"})
    long = attach(free, {"task": "answer", "question": "q", "answer_type": "long"})
    assert drawn(model, short).temperature == 0.0  # type: ignore[arg-type]
    assert drawn(model, long).temperature == 0.7  # type: ignore[arg-type]
    assert drawn(model, free, temperature=0.3).temperature == 0.3
    assert drawn(model, free, json_schema={"type": "object"}).temperature == 0.0
    assert drawn(in_family(make_chat, sampling="card", temperature=0.2), free).temperature == 0.2


def test_without_a_wish_decoding_is_greedy(make_chat: Callable[..., Any]) -> None:
    model = in_family(make_chat)
    assert drawn(model, HumanMessage("Tell me.")).temperature == 0.0
    assert drawn(model, HumanMessage("Tell me."), thinking=True).temperature == 0.6


def test_what_was_made_of_a_model_that_thinks_thinks_as_that_does(
    make_chat: Callable[..., Any],
) -> None:
    model = in_family(make_chat, sampling="card", name="DeepSeek R1 0528 Qwen3 8B")
    assert drawn(model, HumanMessage("Tell me.")).temperature == 0.0
    assert drawn(model, HumanMessage("Tell me."), thinking=True).temperature == 0.6


@pytest.mark.parametrize(
    ("settings", "bound", "greedy"),
    [
        ({}, {}, True),
        ({"sampling": "card"}, {}, False),
        ({"sampling": "card"}, {"temperature": 0.0}, True),
        ({"sampling": "card", "temperature": 0.0}, {}, True),
        ({"thinking": True}, {}, False),
        ({}, {"thinking": True}, False),
        ({"thinking": True}, {"thinking": False}, True),
        ({"chat_template_kwargs": {"enable_thinking": True}}, {}, False),
    ],
)
def test_a_model_that_samples_by_its_card_draws(
    make_chat: Callable[..., Any], settings: dict[str, Any], bound: dict[str, Any], greedy: bool
) -> None:
    model = in_family(make_chat, **settings).bind(**bound)
    assert draws_nothing(model, Options()) is greedy
    assert draws_nothing(model, Options(sample_temperature=0.0))
    assert not draws_nothing(model, Options(samples=2, sample_temperature=0.0))


def prompt(model: LlamaCppChat, **overrides: Any) -> str:
    messages = [HumanMessage("hi")]
    options = model._options(messages, None, overrides)
    words = model.engine.vocabulary
    return words.decode(model._prompt(messages, words, options).tokens)


def test_thinking_is_off_unless_asked_for(make_chat: Callable[..., Any]) -> None:
    model = make_chat(chat_template=THINKS)
    assert prompt(model) == "hi<think>\n\n</think>\n\n"
    assert prompt(model, thinking=True) == prompt(model, thinking="on") == "hi<think>\n"
    assert prompt(model, thinking="off") == prompt(model)
    assert prompt(make_chat(chat_template=THINKS, thinking=True)) == "hi<think>\n"
    assert prompt(model, thinking=True, grammar='root ::= "a"').endswith("</think>\n\n")
    assert prompt(model, chat_template_kwargs={"enable_thinking": True}) == "hi<think>\n"
    always = make_chat(chat_template="{{ messages[0].content }}<think>\n")
    assert prompt(always) == "hi<think>\n\n</think>\n\n"


def test_template_values_reach_the_template(make_chat: Callable[..., Any]) -> None:
    model = make_chat(chat_template="{{ tone }}", chat_template_kwargs={"tone": "warm"})
    assert prompt(model) == "warm"
    assert prompt(model, chat_template_kwargs={"tone": "dry"}) == "dry"


async def test_a_thinking_block_is_bounded_and_no_part_of_the_reply(
    make_chat: Callable[..., Any],
) -> None:
    model = make_chat(
        chat_template=THINKS, thinking=True, thinking_tokens=6, max_tokens=5, logprobs=True
    )
    reply = model.invoke("hi")
    assert "</think>" not in reply.content
    assert reply.additional_kwargs["reasoning_content"]
    entries = reply.response_metadata["logprobs"]["content"]
    assert len(entries) == 5
    said = b"".join(bytes(one["bytes"]) for one in entries).decode("utf-8", "replace")
    assert said.lstrip() == reply.content
    assert reply.usage_metadata["output_tokens"] > 6
    chunks = [one async for one in model.astream("hi")]
    whole = chunks[0]
    for one in chunks[1:]:
        whole += one
    assert whole.content == reply.content
    assert whole.additional_kwargs == reply.additional_kwargs
    streamed = whole.response_metadata["logprobs"]["content"]
    assert [one["token"] for one in streamed] == [one["token"] for one in entries]


def test_thoughts_leave_room_for_the_reply(make_chat: Callable[..., Any]) -> None:
    model = make_chat(chat_template=THINKS, thinking=True, n_ctx=192, max_tokens=24)
    reply = model.invoke("hi " * 20)
    assert reply.additional_kwargs["reasoning_content"]
    assert reply.content
    assert reply.usage_metadata["total_tokens"] <= 192


def test_min_p_drops_what_is_unlikely() -> None:
    logits = np.log(np.array([0.6, 0.3, 0.06, 0.04], np.float32))
    picked = {
        Sampler(Sampling(temperature=1.0, min_p=0.4, seed=seed)).pick(logits) for seed in range(60)
    }
    assert picked == {0, 1}


def test_penalties_lower_what_was_said() -> None:
    logits = np.array([2.0, 1.9, -1.0, -1.05], np.float32)
    present = Sampler(Sampling(presence_penalty=0.5))
    assert [present.pick(logits) for _ in range(3)] == [0, 1, 0]
    repeated = Sampler(Sampling(repetition_penalty=1.5), prompt=[0])
    assert [repeated.pick(logits), repeated.pick(logits)] == [1, 0]
    assert logits.tolist() == pytest.approx([2.0, 1.9, -1.0, -1.05])
    negative = Sampler(Sampling(repetition_penalty=1.5), prompt=[0])
    assert negative.pick(np.array([-1.0, -1.2], np.float32)) == 1


@pytest.mark.parametrize(
    "bad",
    [{"min_p": 1.5}, {"presence_penalty": 11}, {"repetition_penalty": 0.0}, {"thinking_tokens": 0}],
)
def test_settings_out_of_range_are_refused(tiny: Path, bad: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(bad))):
        LlamaCppChat(path=str(tiny), **bad)


@pytest.mark.parametrize(
    ("own", "call", "thinks"),
    [
        ({}, {}, False),
        ({"chat_template_kwargs": {"enable_thinking": True}}, {}, True),
        ({"chat_template_kwargs": {"enable_thinking": True}}, {"thinking": False}, False),
        ({"chat_template_kwargs": {"enable_thinking": True}}, {"thinking": "off"}, False),
        ({"thinking": True}, {"chat_template_kwargs": {"enable_thinking": False}}, False),
        ({}, {"chat_template_kwargs": {"thinking": True}}, True),
        ({}, {"chat_template_kwargs": {"thinking": True}, "grammar": 'root ::= "a"'}, False),
    ],
)
def test_the_thinking_switch_of_a_template_is_that_of_the_call(
    own: dict[str, Any], call: dict[str, Any], thinks: bool
) -> None:
    fields = {name: field.default for name, field in LlamaCppFields.model_fields.items()}
    found = call_options({**fields, **own}, None, call)
    assert found.thinking is thinks
    assert found.template_values["enable_thinking"] is found.template_values["thinking"] is thinks


def test_a_call_keeps_the_models_other_template_variables() -> None:
    fields = {name: field.default for name, field in LlamaCppFields.model_fields.items()}
    own = {"chat_template_kwargs": {"date": "1 May", "tone": "dry"}}
    call = {"chat_template_kwargs": {"tone": "warm", "thinking": "deep"}}
    values = call_options({**fields, **own}, None, call).template_values
    assert values == {"date": "1 May", "tone": "warm", "thinking": "deep", "enable_thinking": False}
