"""What type checkers see of the public face; `test_typing.py` checks it by mypy, nothing runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langgraph.types import RetryPolicy

from ragweave import (
    METHODS,
    KnowledgeBase,
    MethodName,
    RAGInput,
    RAGOutput,
    build_chat,
    build_graph,
    chat_model,
)
from ragweave.evaluation.runs import plan
from ragweave.graphs import ChatGraph, CompiledGraph, Method
from ragweave.graphs.arguments import FilcoArguments
from ragweave.nodes.ask import Ask, Prompt, Reply, Templates
from ragweave.nodes.options import Options
from ragweave.nodes.step import Context, Goto, Route, Step, Work, pure
from ragweave.state import (
    AnswerType,
    Candidate,
    Hop,
    RAGState,
    Status,
    Update,
    Usage,
    add_usage,
    ranked,
)
from ragweave.state.chat import ChatOutput
from ragweave.tools.models import ChatModel, Models


def the_face() -> None:
    graph = build_graph("concat", model="extractive", k=3)
    assert_type(graph, CompiledGraph)
    assert_type(METHODS["concat"], Method)
    assert_type(build_graph(METHODS["anyones"], anything=5), CompiledGraph)
    assert_type(build_chat(k=3), ChatGraph)
    assert_type(build_chat("filco", top=3, history_tokens=500), ChatGraph)
    assert_type(chat_model("extractive"), ChatModel)
    build_graph("concat", model=FakeListChatModel(responses=["a"]), retry_policy=RetryPolicy())


def options_of_each_method(kb: KnowledgeBase, name: MethodName) -> None:
    settings: FilcoArguments = {"top": 2, "filter": "strinc", "retriever": kb.as_retriever()}
    build_graph("filco", **settings)
    build_graph("blendfilter", queries=["question", "internal"], hops=2)
    build_graph("skr_knn", training=Path("rows.jsonl"))
    build_graph("slimplm", unknown=False, route="classifier", router="router/")
    build_graph(METHODS[name])
    kb.as_retriever(mode="hybrid")
    kb.as_retriever(filter={"source": "a.md"}, rerank="bi-encoder:minilm")
    plan("qa.jsonl", [], {"answer": "extractive"}, metrics=["em", "f1"])


def what_goes_in() -> None:
    bare: RAGInput = {"question": "Where?"}
    full: RAGInput = {
        "question": "Where?",
        "passages": [Document(page_content="a")],
        "answer_type": "yes_no",
    }
    graph = build_graph("concat")
    assert_type(graph.invoke(bare), RAGOutput)
    assert_type(graph.invoke(full, {"tags": ["a"]}, context={"k": 3})["answer"], str)
    assert_type(graph.invoke(bare, stream_mode="updates"), Any)
    assert_type(build_chat("concat").invoke({"messages": []}), ChatOutput)
    graph.invoke(full, context={"k": 3})


async def what_goes_in_async() -> None:
    graph = build_graph("concat")
    assert_type(await graph.ainvoke({"question": "Where?"}), RAGOutput)
    async for _ in graph.astream({"question": "Where?"}, stream_mode="updates"):
        pass


def what_comes_out(out: RAGOutput) -> None:
    assert_type(out["answer"], str)
    assert_type(out["status"], Status)
    assert_type(out["truncated"], bool)
    assert_type(out["passages"], list[Document])
    assert_type(out["candidates"], dict[str, Candidate])
    assert_type(out["usage"], Usage)
    assert_type(out["usage"]["by_role"]["answer"]["input_tokens"], int)
    assert_type(add_usage(out["usage"], None), Usage)
    assert_type(ranked(out["passages"], "q"), list[Document])


class MyState(RAGState):
    my_notes: list[str]


class MyUpdate(Update, total=False):
    my_notes: list[str]


def nodes_and_routes(models: Models, templates: Templates, options: Options) -> None:
    def body(state: MyState, context: Context[Options]) -> Work:
        assert_type(state["my_notes"], list[str])
        assert_type(state["hops"], list[Hop])
        assert_type(context.options, Options)
        context.note("looked", notes=len(state["my_notes"]))
        update: MyUpdate = {"my_notes": [], "answer": "Paris"}
        return pure(update)

    def prompt(state: RAGState, options: Options) -> Prompt:
        del options
        question = state["question"]
        return Prompt(templates["a"], {"task": "answer", "question": question})

    def update(state: RAGState, reply: Reply, context: Context[Options]) -> Update:
        del state, context
        return {"heuristic_answer": reply.text}

    def route(state: RAGState, options: Options) -> Goto:
        return "known" if state["known"] and options.k else "unknown"

    ask = Ask(name="a", role="answer", prompt=prompt, update=update)
    assert_type(Step("mine", body, options), Step[MyState, Options])
    assert_type(ask.step(models, options), Step[RAGState, Options])
    assert_type(Route(route, options), Route[RAGState, Options])
    build_graph("concat", state=MyState)


def wrong(graph: CompiledGraph, kind: AnswerType) -> None:
    build_graph(5)  # type: ignore[call-overload]
    build_graph("concat", retriever="kb")  # type: ignore[call-overload]
    missing: RAGInput = {"passages": []}  # type: ignore[typeddict-item]
    other: RAGInput = {"question": "Where?", "answer_type": "poem"}  # type: ignore[typeddict-item]
    del graph, kind, missing, other
