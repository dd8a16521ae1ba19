"""The reply limit of a spec or a binding holds where a step asks for more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.outputs import ChatResult
from tests.scripted import ListRetriever, Said, ScriptedChat

from ragweave import build_graph
from ragweave.nodes.model_context import context_of
from ragweave.tools.models import ChatModel, chat_model, reply_limit, within_limit
from ragweave.tools.models.thinking import THINKING_TOKENS
from ragweave.training.labels.judge import JudgeLabeler
from ragweave.training.labels.models import Drafter


class Limited(ScriptedChat):
    max_tokens: int | None = 1024


class Ollama(ScriptedChat):
    """Takes the settings of a call in one table, as Ollama's clients do."""

    num_predict: int | None = None
    num_ctx: int | None = None
    top_p: float | None = None
    stop: list[str] | None = None


class Google(ScriptedChat):
    max_output_tokens: int | None = None


def openai(limit: str = "") -> ChatModel:
    return chat_model(f"openai:m?base_url=http://localhost:1/v1{limit}")


def test_only_a_wish_counts_as_a_limit() -> None:
    assert reply_limit(Limited()) is None
    assert reply_limit(Limited(max_tokens=60)) == 60
    assert reply_limit(Limited(max_tokens=60).bind(max_tokens=20).bind(stop=["x"])) == 20
    assert reply_limit(openai()) is None
    assert reply_limit(openai("&max_tokens=60")) == 60
    assert reply_limit(ScriptedChat()) is None


def test_the_lower_limit_counts() -> None:
    assert within_limit(Limited(max_tokens=60), {"max_tokens": 512}) == {"max_tokens": 60}
    assert within_limit(Limited(max_tokens=60), {"max_tokens": 20}) == {"max_tokens": 20}
    assert within_limit(Limited(max_tokens=60), {"top_p": 0.5}) == {"top_p": 0.5}
    assert within_limit(Limited(), {"max_tokens": 512}) == {"max_tokens": 512}


@pytest.mark.parametrize(
    ("make", "limit"),
    [
        (lambda: Limited(max_tokens=60), 60),
        (lambda: Limited(), 256),
        (lambda: Limited(max_tokens=2000), 256),
    ],
)
def test_a_draft_keeps_to_the_proxys_limit(make: Callable[[], Limited], limit: int) -> None:
    proxy = make()
    model = ScriptedChat(replies=["Unknown"])
    retriever = ListRetriever(documents=[Document("A text.", id="a")])
    roles = {"model": model, "proxy": proxy, "judge": model, "rewriter": model}
    build_graph("slimplm", retriever=retriever, **roles).invoke({"question": "Who?"})
    assert proxy.seen[0].settings["max_tokens"] == limit


def drafted(proxy: ChatModel, seen: ScriptedChat) -> dict[str, Any]:
    """Return the settings that the proxy's draft is asked for with."""
    model = ScriptedChat(replies=["Unknown"])
    retriever = ListRetriever(documents=[Document("A text.", id="a")])
    roles = {"model": model, "proxy": proxy, "judge": model, "rewriter": model}
    build_graph("slimplm", retriever=retriever, **roles).invoke({"question": "Who?"})
    return seen.seen[0].settings


def test_a_limit_is_sent_by_the_models_own_name_alone() -> None:
    google = Google()
    sent = drafted(google, google)
    assert sent == {"temperature": 0.01, "top_p": 0.85, "max_output_tokens": 256}


def test_ollamas_settings_are_one_table_with_the_models_own() -> None:
    sampling = {"temperature": 0.01, "top_p": 0.85}
    plain = Ollama()
    assert drafted(plain, plain) == {"options": {**sampling, "num_predict": 256}}
    own = Ollama(num_ctx=8192, num_predict=60, temperature=0.7, stop=["END"])
    table = {**sampling, "num_predict": 60, "num_ctx": 8192, "stop": ["END"]}
    assert drafted(own, own) == {"options": table}
    bound = Ollama(num_ctx=8192)
    sent = drafted(bound.bind(options={"num_ctx": 1024, "seed": 3}), bound)
    assert sent == {"options": {**sampling, "num_predict": 256, "num_ctx": 1024, "seed": 3}}


def test_a_model_that_hands_over_no_thoughts_gets_room_for_them() -> None:
    """Ollama's client leaves thoughts out, and an answer that they cut off is empty."""

    class Thinks(Ollama):
        def _result(self, said: Said) -> ChatResult:
            result = super()._result(said)
            reason = "stop" if said else "length"
            result.generations[0].message.response_metadata = {"done_reason": reason}
            return result

    model = Thinks(replies=["", "Ada"])
    given = {"question": "Who?", "passages": ["Ada built it."]}
    graph = build_graph("concat", model=model)
    out = graph.invoke(given)
    assert (out["answer"], out["usage"]["calls"]) == ("Ada", 2)
    graph.invoke(given)
    first, *later = [seen.settings["options"]["num_predict"] for seen in model.seen]
    assert later == [first + THINKING_TOKENS] * 2


def test_ollamas_context_is_the_one_that_it_is_set_to() -> None:
    assert context_of(Ollama()) is None
    assert context_of(Ollama(num_ctx=4096)) == 4096
    assert context_of(Ollama(num_ctx=4096, profile={"max_input_tokens": 1000})) == 1000
    assert context_of(Ollama(num_ctx=4096).bind(options={"num_ctx": 1024})) == 1024
    assert context_of(Ollama(num_ctx=4096).bind(options={"seed": 3})) is None
    assert context_of(Limited()) is None


def test_passages_are_dropped_where_ollamas_context_does_not_hold_them() -> None:
    model = Ollama(num_ctx=2048, replies=["Ada"])
    passages = [Document(f"{word} " * 500, id=word) for word in ("one", "two", "three", "four")]
    build_graph("concat", model=model).invoke({"question": "Who?", "passages": passages})
    assert 0 < len(model.seen[0].passages) < 4


def test_ollamas_stop_sequences_stand_in_its_table() -> None:
    model = Ollama(replies=["Finish[Ada]"], stop=["END"])
    retriever = ListRetriever(documents=[Document("A text.", id="a")])
    build_graph("react", model=model, retriever=retriever).invoke({"question": "Who?"})
    table = {"num_predict": 128, "stop": ["END", "\nObservation"]}
    assert model.seen[0].settings == {"options": table}


async def test_labelling_keeps_to_the_proxys_limit_and_writes_it_down() -> None:
    proxy = Limited(max_tokens=60, replies=["a draft"])

    class Item:
        text, question = "Who?", None

    assert await Drafter(proxy).draft(Item()) == {"text": "a draft"}  # type: ignore[arg-type]
    assert proxy.seen[0].settings["max_tokens"] == 60
    told: dict[str, Any] = JudgeLabeler(proxy=proxy, proxy_spec="m").settings()
    assert told["draft_settings"]["max_tokens"] == 60


def test_a_local_model_keeps_to_its_specs_limit(tmp_path: Path) -> None:
    pytest.importorskip("gguf", reason="writing a test model needs the gguf package")
    import tiny_gguf

    path = tiny_gguf.write(tmp_path / "m.gguf")
    assert reply_limit(chat_model(f"llamacpp:{path}?max_tokens=60")) == 60
    assert reply_limit(chat_model(f"llamacpp:{path}")) is None
