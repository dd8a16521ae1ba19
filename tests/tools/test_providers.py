"""Model specs: every form, what is refused, and that no secret is shown."""

from __future__ import annotations

import pytest
from langchain_core.language_models import FakeListLLM
from tests.openai_server import OpenAIServer

from ragweave import chat_model
from ragweave.errors import MissingExtraError, ModelError, UsageError
from ragweave.testing import ScriptedModel
from ragweave.tools.models.extractive import ExtractiveChat
from ragweave.tools.providers import read_settings

SECRET = "sk-very-secret"


def test_a_model_is_taken_as_it_is() -> None:
    model = ScriptedModel(script=["Ada"])
    assert chat_model(model) is model
    bound = model.bind(stop=["x"])
    assert chat_model(bound) is bound


def test_what_is_no_chat_model_is_refused() -> None:
    with pytest.raises(UsageError, match="a model must be a LangChain chat model or a spec"):
        chat_model(5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"FakeListLLM.* completes texts, but a chat model"):
        chat_model(FakeListLLM(responses=["Varn"]))  # type: ignore[arg-type]


def test_settings_are_typed() -> None:
    assert read_settings("a=1&b=1.5&c=true&d=text&f=null&h=x%20y&stop=a&stop=b&api_key=1") == {
        "a": 1,
        "b": 1.5,
        "c": True,
        "d": "text",
        "f": None,
        "h": "x y",
        "stop": ["a", "b"],
        "api_key": "1",
    }
    assert read_settings("chat_template_kwargs.enable_thinking=false") == {
        "chat_template_kwargs": {"enable_thinking": False}
    }
    assert read_settings('stop=["a","b"]&model_kwargs={"user":"me"}') == {
        "stop": ["a", "b"],
        "model_kwargs": {"user": "me"},
    }


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("extractive:big", "write extractive, and settings after"),
        ("extractive?colour=blue", "has no setting 'colour'"),
        ("openai:", "write openai:NAME"),
        ("openai:m?base_url=localhost:8000", "base_url must begin with http"),
        ("openai:m?colour=blue&api_key=x", "has no setting 'colour'"),
        ("openai:m?a=1&a.b=2", "a is 1 and cannot have an entry, b"),
        ("gpt-4o-mini", "openai:gpt-4o-mini"),
        ("gtp", "unknown model 'gtp'"),
        ("./no-such-folder", "no-such-folder: not a folder"),
        *((spec, "/no-such.gguf") for spec in ("llamacpp:no-such.gguf", "no-such.gguf", "./no-such.gguf")),
    ],
)
def test_a_wrong_spec_is_one_line(spec: str, words: str) -> None:
    with pytest.raises((UsageError, ModelError), match=words) as caught:
        chat_model(spec)
    assert "\n" not in str(caught.value)


def test_extractive_is_the_default() -> None:
    assert isinstance(chat_model(" extractive "), ExtractiveChat)


def test_openai_needs_a_key_or_an_address() -> None:
    with pytest.raises(ModelError, match="no OpenAI key: set OPENAI_API_KEY"):
        chat_model("openai:gpt-4o-mini")


@pytest.mark.loopback
def test_a_server_by_address_needs_no_key() -> None:
    with OpenAIServer(["Paris"]) as server:
        model = chat_model(f"openai:org/model?base_url={server.base_url}&max_tokens=50&top_k=3&thinking=false")
        assert model.invoke("Where?").text == "Paris"
        body, headers = server.requests[0].body, server.requests[0].headers
    assert (body["model"], body["max_tokens"], body["top_k"]) == ("org/model", 50, 3)
    assert body["chat_template_kwargs"]["enable_thinking"] is False
    assert "temperature" not in body
    assert headers["authorization"] == "Bearer none"


@pytest.mark.parametrize("spec", ["openai:m?temperature=hot&api_key={}", "zzz:m?api_key={}"])
def test_no_error_shows_a_secret(spec: str) -> None:
    with pytest.raises((UsageError, ModelError)) as caught:
        chat_model(spec.format(SECRET))
    assert SECRET not in str(caught.value)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(MissingExtraError, match=r"ragweave\[openai\]"):
        chat_model("openai:gpt-4o-mini")
    with pytest.raises(MissingExtraError, match=r"ragweave\[hf\]"):
        chat_model("hf:model")
