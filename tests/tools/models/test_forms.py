"""Which models can hold a reply to a form."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_openai import ChatOpenAI
from pydantic import Field, SecretStr
from tests.scripted import ScriptedChat

from ragweave.tools.models import aoffered_forms, chat_model, offered_forms


class RefusedError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
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


def test_a_llama_cpp_model_offers_both_and_others_none(tmp_path: Path) -> None:
    pytest.importorskip("gguf", reason="writing a test model needs the gguf package")
    import tiny_gguf

    local = chat_model(f"llamacpp:{tiny_gguf.write(tmp_path / 'm.gguf')}")
    assert offered_forms(local) == {"grammar", "json_schema"}
    assert offered_forms(chat_model("extractive")) == set()
    scripted = ScriptedChat()
    assert offered_forms(scripted) == set()
    assert scripted.seen == []
