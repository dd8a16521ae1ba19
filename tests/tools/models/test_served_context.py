"""The context that an OpenAI-compatible server tells of, in the forms of vLLM and llama-server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from langchain_openai import ChatOpenAI
from pydantic import SecretStr
from tests.openai_server import OpenAIServer
from tests.scripted import ScriptedChat, documents

from ragweave import build_graph
from ragweave.nodes.model_context import context_of
from ragweave.tools.models import chat_model
from ragweave.tools.models.served_context import (
    alearn_context,
    learn_context,
    may_tell_context,
    served_context,
)

Pages = Mapping[str, Any]


class Site:
    """Answers GET from a table of pages; an int is a status, an error is raised."""

    def __init__(self, pages: Pages) -> None:
        self.pages, self.asked = dict(pages), []  # type: ignore[var-annotated]

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.path)
        page = self.pages.get(request.url.path, 404)
        if isinstance(page, Exception):
            raise page
        if isinstance(page, int):
            return httpx.Response(page, json={"error": {"message": "no"}})
        if isinstance(page, str):
            return httpx.Response(200, text=page)
        return httpx.Response(200, json=page)


def client(site: Site, name: str = "m", **settings: Any) -> ChatOpenAI:
    return ChatOpenAI(
        model=name,
        api_key=SecretStr("k"),
        base_url=settings.pop("base_url", "http://served.test/v1"),
        http_client=httpx.Client(transport=httpx.MockTransport(site)),
        http_async_client=httpx.AsyncClient(transport=httpx.MockTransport(site)),
        **settings,
    )


def learn(model: Any, mode: str) -> None:
    if mode == "async":
        asyncio.run(alearn_context(model))
    else:
        learn_context(model)


def listed(*entries: Any) -> Any:
    return {"object": "list", "data": list(entries)}


META = {"n_ctx_train": 131_072, "n_vocab": 9}
PROPS = {"default_generation_settings": {"n_ctx": 4096}, "total_slots": 2}
VLLM = {"id": "m", "max_model_len": 2048}

both = pytest.mark.parametrize("mode", ["sync", "async"])


@both
@pytest.mark.parametrize(
    ("pages", "context"),
    [
        ({"/v1/models": listed(VLLM)}, 2048),
        ({"/v1/models": listed({"id": "lora", "max_model_len": 9}, VLLM)}, 2048),
        ({"/v1/models": listed({"id": "a"}, {"id": "b", "max_model_len": 9})}, None),
        ({"/v1/models": listed({"id": "x.gguf", "meta": {**META, "n_ctx": 8192}})}, 8192),
        ({"/v1/models": listed({"id": "x.gguf", "meta": META}), "/props": PROPS}, 4096),
        ({"/v1/models": listed({"id": "x.gguf", "meta": META})}, None),
        ({"/v1/models": listed({"id": "x.gguf", "meta": META}), "/props": []}, None),
        ({"/v1/models": listed({"id": "m", "meta": None, "max_model_len": "9"})}, None),
        ({"/v1/models": listed({"id": "m", "max_model_len": True})}, None),
        ({"/v1/models": {"data": 7}}, None),
        ({"/v1/models": "<html>"}, None),
        ({}, None),
    ],
)
def test_a_server_is_asked_once(pages: Pages, context: int | None, mode: str) -> None:
    site = Site(pages)
    model = client(site)
    assert may_tell_context(model.bind(stop=["x"]))
    learn(model.bind(stop=["x"]), mode)
    assert served_context(model) == context_of(model.bind(stop=["x"])) == context
    assert not may_tell_context(model)
    assert site.asked[0] == "/v1/models"
    assert site.asked.count("/v1/models") == 1


@both
@pytest.mark.parametrize("fault", [503, 429, httpx.ConnectError("refused")])
def test_a_server_that_is_away_is_asked_again(fault: Any, mode: str) -> None:
    site = Site({"/v1/models": fault})
    model = client(site)
    learn(model, mode)
    assert (len(site.asked), served_context(model), may_tell_context(model)) == (1, None, True)
    site.pages["/v1/models"] = listed(VLLM)
    learn(model, mode)
    assert served_context(model) == 2048


@both
def test_a_server_that_keeps_one_waiting_is_not_asked_again(mode: str) -> None:
    site = Site({"/v1/models": httpx.ReadTimeout("no answer")})
    model = client(site)
    learn(model, mode)
    assert (len(site.asked), served_context(model), may_tell_context(model)) == (1, None, False)


def test_who_is_not_asked() -> None:
    site = Site({})
    for model in (
        ScriptedChat(),
        chat_model("extractive"),
        ChatOpenAI(model="m", api_key=SecretStr("k")),
        client(site, base_url="https://corp.openai.azure.com/openai/v1"),
        client(site, profile={"max_input_tokens": 900}),
        client(site, "gpt-4o"),
    ):
        assert not may_tell_context(model)


def test_two_models_of_a_server_have_a_context_each() -> None:
    site = Site({"/v1/models": listed(VLLM, {"id": "n", "max_model_len": 512})})
    one, other = client(site), client(site, "n")
    learn_context(one)
    learn_context(other)
    assert (served_context(one), served_context(other)) == (2048, 512)


@pytest.mark.loopback
@both
def test_passages_that_a_served_model_has_no_room_for_are_left_out(mode: str) -> None:
    given: Any = {"question": "Where?", "passages": documents(*("far away " * 300 for _ in "abcd"))}
    with OpenAIServer(["Paris"], listing={"max_model_len": 2600}) as server:
        model = ChatOpenAI(model="scripted", api_key=SecretStr("k"), base_url=server.base_url)
        graph = build_graph("concat", model=model)
        out = asyncio.run(graph.ainvoke(given)) if mode == "async" else graph.invoke(given)
        sent = server.requests[0].body["messages"][-1]["content"]
        assert (out["answer"], server.count) == ("Paris", 1)
    assert 0 < sent.count("<passage") < 4
