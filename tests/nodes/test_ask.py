"""The model step: one body sync and async, roles, ledger, retries, budget, streaming."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import httpx
import openai
import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_openai import ChatOpenAI
from langgraph.types import RetryPolicy
from pydantic import Field, SecretStr
from tests.openai_server import Answer, BrokenJson, Drop, Hang, HttpFault, OpenAIServer, Reply
from tests.scripted import ListRetriever, ScriptedChat, Seen, SyncScriptedChat, documents

from ragweave import build_graph
from ragweave.errors import ModelError, PromptTooLongError, UsageError
from ragweave.graphs import CompiledGraph
from ragweave.nodes.model_context import context_of
from ragweave.state import RAGInput
from ragweave.tools.bindings import unbound
from ragweave.tools.models import Models, is_transient
from ragweave.tools.models.llamacpp import LlamaCppChat
from ragweave.tools.models.roles import Role
from ragweave.trained.huggingface_chat import HuggingFaceChat

QUESTION: RAGInput = {
    "question": "Where is the Louvre?",
    "passages": documents("It is in Paris.", "b"),
}
QUICK = RetryPolicy(
    initial_interval=0.001, max_interval=0.002, max_attempts=3, jitter=False, retry_on=is_transient
)


def paris(seen: Seen) -> str:
    return "Paris" if any("Paris" in text for text in seen.passages) else "Unknown"


async def run(graph: CompiledGraph, mode: str, given: Any = QUESTION) -> Any:
    return await graph.ainvoke(given) if mode == "async" else graph.invoke(given)


both = pytest.mark.parametrize("mode", ["sync", "async"])


# -- one body, sync and async ------------------------------------------------------------------


@pytest.mark.parametrize("method", ["concat", "post_fusion", "concat_pf", "pf_concat"])
@pytest.mark.parametrize("kind", [ScriptedChat, SyncScriptedChat])
async def test_sync_and_async_give_the_same(method: str, kind: type[SyncScriptedChat]) -> None:
    graph = build_graph(method, model=kind(replies=paris, usage=(11, 1)))
    assert graph.invoke(QUESTION) == await graph.ainvoke(QUESTION)


@both
async def test_a_models_own_error_reaches_the_caller(mode: str) -> None:
    graph = build_graph("concat", model=ScriptedChat(replies=[LookupError("no such thing")]))
    with pytest.raises(LookupError, match="no such thing"):
        await run(graph, mode)


# -- roles -------------------------------------------------------------------------------------


@both
async def test_a_reply_that_is_no_message_is_a_usage_error(mode: str) -> None:
    model: Any = ScriptedChat(replies=["Paris"]) | StrOutputParser()
    graph = build_graph("concat", model=model)
    with pytest.raises(UsageError, match="replied with a text, and not with a message"):
        await run(graph, mode)


def test_roles_fall_back() -> None:
    answer, proxy, judge = (ScriptedChat(replies=[name]) for name in ("a", "p", "j"))
    roles: list[Role] = ["answer", "proxy", "judge", "rewrite", "filter"]

    def who(models: Models) -> list[Any]:
        return [models.by_role(role) for role in roles]

    assert all(one is answer for one in who(Models(answer=answer)))
    expected = [answer, proxy, proxy, proxy, answer]
    assert all(
        a is b for a, b in zip(who(Models(answer=answer, proxy=proxy)), expected, strict=True)
    )
    all_three = Models(answer=answer, proxy=proxy, judge=judge, filter=proxy)
    assert [all_three.by_role(role) for role in ("judge", "rewrite", "filter")] == [
        judge,
        proxy,
        proxy,
    ]


def test_calls_are_labelled_with_role_and_node() -> None:
    labels: list[Any] = []

    class Labelled(ScriptedChat):
        def _generate(
            self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
        ) -> Any:
            labels.append((run_manager.tags, run_manager.metadata))
            return super()._generate(messages, stop, run_manager, **kwargs)

    build_graph("concat", model=Labelled(replies=paris)).invoke(QUESTION, {"tags": ["mine"]})
    tags, metadata = labels[0]
    assert {"role:answer", "mine"} <= set(tags)
    assert metadata["ragweave_node"] == "concat"
    assert metadata["ragweave_role"] == "answer"


FOUND = ListRetriever(documents=documents("It is in Paris."))


class Seeded(ScriptedChat):
    """A model with a seed, which a call may replace."""

    takes_seed: ClassVar[bool] = True
    seed: int | None = None
    temperature: float = 0.0


def seeds(model: Any, method: Any = "concat", **options: Any) -> list[Any]:
    """Return the seeds of a method's calls, as the model got them."""
    target = unbound(model)
    graph = build_graph(method, model=model, retriever=FOUND, **options)
    graph.invoke({"question": "Where is the Louvre?"})
    return sorted((one.settings.get("seed") for one in target.seen), key=str)


@pytest.mark.parametrize("gate", ["variance", "dissimilarity"])
def test_each_sample_of_a_seeded_model_has_a_seed_of_its_own(gate: str) -> None:
    assert seeds(Seeded(seed=7), samples=3) == [8, 9, None]
    assert seeds(Seeded().bind(seed=7), samples=3) == [7, 8, 9]
    assert seeds(ScriptedChat().bind(seed=0), samples=2) == [0, 1]
    assert seeds(Seeded(seed=7), "uncertainty_gate", gate=gate)[:2] == [8, 9]


@pytest.mark.parametrize(
    ("model", "warm"),
    [
        (ScriptedChat(temperature=0.0), 1.0),
        (ScriptedChat(temperature=0.3).bind(temperature=0), 1.0),
        (ScriptedChat(temperature=0.3), None),
        (ScriptedChat(temperature=0.0).bind(temperature=0.3), 0.3),
        (ScriptedChat(), None),
    ],
)
def test_a_nucleus_warms_a_greedy_model_alone(model: Any, warm: float | None) -> None:
    graph = build_graph("concat", model=model, retriever=FOUND, top_p=0.9)
    graph.invoke({"question": "Where is the Louvre?"})
    (seen,) = unbound(model).seen
    assert (seen.settings.get("temperature"), seen.settings["top_p"]) == (warm, 0.9)


def test_no_seed_is_sent_where_nothing_is_drawn_or_none_was_set() -> None:
    assert seeds(Seeded(seed=7)) == [None]
    assert seeds(Seeded(seed=7), samples=2, sample_temperature=0.0) == [None, None]
    assert seeds(Seeded(), samples=2) == [None, None]

    class Other(ScriptedChat):
        seed: int | None = None

    assert seeds(Other(seed=7), samples=2) == [None, None]


def test_the_models_that_take_a_seed_for_a_call_say_so() -> None:
    class Hosted(ChatOpenAI):
        seen: list[Any] = Field(default_factory=list)

        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:  # fmt: skip
            self.seen.append(Seen(messages, None, kwargs))
            return ChatResult(generations=[ChatGeneration(message=AIMessage("Paris"))])

    assert seeds(Hosted(model="m", api_key=SecretStr("none"), seed=7), samples=2) == [8, None]
    for name in ("o3", "gpt-5"):  # they draw without a temperature
        hosted = Hosted(model=name, api_key=SecretStr("none"), seed=7)
        assert seeds(hosted, samples=2) == [8, None]
    assert HuggingFaceChat.takes_seed and LlamaCppChat.takes_seed


class Ollama(ScriptedChat):
    """Takes the settings of a call in one table, its seed too."""

    num_predict: int | None = None
    seed: int | None = None


class Mistral(ScriptedChat):
    random_seed: int | None = None


def test_a_calls_seed_is_sent_as_the_model_takes_it() -> None:
    given: RAGInput = {"question": "Where is the Louvre?", "passages": documents("In Paris.")}
    for model, target in (
        (own := Ollama(seed=7), own),
        ((bound := Ollama()).bind(options={"seed": 7}), bound),
    ):
        build_graph("concat", model=model, samples=3).invoke(given)
        assert sorted(one.settings["options"]["seed"] for one in target.seen) == [7, 8, 9]
    mistral = Mistral(random_seed=7)
    build_graph("concat", model=mistral, samples=2).invoke(given)
    sent = [one.settings.get("random_seed") for one in mistral.seen]
    assert sorted(sent, key=str) == [8, None]


# -- a cache of replies ------------------------------------------------------------------------


@both
async def test_a_cache_keeps_the_samples_of_a_prompt_apart(mode: str) -> None:
    model = ScriptedChat(replies=["Rome", "Paris", "Paris"], cache=InMemoryCache())
    graph = build_graph("concat", model=model, samples=3)
    assert (await run(graph, mode))["answer"] == "Paris"
    assert (await run(graph, mode))["answer"] == "Paris"
    assert len(model.seen) == 3


@both
async def test_a_gate_over_samples_compares_several_behind_a_cache(mode: str) -> None:
    model = ScriptedChat(replies=["Ada", "Bob", "Cleo", "Paris"], cache=InMemoryCache())
    graph = build_graph("uncertainty_gate", model=model, retriever=FOUND, gate="variance")
    out = await run(graph, mode, {"question": "Where is the Louvre?"})
    assert (out["answer"], len(out["passages"])) == ("Paris", 1)


def test_a_sample_that_draws_nothing_has_no_number() -> None:
    for warm, numbers in ((None, [1, None]), (0.0, [None, None])):
        model = ScriptedChat(replies=["Paris"])
        options = {} if warm is None else {"sample_temperature": warm}
        build_graph("concat", model=model, samples=2, **options).invoke(QUESTION)
        found = [(one.task or {}).get("sample") for one in model.seen]
        assert sorted(found, key=str) == numbers


# -- the ledger --------------------------------------------------------------------------------


@both
async def test_usage_is_the_providers(mode: str) -> None:
    graph = build_graph("post_fusion", model=ScriptedChat(replies=paris, usage=(11, 2)))
    usage = (await run(graph, mode))["usage"]
    spent = {"calls": 2, "input_tokens": 22, "output_tokens": 4}
    assert usage == {
        **spent,
        "estimated": False,
        "retrievals": 0,
        "by_role": {"answer": spent},
        "by_node": {"post_fusion": spent},
    }


def test_usage_is_estimated_and_marked_where_none_is_reported() -> None:
    usage = build_graph("concat", model=ScriptedChat(replies=paris)).invoke(QUESTION)["usage"]
    assert usage["estimated"] is True
    assert usage["calls"] == 1
    assert usage["input_tokens"] > 20
    assert usage["output_tokens"] == 2


def test_one_silent_model_marks_the_whole_ledger() -> None:
    model = ScriptedChat(replies=["Unknown"], usage=(1, 1))
    graph = build_graph("concat_pf", model=model)
    assert graph.invoke(QUESTION)["usage"]["estimated"] is False
    silent = ScriptedChat(replies=["Unknown"])
    assert build_graph("concat_pf", model=silent).invoke(QUESTION)["usage"]["estimated"] is True


def test_usage_by_node() -> None:
    graph = build_graph("concat_pf", model=ScriptedChat(replies=["Unknown"], usage=(5, 1)))
    usage = graph.invoke(QUESTION)["usage"]
    assert {name: one["calls"] for name, one in usage["by_node"].items()} == {
        "concat": 1,
        "post_fusion": 2,
    }
    assert sum(one["input_tokens"] for one in usage["by_node"].values()) == usage["input_tokens"]


# -- retries, through the real client ----------------------------------------------------------


def client(server: OpenAIServer, **settings: Any) -> ChatOpenAI:
    own = {"model": "m", "base_url": server.base_url, "api_key": "none", "max_retries": 0}
    return ChatOpenAI(**{**own, **settings})


@pytest.mark.loopback
@both
@pytest.mark.parametrize(
    "error",
    [
        HttpFault(429),
        HttpFault(429, retry_after=0.01),
        HttpFault(408),
        HttpFault(500),
        HttpFault(503),
        Hang(),
        Drop(),
    ],
    ids=repr,
)
async def test_a_transient_error_is_tried_again(error: Answer, mode: str) -> None:
    with OpenAIServer([error, error, Reply("Paris", usage=(7, 1))]) as server:
        graph = build_graph("concat", model=client(server, timeout=0.3), retry_policy=QUICK)
        out = await run(graph, mode)
        assert server.count == 3
    assert out["answer"] == "Paris"
    assert out["usage"]["calls"] == 1


@pytest.mark.loopback
@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("own", ["END", ["END", "DONE"]])
def test_a_step_adds_its_stop_sequences_to_the_models_own(own: Any, bound: bool) -> None:
    with OpenAIServer(["Thought: I know.\nAction: Finish[Paris]"]) as server:
        model = client(server).bind(stop=own) if bound else client(server, stop=own)
        build_graph("react", model=model, retriever=ListRetriever()).invoke(QUESTION)
        named = [own] if isinstance(own, str) else own
        assert server.requests[0].body["stop"] == ["\nObservation", *named]


@pytest.mark.loopback
@both
async def test_a_stream_cut_half_way_is_tried_again(mode: str) -> None:
    with OpenAIServer([Drop(after=3), "Paris"]) as server:
        graph = build_graph("concat", model=client(server, streaming=True), retry_policy=QUICK)
        assert (await run(graph, mode))["answer"] == "Paris"
        assert server.count == 2


@pytest.mark.loopback
@both
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (HttpFault(400), openai.BadRequestError),
        (HttpFault(401), openai.AuthenticationError),
        (HttpFault(403), openai.PermissionDeniedError),
        (HttpFault(404), openai.NotFoundError),
        (HttpFault(422), openai.UnprocessableEntityError),
        (BrokenJson(), ValueError),
    ],
)
async def test_a_lasting_error_is_not(error: Answer, kind: type[Exception], mode: str) -> None:
    with OpenAIServer([error, "Paris"]) as server:
        graph = build_graph("concat", model=client(server), retry_policy=QUICK)
        with pytest.raises(kind):
            await run(graph, mode)
        assert server.count == 1


LONG_AT_VLLM = (
    "This model's maximum context length is 512 tokens. However, you requested 700 tokens (600 in "
    "the messages, 100 in the completion). Please reduce the length of the messages or completion."
)


@pytest.mark.loopback
@both
@pytest.mark.parametrize("status", [400, 413])
async def test_a_prompt_that_the_server_finds_too_long(status: int, mode: str) -> None:
    error = HttpFault(status, message=LONG_AT_VLLM)
    with OpenAIServer(["<passage 1>", error]) as server:
        graph = build_graph("concat", model=client(server), retry_policy=QUICK)
        out = await run(graph, mode)
        assert (out["answer"], out["usage"]["calls"], server.count) == ("Unknown", 1, 3)
        with pytest.raises(PromptTooLongError, match=r"set prompt_tokens.*maximum context length"):
            await run(graph, mode)
        assert server.count == 5


@pytest.mark.loopback
@both
async def test_what_only_the_server_finds_too_long_is_asked_with_fewer_passages(mode: str) -> None:
    def script(body: dict[str, Any]) -> Answer:
        asked = body["messages"][-1]["content"]
        return HttpFault(400, message=LONG_AT_VLLM) if asked.count("<passage ") > 2 else "Paris"

    given = {"question": "Where?", "passages": [f"Fact {number}." for number in range(5)]}
    with OpenAIServer(script) as server:
        graph = build_graph("concat", model=client(server), retry_policy=QUICK)
        out = await run(graph, mode, given)
        assert (out["answer"], out["usage"]["calls"], server.count) == ("Paris", 1, 4)
        assert [one.page_content for one in out["passages"]] == ["Fact 0.", "Fact 1."]
        (note,) = notes(graph, given)
        assert note["event"] == "passages_dropped"
        assert (note["detail"]["kept"], len(note["detail"]["dropped"])) == (2, 3)


HELD = {
    "type": "json_schema",
    "json_schema": {"name": "reply", "schema": {"type": "object"}, "strict": True},
}


@pytest.mark.loopback
@both
@pytest.mark.parametrize("settings", [{}, {"response_format": HELD}], ids=["free", "held"])
async def test_an_error_in_a_reply_of_status_200(settings: dict[str, Any], mode: str) -> None:
    busy = BrokenJson(json.dumps({"error": {"message": "slow down", "code": 429}}))
    with OpenAIServer([busy, "Paris"]) as server:
        graph = build_graph("concat", model=client(server).bind(**settings), retry_policy=QUICK)
        assert (await run(graph, mode))["answer"] == "Paris"
        assert server.count == 2


@pytest.mark.loopback
@both
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"error": {"message": "no provider", "code": 404}}, "no provider"),
        ({"id": "x", "choices": None}, "no reply that can be read"),
    ],
)
async def test_what_no_client_can_read_is_a_model_error(
    body: dict[str, Any], said: str, mode: str
) -> None:
    with OpenAIServer([BrokenJson(json.dumps(body))]) as server:
        model = client(server).bind(response_format=HELD)
        with pytest.raises(ModelError, match=said):
            await run(build_graph("concat", model=model, retry_policy=QUICK), mode)
        assert server.count == 1


@pytest.mark.loopback
def test_retries_end() -> None:
    with OpenAIServer([HttpFault(503)]) as server:
        graph = build_graph("concat", model=client(server), retry_policy=QUICK)
        with pytest.raises(openai.InternalServerError):
            graph.invoke(QUESTION)
        assert server.count == QUICK.max_attempts


@pytest.mark.loopback
def test_one_failing_branch_is_tried_again_alone() -> None:
    failed: list[str] = []

    def script(body: dict[str, Any]) -> Answer:
        text = body["messages"][-1]["content"]
        if "Paris" in text and not failed:
            failed.append(text)
            return HttpFault(503)
        return "Paris" if "Paris" in text else "Unknown"

    with OpenAIServer(script) as server:
        graph = build_graph("post_fusion", model=client(server), retry_policy=QUICK)
        out = graph.invoke(QUESTION)
        assert server.count == 3
    assert out["answer"] == "Paris"
    assert out["usage"]["calls"] == 2


def test_the_default_policy_tries_transient_errors_alone() -> None:
    policy = Models(answer=ScriptedChat()).retry
    assert policy.max_attempts == 3
    assert policy.retry_on is is_transient


# -- the prompt's budget -----------------------------------------------------------------------

LONG = documents(*(f"{name} " * 100 for name in ("alpha", "beta", "gamma")))


def notes(graph: CompiledGraph, given: Any, **settings: Any) -> list[Any]:
    updates = graph.stream(given, stream_mode="updates", **settings)
    return [
        one
        for step in updates
        for update in step.values()
        if isinstance((update or {}).get("notes"), list)
        for one in update["notes"]
    ]


@both
async def test_passages_are_dropped_from_the_lowest_rank_up(mode: str) -> None:
    model = ScriptedChat(replies=["Paris"])
    graph = build_graph("concat", model=model, prompt_tokens=500)
    out = await run(graph, mode, {"question": "Where?", "passages": LONG})
    assert [text.split()[0] for text in model.seen[0].passages] == ["alpha", "beta"]
    assert "gamma" not in model.seen[0].text
    assert out["candidates"]["concat:0"]["passages"] == ["p0", "p1"]


def test_the_trace_says_what_was_dropped() -> None:
    graph = build_graph("concat", model=ScriptedChat(replies=["Paris"]), prompt_tokens=500)
    (note,) = notes(graph, {"question": "Where?", "passages": LONG})
    assert (note["node"], note["event"]) == ("concat", "passages_dropped")
    assert note["detail"] == {"dropped": ["p2"], "kept": 2}


def test_the_models_own_context_is_the_budget() -> None:
    model = ScriptedChat(replies=["Paris"], profile={"max_input_tokens": 1012})
    assert context_of(model) == context_of(model.bind(stop=["x"])) == 1012
    build_graph("concat", model=model).invoke({"question": "Where?", "passages": LONG})
    assert len(model.seen[0].passages) == 2
    build_graph("concat", model=model, reply_tokens=100).invoke({"question": "?", "passages": LONG})
    assert len(model.seen[1].passages) == 3


def test_a_model_of_unknown_context_gets_everything() -> None:
    model = ScriptedChat(replies=["Paris"])
    assert context_of(model) is None
    build_graph("concat", model=model).invoke({"question": "Where?", "passages": LONG})
    assert len(model.seen[0].passages) == 3


def test_where_no_passage_fits_the_model_is_not_asked() -> None:
    model = ScriptedChat(replies=["Paris"])
    graph = build_graph("post_fusion", model=model, prompt_tokens=150)
    given = {"question": "Where?", "passages": [LONG[0], "It is in Paris."]}
    out = graph.invoke(given)
    assert [text[:5] for text in (one.passages[0] for one in model.seen)] == ["It is"]
    assert out["answer"] == "Paris"
    assert out["usage"]["calls"] == 1
    assert [one["event"] for one in notes(graph, given)] == ["passages_dropped"]


@both
async def test_a_question_that_does_not_fit_is_a_usage_error(mode: str) -> None:
    graph = build_graph("direct", model=ScriptedChat(), prompt_tokens=20)
    with pytest.raises(UsageError, match="shorten the question or raise prompt_tokens"):
        await run(graph, mode, {"question": "why " * 100})


# -- replies -----------------------------------------------------------------------------------


@pytest.mark.parametrize("said", ["", "  \n"])
def test_an_empty_reply_is_unknown_and_noted(said: str) -> None:
    graph = build_graph("concat", model=ScriptedChat(replies=[said]))
    assert graph.invoke(QUESTION)["status"] == "unknown"
    assert [one["event"] for one in notes(graph, QUESTION)] == ["empty_reply"]


def test_a_reply_in_content_blocks_is_read() -> None:
    class Blocks(ScriptedChat):
        def _result(self, said: Any) -> Any:
            result = super()._result(said)
            result.generations[0].message.content = [{"type": "text", "text": said}]
            return result

    graph = build_graph("concat", model=Blocks(replies=["Paris"]))
    assert graph.invoke(QUESTION)["answer"] == "Paris"


# -- streaming and batches ---------------------------------------------------------------------


def test_stream_gives_tokens() -> None:
    graph: Any = build_graph("concat", model=ScriptedChat(replies=["It is Paris"]))
    tokens = [chunk.text for chunk, _ in graph.stream(QUESTION, stream_mode="messages")]
    assert [one for one in tokens if one] == ["It", " is", " Paris"]


async def test_astream_gives_tokens_and_their_node() -> None:
    graph: Any = build_graph("concat", model=ScriptedChat(replies=["It is Paris"]))
    seen = [
        (chunk.text, meta["ragweave_node"])
        async for chunk, meta in graph.astream(QUESTION, stream_mode="messages")
    ]
    assert [one for one in seen if one[0]] == [
        ("It", "concat"),
        (" is", "concat"),
        (" Paris", "concat"),
    ]


@pytest.mark.loopback
async def test_tokens_of_a_real_client_stream() -> None:
    with OpenAIServer([Reply("It is Paris", usage=(9, 3))]) as server:
        graph: Any = build_graph("concat", model=client(server, stream_usage=True))
        tokens, last = [], None
        async for kind, chunk in graph.astream(QUESTION, stream_mode=["messages", "values"]):
            if kind == "messages":
                tokens.append(chunk[0].text)
            else:
                last = chunk
        assert server.requests[0].body["stream"] is True
    assert [one for one in tokens if one] == ["It", " is", " Paris"]
    assert last is not None
    assert last["answer"] == "It is Paris"
    assert (last["usage"]["input_tokens"], last["usage"]["estimated"]) == (9, False)


async def test_astream_events_names_the_nodes() -> None:
    graph: Any = build_graph("concat", model=ScriptedChat(replies=["It is Paris"]))
    events = [one async for one in graph.astream_events(QUESTION, version="v2")]
    tokens = [one["data"]["chunk"].text for one in events if one["event"] == "on_chat_model_stream"]
    assert "".join(tokens) == "It is Paris"
    assert {"begin", "collect", "concat", "vote"} <= {one["name"] for one in events}


async def test_batches() -> None:
    graph = build_graph("post_fusion", model=ScriptedChat(replies=paris))
    given: list[Any] = [QUESTION, {"question": "Which?", "passages": ["b"]}, QUESTION]
    one_by_one = [graph.invoke(one) for one in given]
    assert [one["answer"] for one in one_by_one] == ["Paris", "Unknown", "Paris"]
    assert graph.batch(given) == one_by_one
    assert await graph.abatch(given) == one_by_one


async def test_a_bad_question_in_a_batch_can_be_returned() -> None:
    graph = build_graph("concat", model=ScriptedChat(replies=paris))
    given: list[Any] = [QUESTION, {"question": " "}]
    for out in (
        graph.batch(given, return_exceptions=True),
        await graph.abatch(given, return_exceptions=True),
    ):
        assert out[0]["answer"] == "Paris"
        assert isinstance(out[1], UsageError)


def test_the_model_sees_chat_messages() -> None:
    model = ScriptedChat(replies=paris)
    build_graph("concat", model=model).invoke(QUESTION)
    assert [one.type for one in model.seen[0].messages] == ["system", "human"]
    assert isinstance(model.seen[0].messages[-1], HumanMessage)


@pytest.mark.loopback
def test_structured_inputs_do_not_go_over_the_wire() -> None:
    with OpenAIServer(["Paris"]) as server:
        build_graph("concat", model=client(server)).invoke(QUESTION)
        sent = server.requests[0].body["messages"][-1]
    assert set(sent) == {"role", "content"}


def test_httpx_errors_without_a_client_library() -> None:
    model = ScriptedChat(
        replies=[httpx.ConnectError("refused"), httpx.ReadTimeout("slow"), "Paris"]
    )
    graph = build_graph("concat", model=model, retry_policy=QUICK)
    assert graph.invoke(QUESTION)["answer"] == "Paris"
