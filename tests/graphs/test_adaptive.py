"""Adaptive: with parts off it makes the calls of each paper's own graph; with all on it runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.documents import Document
from langgraph.checkpoint.memory import InMemorySaver
from tests.scripted import ScriptedChat, Seen

from ragweave import build_graph
from ragweave.errors import UsageError
from ragweave.tools.retrieval import Bm25Retriever, PassageRetriever

QUESTION = "Where was the builder of the bridge from?"
OFF: dict[str, Any] = {
    "question_judge": False,
    "rewrite": False,
    "claim_filter": False,
    "queries": ("question",),
    "knowledge_filter": False,
    "filter": "full",
    "max_passages": None,
    "token_budget": None,
    "second_look": False,
    "fallback": False,
}
SAID = {
    "recall": "Ada was an engineer from Lisbon.",
    "judge": "<Known(False)>",
    "rewrite": "<Claim> Ada built it <Query> bridge builder <Claim> in 1934 <Query> bridge year",
    "topic": "bridges",
    "reason": "Ada built the bridge. So the answer is Lisbon.",
    "filter": "0, 2",
    "extract": "Lisbon",
    "answer": "Lisbon",
}
BRIDGE = Document(page_content="The bridge was built by Ada. It is long.", id="p1")


class Found(PassageRetriever):
    """Finds passages named after the query, and one that every query finds."""

    def _find(self, query: str, k: int) -> list[Document]:
        own = [
            Document(page_content=f"About {query} {index}. Nothing else.", id=f"{query}{index}")
            for index in range(3)
        ]
        return [own[0], BRIDGE, *own[1:]][:k]


def script(said: dict[str, str]) -> Any:
    return lambda seen: said[seen.task["task"]]


def call(seen: Seen) -> str:
    """Return what a model saw: messages, structured task and settings."""
    messages = [(message.type, str(message.text)) for message in seen.messages]
    return json.dumps([messages, seen.task, seen.settings], sort_keys=True, default=str)


class Side:
    """One graph, built from models of its own, run once."""

    def __init__(self, name: str, said: dict[str, str], **options: Any) -> None:
        self.models = {
            role: ScriptedChat(replies=script(said))
            for role in ("model", "proxy", "judge", "rewriter", "filter_model")
        }
        self.graph = build_graph(name, retriever=Found(), **self.models, **options)
        self.said = said

    def run(self, **given: Any) -> dict[str, Any]:
        return dict(self.graph.invoke({"question": QUESTION, **given}))

    @property
    def calls(self) -> dict[str, Counter[str]]:
        return {role: Counter(map(call, model.seen)) for role, model in self.models.items()}


def same_calls(
    name: str, own: dict[str, Any], joined: dict[str, Any], said: dict[str, str], **given: Any
) -> None:
    """Check that `adaptive` with `joined` options does what the paper's graph does."""
    paper, adaptive = Side(name, said, **own), Side("adaptive", said, **{**OFF, **joined})
    expected, out = paper.run(**given), adaptive.run(**given)
    assert sum(sum(calls.values()) for calls in paper.calls.values()) > 0
    assert adaptive.calls == paper.calls
    assert (out["answer"], out["status"]) == (expected["answer"], expected["status"])
    assert [doc.page_content for doc in out["passages"]] == [
        doc.page_content for doc in expected["passages"]
    ]
    assert out["usage"]["retrievals"] == expected["usage"]["retrievals"]
    assert out["usage"]["calls"] == expected["usage"]["calls"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"hops": 2},
        {"queries": ("question", "internal")},
        {"queries": ("external",)},
        {"knowledge_filter": False},
        {"shots": 1, "k": 2},
        {"profile": "strategyqa"},
        {"samples": 2},
    ],
)
@pytest.mark.parametrize("filtered", ["0, 2", "none", "no idea"])
def test_equals_blendfilter(options: dict[str, Any], filtered: str) -> None:
    said = {**SAID, "filter": filtered}
    if options.get("profile"):
        said |= {"reason": "So the answer is Yes.", "extract": "Yes"}
    parts = {"queries": ("question", "external", "internal"), "knowledge_filter": True, **options}
    joined = {**parts, "answer": "reason", "union": "by_query"}
    same_calls("blendfilter", options, joined, said)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"question_judge": False},
        {"rewrite": False},
        {"claim_filter": False},
        {"max_passages": 3},
        {"proxy_profile": "released"},
    ],
)
@pytest.mark.parametrize("verdict", ["<Known(False)>", "<Known(True)>", "what?"])
@pytest.mark.parametrize("answer", ["Lisbon", "Unknown"])
def test_equals_slimplm(options: dict[str, Any], verdict: str, answer: str) -> None:
    parts = {"question_judge": True, "rewrite": True, "claim_filter": True, **options}
    budget = {"max_passages": 20, "token_budget": 3000, "k": 10, **options}
    joined = {**parts, **budget, "answer": "reference", "union": "interleave"}
    same_calls(
        "slimplm",
        {**options, "second_look": False},
        joined,
        {**SAID, "judge": verdict, "answer": answer},
    )


@pytest.mark.parametrize("name", ["lexical", "strinc", "llm", "full"])
@pytest.mark.parametrize("gold", [[], ["Ada"]])
def test_equals_filco(name: str, gold: list[str]) -> None:
    joined = {"filter": name, "answer": "generate", "top": "auto"}
    same_calls("filco", {"filter": name}, joined, SAID, gold_answers=gold)


@pytest.mark.parametrize("answer", ["Lisbon", "Unknown"])
def test_equals_concat_pf(answer: str) -> None:
    same_calls("concat_pf", {}, {"fallback": True}, {**SAID, "answer": answer})


@pytest.mark.parametrize("given", [["The bridge was built by Ada."], ["a", "b"]])
def test_equals_concat_over_given_passages(given: list[str]) -> None:
    same_calls("concat", {}, {}, SAID, passages=given)


def run(said: dict[str, str], **options: Any) -> tuple[dict[str, Any], dict[str, ScriptedChat]]:
    """Run with every part on and return the whole final state and the models."""
    models = {role: ScriptedChat(replies=script(said)) for role in ("model", "proxy")}
    graph = build_graph(
        "adaptive", retriever=Found(), checkpointer=InMemorySaver(), **models, **options
    )
    config = {"configurable": {"thread_id": "t"}}
    graph.invoke({"question": QUESTION}, config)
    return dict(graph.get_state(config).values), models


def test_all_parts_together() -> None:
    state, models = run(SAID)
    sets = ["question", "claim_1", "claim_2", "external", "internal"]
    assert list(state["queries"]) == sets
    assert sorted(state["kept"]) == sorted(sets)
    assert state["usage"]["retrievals"] == 5
    assert state["answer"] == "Lisbon"
    nodes = {name: spent["calls"] for name, spent in state["usage"]["by_node"].items()}
    assert nodes == {
        "draft": 1,
        "judge": 1,
        "rewrite": 1,
        "judge_claim": 2,
        "external": 1,
        "internal": 1,
        "topic": 1,
        "knowledge_filter": 10,
        "answer": 1,
    }
    assert state["usage"]["saved_tokens"] > 0
    assert len(models["proxy"].seen) == 5


class Longer:
    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        return [float(len(prompt)) for prompt, _ in pairs]


@pytest.mark.parametrize(
    ("draft", "falls_back"), [("Lisbon", False), ("I'm sorry, but I can't assist with that.", True)]
)
def test_cxmi_measures_against_a_draft_that_says_something(draft: str, falls_back: bool) -> None:
    options = {**OFF, "rewrite": True, "filter": "cxmi", "scorer": Longer()}
    side = Side("adaptive", SAID | {"recall": draft}, checkpointer=InMemorySaver(), **options)
    config = {"configurable": {"thread_id": "t"}}
    side.graph.invoke({"question": QUESTION}, config)
    events = {note["event"] for note in side.graph.get_state(config).values["notes"]}
    assert ("filter_without_answers" in events) is falls_back


@pytest.mark.parametrize("gold", [[], ["Ada"]])
def test_a_draft_is_never_taken_for_gold_where_cxmi_has_no_scorer(gold: list[str]) -> None:
    kept = {}
    for name in ("cxmi", "lexical"):
        side = Side("adaptive", SAID, **{**OFF, "rewrite": True, "filter": name, "top": 1})
        kept[name] = [doc.page_content for doc in side.run(gold_answers=gold)["passages"]]
    assert kept["cxmi"] == kept["lexical"]


def test_known_costs_one_big_call() -> None:
    state, models = run({**SAID, "judge": "<Known(True)>"})
    assert len(models["model"].seen) == 1
    assert state["usage"]["retrievals"] == 0
    assert state["answer"] == "Lisbon"


def told_by_passages(seen: Seen) -> str:
    """Answer only where there is something to read."""
    if seen.task and seen.task["task"] == "answer":
        return "Lisbon" if seen.passages else "Unknown"
    return {**SAID, "judge": "<Known(True)>"}[str(seen.task and seen.task["task"])]


@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize("rewrites", [True, False])
async def test_known_that_is_then_unknown_is_searched_for(how: str, *, rewrites: bool) -> None:
    model = ScriptedChat(replies=told_by_passages)
    graph = build_graph(
        "adaptive",
        model=model,
        retriever=Found(),
        checkpointer=InMemorySaver(),
        rewrite=rewrites,
    )
    config = {"configurable": {"thread_id": "t"}}
    given = {"question": QUESTION}
    out = graph.invoke(given, config) if how == "sync" else await graph.ainvoke(given, config)
    assert (out["answer"], out["status"]) == ("Lisbon", "answered")
    assert out["usage"]["by_node"]["direct"]["calls"] == 1
    assert out["usage"]["by_node"].get("rewrite", {"calls": 0})["calls"] == rewrites
    state = (await graph.aget_state(config)).values
    events = [note["event"] for note in state["notes"]]
    assert "known_but_unanswered" in events
    # the judge was wrong about the whole: it is not asked about the parts
    assert "judge_claim" not in out["usage"]["by_node"]
    assert ({"claim_1", "claim_2"} <= state["queries"].keys()) is rewrites


def test_the_second_look_can_be_off() -> None:
    model = ScriptedChat(replies=told_by_passages)
    graph = build_graph("adaptive", model=model, retriever=Found(), second_look=False)
    out = graph.invoke({"question": QUESTION})
    assert (out["answer"], out["usage"]["retrievals"]) == ("Unknown", 0)


def test_a_silent_short_answer_leaves_the_reasoning() -> None:
    said = {**SAID, "judge": "<Known(False)>", "extract": ""}
    state, _ = run(said, answer="reason")
    assert state["answer"] == "Lisbon"
    assert "short_answer_empty" in [note["event"] for note in state["notes"]]


def test_unknown_falls_back_to_post_fusion() -> None:
    def reply(seen: Seen) -> str:
        if seen.task and seen.task["task"] == "answer":
            return "Lisbon" if len(seen.passages) == 1 else "Unknown"
        return SAID[str(seen.task and seen.task["task"])]

    graph = build_graph("adaptive", model=ScriptedChat(replies=reply), retriever=Found())
    out = graph.invoke({"question": QUESTION})
    assert out["answer"] == "Lisbon"
    assert out["usage"]["by_node"]["post_fusion"]["calls"] == len(out["passages"])


def test_failing_proxy_leaves_the_rest_at_work() -> None:
    big = ScriptedChat(replies=script(SAID))
    down = ScriptedChat(replies=[ValueError("down")])
    graph = build_graph(
        "adaptive", model=big, proxy=down, retriever=Found(), checkpointer=InMemorySaver()
    )
    config = {"configurable": {"thread_id": "t"}}
    assert graph.invoke({"question": QUESTION}, config)["answer"] == "Lisbon"
    events = [note["event"] for note in graph.get_state(config).values["notes"]]
    assert "proxy_failed" in events


async def test_async_gives_the_same() -> None:
    sides = [Side("adaptive", SAID) for _ in range(2)]
    out = sides[0].run()
    other = await sides[1].graph.ainvoke({"question": QUESTION})
    assert other == out
    assert sides[0].calls == sides[1].calls


def test_a_run_may_switch_parts_off() -> None:
    models = {"model": ScriptedChat(replies=script(SAID))}
    graph = build_graph("adaptive", retriever=Found(), **models)
    graph.invoke({"question": QUESTION}, context={**OFF, "queries": ["question"]})
    assert len(models["model"].seen) == 1
    properties = graph.get_context_jsonschema()["properties"]
    assert {"queries", "rewrite", "filter", "answer", "token_budget"} <= set(properties)


@pytest.mark.parametrize(
    "options", [{"answer": "loud"}, {"union": "x"}, {"hops": 0}, {"max_claims": 0}, {"top": 0}]
)
def test_options_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        build_graph("adaptive", **options)


def test_picture_is_whole_and_labelled() -> None:
    drawn = build_graph("adaptive").get_graph()
    picture = drawn.draw_mermaid()
    for label in ("known", "each claim", "question and claims", "each set", "unknown"):
        assert f"&nbsp;{label}&nbsp;" in picture
    targets = {edge.target for edge in drawn.edges}
    assert set(drawn.nodes) - targets == {"__start__"}


@pytest.mark.parametrize("answer", ["concat", "reason", "reference", "generate"])
def test_extractive_model_runs_it(demo_corpus: Bm25Retriever, answer: str) -> None:
    graph = build_graph(
        "adaptive", model="extractive?similarity=lexical", retriever=demo_corpus, answer=answer
    )
    out = graph.invoke({"question": "What is query blending?"})
    assert out["passages"]
    assert out["status"] in ("answered", "unknown")


class Apart(PassageRetriever):
    """Finds one passage for the question and another one for anything else."""

    def _find(self, query: str, k: int) -> list[Document]:
        own = "Zebra" if query == QUESTION else "Apple"
        return [Document(page_content=f"{own} is what it says.", id=own)]


def test_a_tie_goes_to_the_passage_that_the_question_found() -> None:
    def said(seen: Seen) -> str:
        alone = len(seen.passages) == 1
        answer = seen.passages[0].split()[0] if alone else "Unknown"
        return answer if seen.task["task"] == "answer" else SAID[seen.task["task"]]

    options = {**OFF, "fallback": True, "rewrite": True}
    for order in ("retrieved", "reversed"):
        graph = build_graph(
            "adaptive", model=ScriptedChat(replies=said), retriever=Apart(), order=order, **options
        )
        out = graph.invoke({"question": QUESTION})
        assert {one["answer"] for one in out["candidates"].values()} == {
            "Unknown",
            "Zebra",
            "Apple",
        }
        assert out["answer"] == "Zebra"
