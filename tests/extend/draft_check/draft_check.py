"""Draft, then check: the model answers, and then reads the passages again with its draft."""

from dataclasses import dataclass

from langgraph.graph import END, START
from ragweave.nodes.step import Goto, Route

from ragweave.graphs import CompiledGraph, Method, Parts, answer_prompts, draft, finish
from ragweave.nodes.answer import AnswerStep, branches
from ragweave.nodes.begin import begin_step
from ragweave.nodes.options import Options
from ragweave.nodes.retrieve import collect_step, join_step, retrieve_step, to_retrieval
from ragweave.nodes.vote import vote_step
from ragweave.state import RAGState


@dataclass(frozen=True, kw_only=True)
class DraftCheckOptions(Options):
    """Options of `draft_check`."""

    check: bool = True
    """Whether the draft is checked; False answers with it."""


def to_draft(state: RAGState, options: DraftCheckOptions) -> Goto:
    """Route: a branch a sample over all passages; nothing to ask without any."""
    contexts = [state["passages"]] if state["passages"] else []
    return branches(state, "draft", options, contexts=contexts) or "vote"


def to_check(state: RAGState, options: DraftCheckOptions) -> Goto:
    """Route: the drafts are hints for a second reading of the same passages."""
    if not options.check:
        return "vote"
    hints = list(dict.fromkeys(one["answer"] for one in state["candidates"].values()))
    return branches(state, "check", options, contexts=[state["passages"]], hints=hints)


def build(parts: Parts[DraftCheckOptions]) -> CompiledGraph:
    """Wire the method: two calls, one where `check` is off."""
    options, retry = parts.options, parts.retry
    checked = AnswerStep("check", "distill", round=1)

    graph = draft(parts)
    graph.add_node("begin", begin_step(options, parts.state))
    graph.add_node("retrieve", retrieve_step(parts.retriever, options), retry_policy=retry)
    graph.add_node("collect", collect_step(options))
    graph.add_node("draft", parts.answers(AnswerStep("draft", "concat")), retry_policy=retry)
    graph.add_node("drafted", join_step("drafted", options))
    graph.add_node("check", parts.answers(checked), retry_policy=retry)
    graph.add_node("vote", vote_step("vote", ("draft", "check"), options))
    graph.add_edge(START, "begin")
    graph.add_conditional_edges("begin", Route(to_retrieval, options), ["retrieve", "collect"])
    graph.add_edge("retrieve", "collect")
    graph.add_conditional_edges("collect", Route(to_draft, options), ["draft", "vote"])
    graph.add_edge("draft", "drafted")
    graph.add_conditional_edges("drafted", Route(to_check, options), ["check", "vote"])
    graph.add_edge("check", "vote")
    graph.add_edge("vote", END)
    return finish(graph, "draft_check", parts)


METHOD = Method(
    name="draft_check",
    summary="Draft an answer, then read the passages again with it.",
    paper="no paper: the example of CONTRIBUTING.md",
    when="To see how a method of your own is added.",
    best="p",
    worst="4·p",
    options=DraftCheckOptions,
    build=build,
    prompts=answer_prompts("concat", "distill"),
)
