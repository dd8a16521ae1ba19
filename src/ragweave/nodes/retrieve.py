"""Retrieval: one branch per query, and the node `collect`, where they meet."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeAlias

from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig
from langgraph.graph import StateGraph
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Send
from typing_extensions import TypedDict

from ragweave.errors import UsageError
from ragweave.nodes.ask import cost_of
from ragweave.nodes.options import Options, Order
from ragweave.nodes.papers import style_of
from ragweave.nodes.runner import Caller, Components, FunctionNode, Node, Retriever, StateNode
from ragweave.state import RAGState, Usage, no_usage, note
from ragweave.state.passages import interleave, ranked
from ragweave.tools.models.budget import BudgetSpent, current_budget
from ragweave.tools.models.messages import CallCounter, counted_calls
from ragweave.tools.retrieval.base import takes_k

GIVEN = "input"
"""The query name of passages that came with the input."""

Route: TypeAlias = str | list[Send]
"""What a routing function returns: a label, or the branches to start."""


class Query(TypedDict):
    """The input of one retrieval branch."""

    name: str
    text: str


def retrieve_node(retriever: Retriever | None, depth: Callable[[Any], int] = lambda options: options.k) -> Node:
    """Return a node that runs one query and puts the best `depth` passages, best first, in `retrieved[name]`."""
    has_k = takes_k(retriever)
    is_sync = has_k and not takes_k(retriever, "_aget_relevant_documents")

    async def retrieve(query: Query, config: RunnableConfig, caller: Caller) -> RAGState:
        if retriever is None:
            raise UsageError("nothing to retrieve from: give a retriever, or passages with the question")
        k = depth(get_runtime(Options).context)
        settings = {"k": k} if has_k else {}
        try:
            async with current_budget().until_deadline(awaits=caller.awaits):
                with counted_calls() as counter:
                    passages = await caller.call(retriever, query["text"], config, is_sync=is_sync, **settings)
        except BudgetSpent as spent:
            return {
                "retrieved": {query["name"]: []},
                "truncated": True,
                "notes": [note("budget_spent", limit=str(spent))],
            }
        if not isinstance(passages, list) or not all(isinstance(doc, Document) for doc in passages):
            raise UsageError(f"the retriever ({type(retriever).__name__}) must return a list of Documents")
        return {"retrieved": {query["name"]: ranked(passages[:k], query["name"])}, "usage": search_usage(counter)}

    return FunctionNode(retrieve, name="retrieve")


def search_usage(counter: CallCounter, retrievals: int = 1) -> Usage:
    """Return what searches cost; the calls of a retriever's own model have the role `retriever`."""
    usage = no_usage()
    if counter.tokens:
        sent, received, estimated = zip(*counter.tokens, strict=True)
        dollars = sum(usd for usd, _ in counter.dollars), sum(calls for _, calls in counter.dollars)
        total = len(sent), sum(sent), sum(received)
        usage = cost_of("retriever", *total, estimated=any(estimated), dollars=dollars)
    return {**usage, "retrievals": retrievals}


def search_branches(queries: Mapping[str, str], node: str = "retrieve") -> list[Send]:
    """Return a branch to a retrieval node for each query."""
    return [Send(node, Query(name=name, text=text)) for name, text in queries.items()]


def fallback_wanted(components: Components) -> Callable[[RAGState, Any], bool]:
    """Return what decides whether an Unknown leads to retrieval: by option, if nothing was searched for or given."""

    def wanted(state: RAGState, options: Any) -> bool:
        new = not state["given"] and not state["retrieved"]
        return new and components.retriever is not None and bool(options.fallback_retrieval)

    return wanted


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
            given = sorted(state["passages"], key=lambda doc: doc.metadata["rank"])
            return {"passages": arranged(given, runtime.context.order)}
        options = runtime.context
        passages = style_of(options.paper).pooled(merge(list(found_by_query(state).values())))
        notes = [] if passages else [note("no_passages_found")]
        return {"passages": arranged(passages, options.order), "notes": notes}

    return collect


def add_search(graph: StateGraph[Any, Any, Any, Any], search: Node, merge: Merge = interleave) -> None:
    """Add the nodes `retrieve`, which is `search`, and `collect` after it."""
    graph.add_node("retrieve", search)
    graph.add_node("collect", collect_node(merge))
    graph.add_edge("retrieve", "collect")


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
