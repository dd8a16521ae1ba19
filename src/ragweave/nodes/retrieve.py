"""Retrieval: one branch a query, one node that collects what they found, one that trims it.

Source of the budget: SlimPLM, released code: at most 20 passages, then two fewer at a time, from
the end, until the reference takes no more than 3,000 tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from langchain_core.documents import Document
from langchain_core.runnables import Runnable
from langgraph.types import Overwrite, Send

from ragweave.errors import UsageError
from ragweave.nodes.options import Options, OptionsT, at_least
from ragweave.nodes.step import Call, Context, Step, Work, pure
from ragweave.state import (
    QueryBranch,
    RAGState,
    Update,
    interleave,
    no_usage,
    ranked,
    unique,
)
from ragweave.state.passages import INPUT, as_merged, best_first, told_apart, with_merged_rank
from ragweave.tools.bindings import unbound
from ragweave.tools.retrieval.base import takes_k
from ragweave.tools.text.normalize import estimate_tokens

Retriever: TypeAlias = Runnable[str, list[Document]]
"""A ragweave retriever, or any LangChain retriever."""


def retrieve_step(
    retriever: Retriever | None,
    options: OptionsT,
    name: str = "retrieve",
    k_of: Callable[[OptionsT], int] = lambda options: options.k,
) -> Step[QueryBranch, OptionsT]:
    """Return a retrieval node: runs one query, writes `retrieved[query_key]`.

    `k` reaches ragweave's own retrievers with each call, through LangChain's bindings too; any
    other retriever's result is cut to `k`.

    Args:
        retriever: Where passages come from; None: every input brings its own.
        options: The build's options.
        name: The node's name.
        k_of: From the options to how many passages are found.
    """

    def body(branch: QueryBranch, context: Context[OptionsT]) -> Work:
        if retriever is None:
            raise UsageError(
                "nothing to retrieve from: name a knowledge base (retriever=… in code, --kb on the "
                "command line), or give passages with the question"
            )
        k, key = k_of(context.options), branch["query_key"]
        settings = {"k": k} if takes_k(retriever) else {}
        found = checked_documents(retriever, (yield Call(retriever, branch["query"], settings)))
        context.spend({**no_usage(), "retrievals": 1})
        return {"retrieved": {key: ranked(found[:k], key)}}

    return Step(name, body, options)


def checked_documents(retriever: object, found: object) -> list[Document]:
    """Return what a retriever found, which is a list of documents.

    Raises:
        UsageError: It is something else, such as texts or pairs of a document and a score.
    """
    if not isinstance(found, list | tuple):
        wrong = type(found).__name__
    elif others := [one for one in found if not isinstance(one, Document)]:
        wrong = f"a list with {type(others[0]).__name__}"
    else:
        return list(found)
    raise UsageError(
        f"the retriever ({type(unbound(retriever)).__name__}) returned {wrong}, and not a list of "
        "LangChain Documents"
    )


def to_retrieval(state: RAGState, _options: Options) -> Literal["collect"] | list[Send]:
    """Route: given passages go straight to `collect`; otherwise a branch for each query."""
    if state["passages"]:
        return "collect"
    return searches(state, state["queries"])


def searches(state: RAGState, queries: Mapping[str, str], node: str = "retrieve") -> list[Send]:
    """Return a branch to a retrieval node for each query."""
    return [
        Send(node, QueryBranch(query_key=key, query=text, deadline=state.get("deadline")))
        for key, text in queries.items()
    ]


MergeStrategy: TypeAlias = Callable[[Sequence[Sequence[Document]]], list[Document]]
"""How the queries' passages are merged: `interleave`, or `by_query`."""


def collect_step(
    options: OptionsT, merge: Callable[[OptionsT], MergeStrategy] = lambda _options: interleave
) -> Step[RAGState, OptionsT]:
    """Return the node `collect`: sets `passages` from what the queries found, in prompt order.

    Where a filter has been at work, it is what the filter kept of each query's passages.
    """

    def body(state: RAGState, context: Context[OptionsT]) -> Work:
        if state["retrieved"] and not any(state["retrieved"].values()):
            context.note("no_passages_found")
        elif state["kept"] and not any(passage_sets(state).values()):
            context.note("filter_kept_nothing")
        return pure(collect(state, context.options, merge(context.options)))

    return Step("collect", body, options)


def collect(state: RAGState, options: Options, merge: MergeStrategy = interleave) -> Update:
    """Merge the queries' passages in query order and put them in the order asked for."""
    sets = passage_sets(state)
    passages = sets[INPUT] if INPUT in sets else merge(list(sets.values()))
    return {"passages": Overwrite(arranged(passages, options.order))}


def passage_sets(state: RAGState) -> dict[str, list[Document]]:
    """Return each query's passages in query order: what a filter kept, else what was found.

    Passages that the input brought are one set, called `input`, and the only one.
    """
    found, kept = told_apart(state["retrieved"]), state["kept"]
    given = unique(as_merged(state["passages"]))  # an earlier round may have moved them
    sets = (
        {INPUT: given} if given else {key: found[key] for key in state["queries"] if key in found}
    )
    return {key: kept.get(key, passages) for key, passages in sets.items()}


def arranged(passages: Sequence[Document], order: str) -> list[Document]:
    """Order passages for the prompt (Liu et al. 2024, section 4.5).

    Those that may move say where they stood (`metadata["merged_rank"]`), so that the best of one
    rank are still known where the prompt has room for some alone.

    Args:
        passages: Passages, best first.
        order: `retrieved`, `reversed`, or `gold_first` / `gold_last`, which move the passages
            whose `metadata["gold"]` is true and keep the others as they stand.
    """
    if order == "retrieved":
        return list(passages)
    marked = with_merged_rank(passages)
    if order == "reversed":
        return marked[::-1]
    gold = [doc for doc in marked if doc.metadata.get("gold")]
    rest = [doc for doc in marked if not doc.metadata.get("gold")]
    return gold + rest if order == "gold_first" else rest + gold


def join_step(name: str, options: OptionsT) -> Step[RAGState, OptionsT]:
    """Return a node that changes nothing: its outgoing route runs once, behind all branches."""

    def body(_state: RAGState, _context: Context[OptionsT]) -> Work:
        return pure({})

    return Step(name, body, options)


@dataclass(frozen=True, kw_only=True)
class BudgetOptions(Options):
    """How long the reference may be."""

    max_passages: int | None = 20
    """Most passages in the answer's prompt; None: no limit."""
    token_budget: int | None = 3000
    """Most tokens (estimated) of these passages; None: no limit."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: A value is out of its range.
        """
        super().__post_init__()
        at_least("max_passages", self.max_passages, 1)
        at_least("token_budget", self.token_budget, 1)


def trim_step(options: BudgetOptions) -> Step[RAGState, BudgetOptions]:
    """Return the node `trim`: cuts `passages` to the budget and notes `passages_trimmed`."""

    def body(state: RAGState, context: Context[BudgetOptions]) -> Work:
        opts = context.options
        kept = trimmed(state["passages"], opts.max_passages, opts.token_budget)
        if len(kept) == len(state["passages"]):
            return pure({})
        context.note("passages_trimmed", passages=len(state["passages"]), kept=len(kept))
        return pure({"passages": Overwrite(kept)})

    return Step("trim", body, options)


def trimmed(passages: Sequence[Document], most: int | None, tokens: int | None) -> list[Document]:
    """Return the best passages within the budget, in the order given; at least one.

    The lowest ranks go first, and of one rank the last: the end of an interleaved list.
    """
    order = best_first(passages)[:most]
    while tokens is not None and len(order) > 1 and _tokens(passages, order) > tokens:
        order = order[: max(1, len(order) - 2)]
    return [passages[index] for index in sorted(order)]


def _tokens(passages: Sequence[Document], order: Sequence[int]) -> int:
    return sum(estimate_tokens(passages[index].page_content) for index in order)
