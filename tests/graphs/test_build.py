"""`build_graph`: prompts of the caller's, mistakes, other packages' methods, and a graph in an app."""

from __future__ import annotations

import asyncio
from inspect import signature
from typing import Annotated, Any

import httpx
import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler
from langgraph.types import TracePolicy, omit_payload

from ragweave import METHODS, build_chat, build_graph
from ragweave.errors import PromptTooLongError, UsageError
from ragweave.graphs import method
from ragweave.nodes.answer import answer_node, each_sample
from ragweave.nodes.prompts import few_shot
from ragweave.nodes.vote import vote_node
from ragweave.roles import ROLES
from ragweave.state import RAGState, merge
from ragweave.testing import CARDS, RecordingRetriever, ScriptedModel

ASK = {"question": "Who built the bridge at Alden?"}


def model(*replies: str) -> ScriptedModel:
    return ScriptedModel(script=replies or ["Ada Brenner"])


def test_a_trace_policy_keeps_passages_out_of_the_spans_of_nodes() -> None:
    lean = TracePolicy(process_inputs=omit_payload, process_outputs=omit_payload)
    traced: dict[str, list[Any]] = {}
    for name, policy in (("full", None), ("lean", lean)):
        tracer = RunCollectorCallbackHandler()
        graph = build_graph("concat", model=model(), retriever=RecordingRetriever(), trace_policy=policy)
        graph.invoke(ASK, {"callbacks": [tracer]})
        traced[name] = [run.inputs for run in tracer.traced_runs[0].child_runs if run.name == "collect"]
    assert "retrieved" in traced["full"][0]
    assert traced["lean"] == [{}]


def test_mistakes_are_explained() -> None:
    with pytest.raises(UsageError, match="did you mean 'concat_pf'"):
        build_graph("concat_fp")
    with pytest.raises(UsageError, match="did you mean 'concat'"):
        build_graph("concat", prompts={"conact": "…"})
    with pytest.raises(UsageError, match="has no second search"):
        build_graph("concat", second_retriever=RecordingRetriever())
    with pytest.raises(UsageError, match="must be a LangChain chat model"):
        build_graph("concat", model=7)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="must be a LangChain retriever"):
        build_graph("concat", retriever=[])  # type: ignore[arg-type]
    graph = build_graph("concat", model=model())
    with pytest.raises(UsageError, match="answer_type must be one of short"):
        graph.invoke({**ASK, "answer_type": "brief"})
    with pytest.raises(UsageError, match="build_chat takes a conversation's messages"):
        graph.invoke({"messages": [("user", "Who?")]})
    with pytest.raises(UsageError, match="give a retriever, or passages with the question"):
        graph.invoke(ASK)
    with pytest.raises(UsageError, match="a passage must be a LangChain Document"):
        graph.invoke({**ASK, "passages": [3]})


@pytest.mark.parametrize("given", ["The bridge is of granite.", {"text": "The bridge is of granite."}])
def test_passages_may_be_one_text_or_document(given: Any) -> None:
    out = build_graph("concat", model=model()).invoke({**ASK, "passages": given})
    assert [doc.page_content for doc in out["passages"]] == ["The bridge is of granite."]


def test_a_refused_connection_is_not_tried_again() -> None:
    calls: list[None] = []

    class Dead(FakeListChatModel):
        def _call(self, *_: Any, **__: Any) -> str:
            calls.append(None)
            raise httpx.ConnectError("refused")

    with pytest.raises(httpx.ConnectError):
        build_graph("concat", model=Dead(responses=[])).invoke({**ASK, "passages": ["a bridge"]})
    assert len(calls) == 1


def test_a_callers_prompt_replaces_the_papers_too() -> None:
    asked, own = model(), ChatPromptTemplate([("human", "Mine: {question}")])
    build_graph("direct", model=asked, profile="slimplm", prompts={"direct": own}).invoke(ASK)
    build_graph("direct", model=asked, prompts={"direct": "Mine: {question}"}).invoke(ASK)
    assert [call.text for call in asked.calls] == [f"Mine: {ASK['question']}"] * 2


def test_a_prompt_may_show_examples() -> None:
    asked, shown = model(), few_shot("Q: {question}", ("One and one?", "Two"), system="Be brief.")
    build_graph("direct", model=asked, prompts={"direct": shown}).invoke(ASK)
    turns = [(message.type, message.text) for message in asked.calls[0].messages]
    assert turns[:3] == [("system", "Be brief."), ("human", "Q: One and one?"), ("ai", "Two")]
    assert turns[3:] == [("human", f"Q: {ASK['question']}")]


def test_a_state_of_ones_own_starts_every_question_empty() -> None:
    class Mine(RAGState, total=False):
        seen: Annotated[dict[str, int], merge]

    graph = build_graph("concat", model=model(), retriever=RecordingRetriever(), state=Mine)
    *_, state = graph.stream(ASK, stream_mode="values")
    assert state["seen"] == {}


def test_a_method_of_ones_own() -> None:
    @method("mine", paper="", when="", calls=lambda o: (o.samples, o.samples))
    def mine(graph: Any, components: Any) -> None:
        """
        Asks the model.

        No search.
        """
        graph.add_node("direct", answer_node(components, "direct", "direct"))
        graph.add_node("vote", vote_node("direct"))
        graph.add_conditional_edges("begin", each_sample("direct"), {"each sample": "direct"})
        graph.add_edge("direct", "vote")

    assert mine.summary == "Asks the model."
    assert build_graph(mine, model=model()).invoke(ASK)["answer"] == "Ada Brenner"
    METHODS.register(mine)
    try:
        assert build_graph("mine", model=model()).get_name() == "mine"
    finally:
        METHODS.unregister("mine")


def test_an_answer_of_another_role() -> None:
    @method("drafted", paper="", when="", calls=lambda o: (o.samples, o.samples))
    def drafted(graph: Any, components: Any) -> None:
        """Asks the proxy."""
        graph.add_node("direct", answer_node(components, "direct", "direct", role="proxy"))
        graph.add_node("vote", vote_node("direct"))
        graph.add_conditional_edges("begin", each_sample("direct"), {"each sample": "direct"})
        graph.add_edge("direct", "vote")

    output = build_graph(drafted, model=model(), proxy=ScriptedModel(script=["Karl Oster"])).invoke(ASK)
    assert output["answer"] == "Karl Oster"
    assert list(output["usage"]["by_role"]) == ["proxy"]


def test_a_graph_is_an_agents_tool() -> None:
    graph = build_graph("concat", model=model(), retriever=RecordingRetriever())
    tool = graph.as_tool(description="Knows bridges.")
    assert (tool.name, tool.description) == ("concat", "Knows bridges.")
    call: Any = {"name": "concat", "args": ASK, "id": "1", "type": "tool_call"}
    message = tool.invoke(call)
    assert message.content.startswith("Ada Brenner\n\nSources:\n- Card 0")
    assert message.artifact["status"] == "answered"
    assert asyncio.run(tool.ainvoke({"question": " "})) == (
        "the input has no question: give {'question': …} (build_chat takes a conversation's messages)"
    )
    texts = {2: "Rent: 1450", 3: "Water: 88"}
    rows = [Document(text, id=str(n), metadata={"source": "/a/b.csv", "line": n}) for n, text in texts.items()]
    finder = RecordingRetriever(documents=rows)
    cited = build_graph("concat", model=ScriptedModel(script=["1450"]), retriever=finder, citations=True).as_tool()
    assert cited.invoke({"question": "What is the rent?"}) == ("1450 [1]\n\nQuotes:\n[1] “Rent: 1450” (b.csv, line 2)")


def test_a_graph_is_a_retriever_of_what_it_read() -> None:
    retriever = build_graph("filco", model=model(), retriever=RecordingRetriever(), top=1).as_retriever()
    assert [passage.page_content for passage in retriever.invoke(ASK["question"])] == [
        "The bridge at Alden was built by Ada Brenner in 1931."
    ]


def test_the_state_of_a_parent_graph_may_hold_the_passages_of_an_faq() -> None:
    faq = Document("Ada Brenner built it.", metadata={"question": "Who is the builder?"})
    out = build_graph("concat", model=model()).invoke({**ASK, "passages": [faq], "answer": "an earlier one"})
    assert [passage.metadata["question"] for passage in out["passages"]] == ["Who is the builder?"]


def test_gold_passages_may_stand_first_or_last() -> None:
    gold = [card.model_copy(update={"metadata": {"gold": card.id == "doc2"}}) for card in CARDS[:3]]
    for order, place in (("gold_first", 0), ("gold_last", 2), ("reversed", 0)):
        graph = build_graph("concat", model=model(), order=order)
        assert [passage.id for passage in graph.invoke({**ASK, "passages": gold})["passages"]].index("doc2") == place


def test_studio_draws_no_error_handlers() -> None:
    drawn = asyncio.run(build_graph("slimplm", model=model()).aget_graph())
    assert not [name for name in drawn.nodes if "error_handler" in name]


def test_the_docs_have_a_group_for_every_method() -> None:
    assert [declared.name for declared in METHODS.ours() if declared.group == "other"] == []


def test_an_input_that_is_no_mapping_is_refused() -> None:
    with pytest.raises(UsageError, match=r"the input must be a mapping, such as .*, not str"):
        build_graph("concat").invoke("When was it built?")


def test_every_role_has_its_argument_in_build_graph_or_build_chat() -> None:
    for role in ROLES.values():
        build = build_chat if role.in_chat else build_graph
        described = " ".join((build.__doc__ or "").split())
        assert role.argument in signature(build).parameters
        assert f" {role.argument}: " in described
        if role.fallback:
            assert f"None: `{ROLES[role.fallback].argument}`." in described.partition(f" {role.argument}: ")[2]


def test_a_roles_word_is_the_key_of_its_usage_and_its_tag() -> None:
    seen: list[list[str]] = []

    class Tags(BaseCallbackHandler):
        def on_chat_model_start(self, *_: Any, tags: list[str] | None = None, **__: Any) -> None:
            seen.append(tags or [])

    grader = ScriptedModel(script=["Correct"] * 3, role="judge")
    picker = ScriptedModel(script=["1"], role="selector")
    graph = build_graph("crag", model=model(), judge=grader, selector=picker, retriever=RecordingRetriever(), k=3)
    usage = graph.invoke(ASK, {"callbacks": [Tags()]})["usage"]
    assert {name: tokens["calls"] for name, tokens in usage["by_role"].items()} == {
        "judge": 3,
        "selector": 1,
        "generator": 1,
    }
    assert {tag for tags in seen for tag in tags if tag.startswith("role:")} == {
        f"role:{name}" for name in usage["by_role"]
    }


def test_a_question_that_is_too_long_is_refused_before_any_call() -> None:
    generator = model()
    graph = build_graph("concat", model=generator, retriever=RecordingRetriever())
    with pytest.raises(PromptTooLongError, match="100001 characters; 100000 are allowed"):
        graph.invoke({"question": "x" * 100_001})
    assert not generator.calls


def test_an_answer_from_passages_is_asked_for_in_the_questions_language() -> None:
    scripted = ScriptedModel(script=["Granit"])
    build_graph("concat", model=scripted).invoke(
        {"question": "Welcher Stein?", "passages": ["Die Bögen sind aus Granit."]}
    )
    assert "in the language of the question" in str(scripted.calls[0].messages[0].content)
