"""Pieces of wiring that methods share: each adds nodes and the edges between them.

What leads into a piece, and out of it where methods differ, stays in the method's own file. Two
pieces are whole graphs: the single round (retrieve, ask, vote), and the methods that first decide
whether to retrieve, where passages that the caller gave need no decision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.documents import Document
from langgraph.graph import END, START

from ragweave.graphs.frame import CompiledGraph, Draft, Parts, draft, finish
from ragweave.nodes.answer import AnswerStep, branches
from ragweave.nodes.begin import begin_step
from ragweave.nodes.blending import (
    blend_step,
    external_step,
    internal_step,
    to_augmentation,
    to_blended_search,
    to_knowledge_filter,
)
from ragweave.nodes.judge import (
    judge_claim_step,
    to_claim_filter,
    to_draft,
    to_judge,
    to_rewrite,
    without_verdict,
)
from ragweave.nodes.knowledge_filter import knowledge_filter_step, topic_step
from ragweave.nodes.options import Options
from ragweave.nodes.proxy import draft_step, proxy_down
from ragweave.nodes.retrieval_decision import (
    DecisionT,
    looked_in_vain,
    looks_again,
)
from ragweave.nodes.retrieve import (
    MergeStrategy,
    collect_step,
    join_step,
    retrieve_step,
    to_retrieval,
)
from ragweave.nodes.rewrite import plan_step, rewrite_step
from ragweave.nodes.route import decide_step
from ragweave.nodes.step import Goto, Route, Step
from ragweave.nodes.vote import vote_step
from ragweave.state import RAGState, interleave


def add_begin(graph: Draft, parts: Parts[Any]) -> None:
    """Add `begin`, the node that every run starts with."""
    graph.add_node("begin", begin_step(parts.options, parts.state))
    graph.add_edge(START, "begin")


def add_retrieval(
    graph: Draft,
    parts: Parts[Any],
    merge: Callable[[Any], MergeStrategy] = lambda _options: interleave,
) -> None:
    """Add `retrieve`, a branch a query, and `collect`, where the branches meet.

    Args:
        graph: The graph.
        parts: Retriever, options and the rest.
        merge: From the options to how the queries' passages are merged.
    """
    options = parts.options
    graph.add_node("retrieve", retrieve_step(parts.retriever, options), retry_policy=parts.retry)
    graph.add_node("collect", collect_step(options, merge))
    graph.add_edge("retrieve", "collect")


def add_question_retrieval(
    graph: Draft, parts: Parts[Any], route: Callable[[RAGState, Any], Goto] = to_retrieval
) -> None:
    """Add `begin`, `retrieve` and `collect`: the question is looked up before anything is asked.

    Args:
        graph: The graph.
        parts: Retriever, options and the rest.
        route: Leads to `retrieve` for each query, or straight to `collect`.
    """
    add_begin(graph, parts)
    add_retrieval(graph, parts)
    graph.add_conditional_edges("begin", Route(route, parts.options), ["retrieve", "collect"])


def add_judgement(graph: Draft, parts: Parts[Any], *, given: str) -> None:
    """Add `draft` and `judge` behind `begin`: is the proxy's draft answer known (SlimPLM, 3.2)?

    They lead to `direct`, `rewrite` and `plan`.

    Args:
        graph: The graph.
        parts: Models, options and the rest.
        given: The node that answers from passages that the caller gave.
    """
    options, models, prompts = parts.options, parts.models, parts.prompts
    graph.add_node(
        "draft",
        draft_step(models, prompts, options),
        retry_policy=parts.retry,
        error_handler=proxy_down("plan"),
    )
    graph.add_node(
        "judge",
        decide_step(models, prompts, options, parts.judge_scorer, parts.retriever),
        retry_policy=parts.retry,
        error_handler=proxy_down(without_verdict(options)),
    )
    graph.add_conditional_edges(
        "begin",
        Route(to_draft, options),
        {"draft": "draft", "no proxy": "plan", "passages given": given},
    )
    graph.add_conditional_edges(
        "draft",
        Route(to_judge, options),
        {"judge": "judge", "rewrite": "rewrite", "no draft": "plan"},
    )
    graph.add_conditional_edges(
        "judge",
        Route(to_rewrite, options),
        {"known": "direct", "not known": "rewrite", "not rewritten": "plan"},
    )


def add_rewriting(graph: Draft, parts: Parts[Any]) -> None:
    """Add `rewrite`, `judge_claim` and `plan`: which queries are searched (SlimPLM, 3.3)."""
    options, models, prompts = parts.options, parts.models, parts.prompts
    slim: dict[str, Any] = {"retry_policy": parts.retry, "error_handler": proxy_down("plan")}
    judge_claim = judge_claim_step(models, prompts, options, parts.judge_scorer)
    graph.add_node("rewrite", rewrite_step(models, prompts, options), **slim)
    graph.add_node("judge_claim", judge_claim, **slim)
    graph.add_node("plan", plan_step(options))
    graph.add_conditional_edges(
        "rewrite",
        Route(to_claim_filter, options),
        {"each claim": "judge_claim", "no claim to judge": "plan"},
    )
    graph.add_edge("judge_claim", "plan")


def add_blending(graph: Draft, parts: Parts[Any], merge: Callable[[Any], MergeStrategy]) -> None:
    """Add `retrieve` to `collect`: blended queries, each set filtered (BlendFilter, 3.2 and 3.3).

    Args:
        graph: The graph.
        parts: Models, retriever, options and the rest.
        merge: From the options to how the queries' passages are merged.
    """
    options, models, prompts, retry = parts.options, parts.models, parts.prompts, parts.retry
    knowledge_filter = knowledge_filter_step(models, prompts, options)

    graph.add_node("retrieve", retrieve_step(parts.retriever, options), retry_policy=retry)
    graph.add_node("augment", join_step("augment", options))
    graph.add_node("external", external_step(models, prompts, options), retry_policy=retry)
    graph.add_node("internal", internal_step(models, prompts, options), retry_policy=retry)
    graph.add_node("topic", topic_step(models, prompts, options), retry_policy=retry)
    graph.add_node("blend", blend_step(options))
    graph.add_node("search", retrieve_step(parts.retriever, options, "search"), retry_policy=retry)
    graph.add_node("gather", join_step("gather", options))
    graph.add_node("knowledge_filter", knowledge_filter, retry_policy=retry)
    graph.add_node("collect", collect_step(options, merge))
    graph.add_edge("retrieve", "augment")
    graph.add_conditional_edges(
        "augment", Route(to_augmentation, options), ["external", "internal", "topic", "blend"]
    )
    graph.add_edge("external", "blend")
    graph.add_edge("internal", "blend")
    graph.add_edge("topic", "blend")
    graph.add_conditional_edges(
        "blend",
        Route(to_blended_search, options),
        {"augmented queries": "search", "nothing new": "gather"},
    )
    graph.add_edge("search", "gather")
    graph.add_conditional_edges(
        "gather",
        Route(to_knowledge_filter, options),
        {"each set": "knowledge_filter", "next hop": "external", "no filter": "collect"},
    )
    graph.add_edge("knowledge_filter", "collect")


Contexts = Callable[[Sequence[Document], Any], list[list[Document]]]
"""From the passages and the options in force to the contexts that are asked about one by one."""


def together(passages: Sequence[Document], _options: Options | None = None) -> list[list[Document]]:
    """All passages in one context (Liu et al. 2024, eq. 1); none without passages."""
    return [list(passages)] if passages else []


def one_by_one(
    passages: Sequence[Document], _options: Options | None = None
) -> list[list[Document]]:
    """A context for each passage (Liu et al. 2024, eq. 2)."""
    return [[passage] for passage in passages]


def single_round(
    parts: Parts[Any],
    answer: AnswerStep,
    contexts: Contexts,
    retrieves: Callable[[Any], bool] = lambda _options: True,
) -> CompiledGraph:
    """Wire a method that asks once: a branch per context and sample, then a vote.

    Args:
        parts: Models, retriever, options and the rest.
        answer: How the answer node asks; the graph takes its name.
        contexts: From the passages and the run's options to what the answer node is asked about;
            no context leads straight to the vote, which then says Unknown.
        retrieves: Whether the options ask for retrieval.
    """
    options = parts.options

    def to_search(state: RAGState, opts: Options) -> Goto:
        return to_retrieval(state, opts) if retrieves(opts) else "collect"

    def to_answers(state: RAGState, opts: Options) -> Goto:
        asked = contexts(state["passages"], opts)
        return branches(state, answer.name, opts, contexts=asked) or "vote"

    graph = draft(parts)
    add_question_retrieval(graph, parts, to_search)
    graph.add_node(answer.name, parts.answers(answer), retry_policy=parts.retry)
    graph.add_node("vote", vote_step("vote", answer.name, options))
    graph.add_conditional_edges("collect", Route(to_answers, options), [answer.name, "vote"])
    graph.add_edge(answer.name, "vote")
    graph.add_edge("vote", END)
    return finish(graph, answer.name, parts)


def to_concat_at_limit(state: RAGState, options: Options) -> Goto:
    """Route: a chain that a limit ended without an answer leaves the passages read to Concat."""
    if state["status"] == "answered" or not state["truncated"]:
        return "finish"
    return branches(state, "concat", options, contexts=together(state["passages"])) or "finish"


def add_concat_at_limit(graph: Draft, parts: Parts[Any]) -> None:
    """Add `concat` and its vote: what answers for a chain that a limit ended without an answer."""
    concat = AnswerStep("concat", "concat", round=LAST_ROUND)
    vote = vote_step(
        "vote", "concat", parts.options, truncated=lambda state, _options: state["truncated"]
    )
    graph.add_node("concat", parts.answers(concat), retry_policy=parts.retry)
    graph.add_node("vote", vote)
    graph.add_edge("concat", "vote")
    graph.add_edge("vote", END)


LAST_ROUND = 1_000
"""The round of what is asked behind all rounds of a loop."""


def second_look(
    parts: Parts[Any],
    wanted: Callable[[RAGState, Any], bool],
    look: Callable[[RAGState, Any], Goto],
) -> tuple[Callable[[RAGState, Any], bool], Callable[[RAGState, Any], Goto]]:
    """Return when Unknown is searched for after all, and the route behind the vote that says so.

    Without a retriever it never is: the run ends Unknown.

    Args:
        parts: Retriever and the rest.
        wanted: Whether state and options ask for a second look.
        look: The route to the search.

    Returns:
        `falls_back` of the vote, and the route, which says "answered" where the run ends.
    """

    def falls_back(state: RAGState, options: Any) -> bool:
        return parts.retriever is not None and wanted(state, options)

    def to_second_look(state: RAGState, options: Any) -> Goto:
        if state["status"] == "answered" or not falls_back(state, options):
            return "answered"
        return look(state, options)

    return falls_back, to_second_look


PROMPTS = ("direct", "direct_passages")
"""Names of the answer step's templates that these methods use."""


def to_answers(state: RAGState, options: Options) -> Goto:
    """Route: a branch a sample over all passages; closed book where there are none.

    What was asked closed book before a second look that found nothing is not asked again.
    """
    if looked_in_vain(state):
        return "vote"
    again = 1 if state["known"] and state["retrieved"] else None
    return branches(state, "answer", options, contexts=[state["passages"]], round=again)


def to_search(state: RAGState, options: Options) -> Goto:
    """Route: what is known is answered at once, without any passage; else retrieve."""
    return to_answers(state, options) if state["known"] else to_retrieval(state, options)


def to_decision(state: RAGState, _options: Options) -> str:
    """Route: given passages take the place of decision and retrieval."""
    return "passages given" if state["passages"] else "decide"


def with_retrieval_decision(
    parts: Parts[DecisionT], name: str, decides: str, decide: Step[RAGState, DecisionT]
) -> CompiledGraph:
    """Wire a method whose node `decides` sets `known` and so whether to retrieve.

    What it calls known, and is then answered Unknown, is searched for after all (`second_look`),
    where there is a retriever.

    Args:
        parts: Models, retriever, options and the rest.
        name: Name of the method.
        decides: Name of the deciding node.
        decide: The node itself.
    """
    options = parts.options
    answer = AnswerStep("answer", "direct_passages", closed_template="direct")

    again, to_second_look = second_look(parts, looks_again, to_retrieval)

    graph = draft(parts)
    add_begin(graph, parts)
    graph.add_node(decides, decide, retry_policy=parts.retry)
    add_retrieval(graph, parts)
    graph.add_node("answer", parts.answers(answer), retry_policy=parts.retry)
    graph.add_node("vote", vote_step("vote", "answer", options, falls_back=again))
    graph.add_conditional_edges(
        "begin",
        Route(to_decision, options),
        {"decide": decides, "passages given": "collect"},
    )
    graph.add_conditional_edges(
        decides,
        Route(to_search, options),
        {"known": "answer", "needed": "retrieve"},
    )
    graph.add_conditional_edges("collect", Route(to_answers, options), ["answer", "vote"])
    graph.add_edge("answer", "vote")
    graph.add_conditional_edges(
        "vote",
        Route(to_second_look, options),
        {"answered": END, "not known": "retrieve"},
    )
    return finish(graph, name, parts)
