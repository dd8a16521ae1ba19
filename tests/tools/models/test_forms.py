"""Which models can hold a reply to a form."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from openai import BadRequestError, ContentFilterFinishReasonError, LengthFinishReasonError
from openai.types.chat import ChatCompletion
from pydantic import Field, SecretStr
from tests.scripted import ListRetriever, ScriptedChat

from ragweave import build_graph
from ragweave.tools.models import aoffered_forms, chat_model, offered_forms
from ragweave.tools.models.forms import cut_reply
from ragweave.tools.models.thinking import thinking_room


class RefusedError(Exception):
    def __init__(self, status: int, message: str = "") -> None:
        super().__init__(message or f"status {status}")
        self.status_code = status


class Server(ChatOpenAI):
    """An OpenAI-compatible server that replies as told."""

    said: Any = '{"reply": "violet"}'
    asked: list[dict[str, Any]] = Field(default_factory=list)

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:  # fmt: skip
        self.asked.append(kwargs)
        if isinstance(self.said, Exception):
            raise self.said
        return ChatResult(generations=[ChatGeneration(message=AIMessage(self.said))])

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:  # fmt: skip
        return self._generate(messages, stop, run_manager, **kwargs)


def server(said: Any = '{"reply": "violet"}') -> Server:
    return Server(model="m", api_key=SecretStr("k"), said=said)


@pytest.mark.parametrize(
    ("said", "forms"),
    [
        ('{"reply": "violet"}', {"json_schema"}),
        ("A colour is red.", set()),
        ('{"reply": "red"}', set()),
        ('{"a":' * 50_000, set()),
        (RefusedError(400), set()),
        (RefusedError(422), set()),
    ],
)
def test_a_server_is_tried_once_and_remembered(said: Any, forms: set[str]) -> None:
    model = server(said)
    assert offered_forms(model) == forms
    assert offered_forms(model.bind(stop=["x"])) == forms
    assert asyncio.run(aoffered_forms(model)) == forms
    assert len(model.asked) == 1
    assert model.asked[0]["response_format"]["type"] == "json_schema"
    assert model.asked[0]["max_tokens"] <= 32
    other = server(said)
    assert asyncio.run(aoffered_forms(other)) == forms
    assert len(other.asked) == 1


def test_a_fault_that_says_nothing_of_forms_is_raised_and_not_remembered() -> None:
    model = server(RefusedError(503))
    with pytest.raises(RefusedError):
        offered_forms(model)
    with pytest.raises(RefusedError):
        asyncio.run(aoffered_forms(model))
    model.said = '{"reply": "violet"}'
    assert offered_forms(model) == {"json_schema"}


def test_others_offer_none() -> None:
    assert offered_forms(chat_model("extractive")) == set()
    scripted = ScriptedChat()
    assert offered_forms(scripted) == set()
    assert scripted.seen == []


def cut(content: str = "", **message: Any) -> LengthFinishReasonError:
    """Return what OpenAI's client raises where a reply held to a schema ends at its limit."""
    said = {"role": "assistant", "content": content, **message}
    head = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
    raw = {
        **head,
        "choices": [{"index": 0, "message": said, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 32, "total_tokens": 41},
    }
    return LengthFinishReasonError(completion=ChatCompletion.model_validate(raw))


class Thinker(Server):
    """A server whose model thinks within the limit of its reply, `needs` tokens long."""

    needs: int = 1000
    cut_by: Any = None
    """The error, or the message, that a reply gets which has too little room; None: the client's."""

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:  # fmt: skip
        self.asked.append(kwargs)
        if (kwargs.get("max_tokens") or 10**6) < self.needs:
            if isinstance(self.cut_by, AIMessage):
                return ChatResult(generations=[ChatGeneration(message=self.cut_by)])
            raise self.cut_by or cut(reasoning_content="Okay, the user asks")
        held = kwargs["response_format"]["json_schema"]["schema"]["properties"]["reply"]
        said = f'{{"reply": "{held["enum"][0]}"}}'
        spent = UsageMetadata(input_tokens=9, output_tokens=300, total_tokens=309)
        message = AIMessage(said, usage_metadata=spent)
        return ChatResult(generations=[ChatGeneration(message=message)])


def thinker(needs: int, cut_by: Any = None, name: str = "m") -> Thinker:
    return Thinker(model=name, api_key=SecretStr("k"), needs=needs, cut_by=cut_by)


REFUSED = RefusedError(
    400,
    "Error code: 400 - {'error': {'message': 'Could not finish the message because max_tokens or "
    "model output limit was reached. Please try again with higher max_tokens.'}}",
)
INCOMPLETE = AIMessage(
    "",
    response_metadata={
        "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"},
    },
)


@pytest.mark.parametrize("cut_by", [None, REFUSED, INCOMPLETE])
@pytest.mark.parametrize(("needs", "forms"), [(1000, {"json_schema"}), (10**7, set())])
def test_a_probe_cut_among_thoughts_is_made_again_with_room_for_them(
    needs: int, forms: set[str], cut_by: Any
) -> None:
    model, other = thinker(needs, cut_by), thinker(needs, cut_by)
    assert offered_forms(model) == offered_forms(model) == forms
    assert asyncio.run(aoffered_forms(other)) == forms
    for one in (model, other):
        assert [asked["max_tokens"] for asked in one.asked] == [32, 32 + 2048]


CHATTY = AIMessage(
    "Sure! Violet is a lovely colour, which", response_metadata={"finish_reason": "length"}
)


@pytest.mark.parametrize("cut_by", [CHATTY, cut("Sure! Violet is a lovely")])
def test_a_probe_cut_while_the_model_chats_is_no_proof_of_thoughts(cut_by: Any) -> None:
    model, other = thinker(1000, cut_by), thinker(1000, cut_by)
    assert offered_forms(model) == asyncio.run(aoffered_forms(other)) == set()
    for one in (model, other):
        assert [asked["max_tokens"] for asked in one.asked] == [32]
        assert thinking_room(one) == 0


@pytest.mark.parametrize(
    "cut_by",
    [
        AIMessage("<think>The user asks", response_metadata={"finish_reason": "length"}),
        cut("{", reasoning_content="The user asks"),
    ],
)
def test_a_probe_that_shows_thoughts_is_made_again(cut_by: Any) -> None:
    model = thinker(1000, cut_by)
    assert offered_forms(model) == {"json_schema"}
    assert [asked["max_tokens"] for asked in model.asked] == [32, 32 + 2048]


def test_the_probe_of_a_known_thinker_begins_with_room_for_thoughts() -> None:
    model, other = thinker(1000, name="o4-mini"), thinker(1000, name="o4-mini")
    assert offered_forms(model) == asyncio.run(aoffered_forms(other)) == {"json_schema"}
    for one in (model, other):
        assert [asked["max_tokens"] for asked in one.asked] == [32 + 2048]


def test_azures_server_is_probed_with_the_limit_by_its_own_name() -> None:
    class Azure(AzureChatOpenAI):
        asked: list[dict[str, Any]] = Field(default_factory=list)

        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:  # fmt: skip
            self.asked.append(kwargs)
            said = AIMessage('{"reply": "violet"}')
            return ChatResult(generations=[ChatGeneration(message=said)])

    model = Azure(
        azure_endpoint="https://corp.openai.azure.com",
        azure_deployment="d",
        api_key=SecretStr("k"),
        api_version="2025-03-01-preview",
    )
    assert offered_forms(model) == {"json_schema"}
    assert (model.asked[0]["max_completion_tokens"], "max_tokens" in model.asked[0]) == (32, False)


class Unheld(Thinker):
    """Its probe passes, and its later replies held to a schema are cut."""

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:  # fmt: skip
        self.needs = 10 if "colour" in str(messages) else 1000
        if "response_format" in kwargs:
            return super()._generate(messages, stop, run_manager, **kwargs)
        return ChatResult(generations=[ChatGeneration(message=AIMessage("Paris"))])


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_held_reply_that_is_cut_is_asked_for_with_room_for_thoughts(mode: str) -> None:
    model = Unheld(model="m", api_key=SecretStr("k"))
    found = ListRetriever(documents=[Document("Paris is the capital.", id="a")])
    graph = build_graph("self_eval", model=model, retriever=found)
    given: Any = {"question": "What is France's capital?"}

    async def asked() -> list[Any]:
        return [update async for update in graph.astream(given, stream_mode="updates")]

    updates = list(graph.stream(given, stream_mode="updates")) if mode == "sync" else asyncio.run(asked())  # fmt: skip
    written = [one for step in updates for one in step.values() if one]
    notes = [one["notes"] for one in written if isinstance(one.get("notes"), list)]
    assert "asked_again" in [note["event"] for listed in notes for note in listed]
    spent = next(one["usage"] for one in written if isinstance(one.get("usage"), dict))
    assert (spent["input_tokens"], spent["output_tokens"], spent["estimated"]) == (18, 332, False)
    graph.invoke(given)
    held = [one["max_tokens"] for one in model.asked if "response_format" in one][1:]
    assert held == [32 + 16, 32 + 16 + 2048, 32 + 16 + 2048]


def test_a_cut_reply_says_what_arrived() -> None:
    reply = cut_reply(cut('{"reply": "vio'))
    assert reply is not None
    assert reply.text == '{"reply": "vio'
    assert reply.response_metadata["finish_reason"] == "length"
    assert "reasoning_content" not in reply.additional_kwargs
    assert cut_reply(ValueError("length")) is None


def filtered(*, told: bool = True) -> ContentFilterFinishReasonError:
    completion = cut("It").completion
    return ContentFilterFinishReasonError(completion=completion if told else None)


def full(text: str) -> BadRequestError:
    request = httpx.Request("POST", "http://127.0.0.1/v1/chat/completions")
    return BadRequestError(text, response=httpx.Response(400, request=request), body=None)


FULL = full("Could not finish the message because max_tokens or model output limit was reached.")


@pytest.mark.parametrize(
    ("error", "text", "reason", "tokens"),
    [
        (filtered(), "It", "content_filter", 32),
        (filtered(told=False), "", "content_filter", None),
        (FULL, "", "length", None),
        (full("MAX_TOKENS or model output limit was reached"), "", "length", None),
    ],
)
def test_a_filtered_reply_and_one_of_thoughts_alone_are_replies(
    error: Exception, text: str, reason: str, tokens: int | None
) -> None:
    reply = cut_reply(error)
    assert reply is not None
    assert (reply.text, reply.response_metadata["finish_reason"]) == (text, reason)
    spent = reply.usage_metadata
    assert (spent and spent["output_tokens"]) == tokens
    assert cut_reply(full("max_tokens is too large")) is None


@pytest.mark.parametrize("error", [filtered(), filtered(told=False), FULL])
def test_a_held_reply_that_does_not_come_leaves_the_question_alone(error: Exception) -> None:
    class Refusing(Server):
        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:  # fmt: skip
            held = "response_format" in kwargs
            if held and "colour" not in str(messages):
                raise error
            said = '{"reply": "violet"}' if held else "Paris"
            return ChatResult(generations=[ChatGeneration(message=AIMessage(said))])

    model = Refusing(model="m", api_key=SecretStr("k"))
    found = ListRetriever(documents=[Document("Paris is the capital.", id="a")])
    graph = build_graph("self_eval", model=model, retriever=found)
    assert graph.invoke({"question": "What is France's capital?"})["answer"] == "Paris"


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_an_error_of_the_probe_does_not_show_the_models_key(mode: str) -> None:
    key = "house-of-keys-17"
    model = Server(model="m", api_key=SecretStr(key), said=RuntimeError(f"no access by {key}"))
    graph = build_graph("self_eval", model=model)
    given: Any = {"question": "What is France's capital?"}
    with pytest.raises(RuntimeError, match=r"no access by \*\*\*"):
        graph.invoke(given) if mode == "sync" else asyncio.run(graph.ainvoke(given))
    assert [list(one) for one in model.asked] == [["response_format", "max_tokens"]]


class Slow(Server):
    """A server that replies once it has been let go."""

    go: Any = Field(default_factory=threading.Event)

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:  # fmt: skip
        result = super()._generate(messages, stop, run_manager, **kwargs)
        self.go.wait(0.2)
        return result

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:  # fmt: skip
        for _ in range(20):
            await asyncio.sleep(0)
        return Server._generate(self, messages, stop, run_manager, **kwargs)


def slow(said: Any = '{"reply": "violet"}') -> Slow:
    return Slow(model="m", api_key=SecretStr("k"), said=said)


def test_callers_at_once_share_one_probe() -> None:
    model = slow()
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: offered_forms(model), range(8))) == [{"json_schema"}] * 8
    assert len(model.asked) == 1
    other = slow()

    async def all_ask() -> list[Any]:
        return await asyncio.gather(*(aoffered_forms(other) for _ in range(8)))

    assert asyncio.run(all_ask()) == [{"json_schema"}] * 8
    assert len(other.asked) == 1


async def test_those_who_wait_share_a_probes_error_but_not_its_cancellation() -> None:
    failing = slow(RefusedError(503))
    found = await asyncio.gather(
        *(aoffered_forms(failing) for _ in range(3)), return_exceptions=True
    )
    assert [type(one) for one in found] == [RefusedError] * 3
    assert len(failing.asked) == 1
    model = slow()
    first, second = (asyncio.ensure_future(aoffered_forms(model)) for _ in range(2))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    first.cancel()
    assert await second == {"json_schema"}
    assert first.cancelled()
