"""What a call costs, where its model's price is known."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.messages import AIMessage

from ragweave import build_graph
from ragweave.errors import UsageError
from ragweave.testing import ModelCall, ScriptedModel
from ragweave.tools.prices import VARIABLE, Price, price_of
from ragweave.tools.providers import chat_model
from ragweave.tools.replies import ReplyCache

GIVEN = {"question": "Where?", "passages": ["It is in Paris."]}


PARIS = AIMessage("Paris", usage_metadata={"input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100})


class Named(ScriptedModel):
    """A model with a name."""

    model_name: str = "house-model"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "prices.json"
    path.write_text(json.dumps({"house-model": [2, 10], "gpt-4o": [1, 1]}), "utf-8")
    monkeypatch.setenv(VARIABLE, str(path))
    return path


def test_usage_gives_dollars_if_the_price_is_known(table: Path) -> None:
    usage = build_graph("post_fusion", model=Named(script=[PARIS])).invoke(GIVEN)["usage"]
    assert usage["usd"] == pytest.approx(0.003)
    assert usage["priced_calls"] == usage["calls"] == 1


def test_usage_gives_none_if_it_is_not() -> None:
    assert "usd" not in build_graph("concat", model=Named(script=[PARIS])).invoke(GIVEN)["usage"]


def test_calls_without_a_price_are_not_counted_as_priced(table: Path) -> None:
    proxy = ScriptedModel(script=["Paris", "<Known(True)>"])
    usage = build_graph("slimplm", model=Named(script=[PARIS]), proxy=proxy).invoke({"question": "Where?"})["usage"]
    assert (usage["priced_calls"], usage["calls"]) == (1, 3)


def test_a_reply_out_of_a_cache_is_free(table: Path) -> None:
    graph = build_graph("concat", model=Named(script=[PARIS], cache=InMemoryCache()))
    usages = [graph.invoke(GIVEN)["usage"] for _ in range(2)]
    assert [usage["usd"] for usage in usages] == [pytest.approx(0.003), 0]
    assert [usage["priced_calls"] for usage in usages] == [1, 1]


def test_a_stored_reply_has_its_price_in_an_evaluation_alone(table: Path) -> None:
    for run, price in (("", 0), ("evaluation", pytest.approx(0.003))):
        cache = ReplyCache(table.with_name("replies.sqlite"), run=run)
        graph = build_graph("concat", model=cache.attach(Named(script=[PARIS]), "m"))
        usages = [asyncio.run(graph.ainvoke(GIVEN))["usage"] for _ in range(2)]
        assert usages[1]["usd"] == price


def test_a_fallback_has_a_price_of_its_own(table: Path) -> None:
    def fails(_call: ModelCall) -> str:
        raise ConnectionError("connection refused")

    model = Named(script=fails).with_fallbacks([Named(script=[PARIS], model_name="gpt-4o")])
    usage = build_graph("concat", model=model, max_cost_usd=1.0).invoke(GIVEN)["usage"]
    assert usage["usd"] == pytest.approx(0.0011)
    with pytest.raises(UsageError, match="the price of ScriptedModel"):
        build_graph("concat", model=model.with_fallbacks([ScriptedModel()]), max_cost_usd=1.0).invoke(GIVEN)


def test_openai_s_models_have_their_list_price(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("langchain_openai")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    key = "api_key=k"
    assert price_of(chat_model(f"openai:gpt-4o-mini?{key}")) == Price(0.15, 0.60)
    assert price_of(chat_model(f"openai:gpt-4o-mini-2024-07-18?{key}")) == Price(0.15, 0.60)
    assert price_of(chat_model(f"openai:gpt-4o-2024-08-06?{key}")) == Price(2.50, 10.00)
    assert price_of(chat_model(f"openai:gpt-4o-2024-05-13?{key}")) == Price(5.00, 15.00)
    assert price_of(chat_model(f"openai:gpt-unheard-of?{key}")) is None
    for base in ("https://api.openai.com/v1", "https://api.openai.com", "https://API.openai.com/"):
        at = f"openai:gpt-4o-mini?{key}&base_url={base}"
        assert price_of(chat_model(at)) == Price(0.15, 0.60)
    for base in ("http://localhost:1/v1", "https://api.openai.com.example.org/v1"):
        assert price_of(chat_model(f"openai:gpt-4o-mini?{key}&base_url={base}")) is None


def test_azure_has_prices_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    azure = pytest.importorskip("langchain_openai").AzureChatOpenAI
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    model = azure(
        azure_endpoint="https://corp.openai.azure.com",
        azure_deployment="d",
        model="gpt-4o",
        api_key="k",
        api_version="2024-06-01",
    )
    assert price_of(model) is None


def test_a_table_of_one_s_own_comes_first(table: Path) -> None:
    pytest.importorskip("langchain_openai")
    assert price_of(chat_model("openai:gpt-4o?api_key=k")) == Price(1.0, 1.0)


@pytest.mark.parametrize("text", ["{", '{"a": [1]}', '{"a": [-1, 2]}'])
def test_a_damaged_table_is_one_clear_line(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "prices.json"
    path.write_text(text, "utf-8")
    monkeypatch.setenv(VARIABLE, str(path))
    with pytest.raises(UsageError, match=r"prices\.json: "):
        price_of(Named())
