"""Retrieval: one branch per query, and the node `collect`, where they meet."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import run_in_executor
from langchain_core.vectorstores import VectorStoreRetriever
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Send
from typing_extensions import TypedDict

from ragweave.errors import UsageError
from ragweave.nodes.ask import FunctionNode, Node, Retriever, StateNode
from ragweave.nodes.options import Options, Order
from ragweave.state import RAGState, Tokens, Usage, by_page, interleave, no_usage, note, ranked, running
from ragweave.tools.models.replies import CallCounter, counted_calls

GIVEN = "input"
"""The query name of passages that came with the input."""

Route: TypeAlias = str | list[Send]
"""What a routing function returns: a label, or the branches to start."""


class Query(TypedDict):
    """The input of one retrieval branch."""

    name: str
    text: str


def retrieve_node(retriever: Retriever | None, depth: Callable[[Any], int] = lambda options: options.k) -> Node:
    """Return a node that runs one query and puts what it finds, best first, in `retrieved[name]`.

    Args:
        retriever: Where it searches.
        depth: From the options to how many passages are kept.
    """

    def prepare() -> tuple[Retriever, dict[str, int]]:
        if retriever is None:
            raise UsageError("nothing to retrieve from: give a retriever, or passages with the question")
        return retriever, {"k": depth(get_runtime(Options).context)} if _takes_k(retriever) else {}

    def update(query: Query, found: Any, made: CallCounter) -> RAGState:
        if not isinstance(found, list) or not all(isinstance(one, Document) for one in found):
            raise UsageError(f"the retriever ({type(retriever).__name__}) must return a list of Documents")
        best = found[: depth(get_runtime(Options).context)]
        return {"retrieved": {query["name"]: ranked(best, query["name"])}, "usage": search_usage(made)}

    def call(query: Query, config: RunnableConfig) -> RAGState:
        source, settings = prepare()
        with counted_calls() as made:
            found = source.invoke(query["text"], config, **settings)
        return update(query, found, made)

    async def acall(query: Query, config: RunnableConfig) -> RAGState:
        source, settings = prepare()
        with counted_calls() as made:
            if settings and not _takes_k(source, "_aget_relevant_documents"):
                found = await run_in_executor(config, source.invoke, query["text"], config, **settings)
            else:
                found = await source.ainvoke(query["text"], config, **settings)
        return update(query, found, made)

    return FunctionNode(call, acall, name="retrieve")


def search_usage(made: CallCounter, retrievals: int = 1) -> Usage:
    """Return what searches cost; the calls of a retriever's own model have the role `retriever`."""
    usage: Usage = {**no_usage(), "retrievals": retrievals}
    if not made.tokens:
        return usage
    sent, received, estimated = zip(*made.tokens, strict=True)
    tokens: Tokens = {"calls": len(sent), "input_tokens": sum(sent), "output_tokens": sum(received)}
    tables = {"by_role": {"retriever": tokens}, "by_node": {running()[1]: tokens}}
    return cast("Usage", {**usage, **tokens, "estimated": any(estimated), **tables})


def _takes_k(retriever: Retriever, method: str = "_get_relevant_documents") -> bool:
    """Return whether a retriever can be asked for k passages; others find as many as they were made to find."""
    search = getattr(retriever, method, None)
    takes_any = isinstance(retriever, VectorStoreRetriever)
    return takes_any or (search is not None and "k" in inspect.signature(search).parameters)


def search_branches(queries: Mapping[str, str], node: str = "retrieve") -> list[Send]:
    """Return a branch to a retrieval node for each query."""
    return [Send(node, Query(name=name, text=text)) for name, text in queries.items()]


def to_retrieval(state: RAGState) -> Route:
    """Route: a search for each query; none where the input brought passages."""
    return "passages given" if state["given"] else search_branches(state["queries"])


TO_RETRIEVAL: dict[Hashable, str] = {"each query": "retrieve", "passages given": "collect"}
"""The labels of `to_retrieval`, as the drawn graph shows them, and the nodes they lead to."""

Merge = Callable[[Sequence[Sequence[Document]]], list[Document]]
"""How the queries' passages are merged: `interleave`, or `by_query`."""


def collect_node(merge: Merge = interleave) -> StateNode:
    """Return a node that merges what the queries found into `passages`, in query order."""

    def collect(state: RAGState, runtime: Runtime[Options]) -> RAGState:
        if state["given"]:
            given = sorted(state["passages"], key=lambda one: one.metadata["rank"])
            return {"passages": arranged(given, runtime.context.order)}
        found = merge(list(found_by_query(state).values()))
        if runtime.context.paper == "slimplm":
            found = by_page(found)
        notes = [] if found else [note("no_passages_found")]
        return {"passages": arranged(found, runtime.context.order), "notes": notes}

    return collect


def found_by_query(state: RAGState) -> dict[str, list[Document]]:
    """Return what each query found, in query order."""
    return {name: state["retrieved"][name] for name in state["queries"] if name in state["retrieved"]}


def arranged(passages: Sequence[Document], order: Order) -> list[Document]:
    """Order passages, best first, for the prompt (Liu et al. 2024, section 4.5)."""
    if order == "retrieved":
        return list(passages)
    if order == "reversed":
        return list(passages)[::-1]
    first = order == "gold_first"
    return sorted(passages, key=lambda doc: bool(doc.metadata.get("gold")) != first)


def join(state: RAGState) -> RAGState:
    """Do nothing. The route after this node runs once, when all branches before it have ended."""
    del state
    return {}
